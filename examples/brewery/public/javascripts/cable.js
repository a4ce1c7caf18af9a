// A small client for Action Cable's protocol: connects, subscribes, notices a dead line, comes back.
class Cable {
  static STALE = 8000
  static LONGEST_PAUSE = 8000

  constructor(path, { onstate = () => {} } = {}) {
    this.url = new URL(path, location.href)
    this.url.protocol = this.url.protocol.replace("http", "ws")
    this.onstate = onstate
    this.channels = new Map()
    this.pause = 250
    this.open()
    setInterval(() => { if (this.heard && Date.now() - this.heard > Cable.STALE) this.socket.close() }, 1000)
  }

  open() {
    this.onstate("connecting")
    this.socket = new WebSocket(this.url, ["actioncable-v1-json", "actioncable-unsupported"])
    this.socket.onmessage = event => { this.heard = Date.now(); this.take(JSON.parse(event.data)) }
    this.socket.onclose = () => {
      this.heard = null
      this.onstate("away")
      setTimeout(() => this.open(), this.pause)
      this.pause = Math.min(this.pause * 2, Cable.LONGEST_PAUSE)
    }
  }

  take({ type, identifier, message, reconnect }) {
    const channel = this.channels.get(identifier)
    if (type === "welcome") {
      this.pause = 250
      this.channels.forEach((_, identifier) => this.send({ command: "subscribe", identifier }))
    } else if (type === "confirm_subscription") {
      this.onstate("seated")
    } else if (type === "reject_subscription") {
      this.channels.delete(identifier)
      this.onstate("refused")
    } else if (type === "disconnect") {
      if (reconnect === false) this.socket.onclose = () => this.onstate("refused")
      this.socket.close()
    } else if (message !== undefined && type === undefined) {
      channel?.(message)
    }
  }

  subscribe(channel, received) {
    const identifier = JSON.stringify({ channel })
    this.channels.set(identifier, received)
    return { perform: (action, data = {}) => this.send({ command: "message", identifier, data: JSON.stringify({ action, ...data }) }) }
  }

  send(command) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(command))
  }
}
