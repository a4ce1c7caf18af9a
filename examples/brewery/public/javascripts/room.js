const room = document.querySelector("[data-room]")
const part = name => room.querySelector(`[data-${name}]`)
const words = { connecting: "Looking for a seat …", away: "The line is gone; trying again …", seated: "You are seated", refused: "There is no seat for you" }

const line = (who, what, when, kind = "") => {
  const item = document.createElement("li")
  item.className = kind
  for (const [tag, text] of [["b", who], ["span", what], ["time", when]]) {
    const element = document.createElement(tag)
    element.textContent = text
    item.append(element)
  }
  part("talk").append(item)
  item.scrollIntoView({ block: "nearest" })
}

let me = ""
const cable = new Cable(document.querySelector("meta[name=action-cable-url]").content, {
  onstate(state) {
    room.dataset.state = state
    part("state").textContent = state === "seated" && me ? `You are seated as ${me}` : words[state]
    room.querySelectorAll("input, button").forEach(field => { field.disabled = state !== "seated" })
  }
})

const table = cable.subscribe("TastingRoomChannel", message => {
  if (message.kind === "welcome") {
    me = message.guest
    part("state").textContent = `You are seated as ${me}`
  }
  if (message.kind === "said") line(message.guest === me ? "you" : message.guest, message.words, message.at, message.guest === me ? "mine" : "")
  if (message.kind === "echo") line("echo", message.data.words, `${Math.round(performance.now() - message.data.sent)} ms`, "echo")
})

part("say").addEventListener("submit", event => {
  event.preventDefault()
  const field = event.target.words
  if (field.value.trim()) table.perform("say", { words: field.value })
  field.value = ""
  field.focus()
})

part("echo").addEventListener("click", () => table.perform("echo", { words: "hello?", sent: performance.now() }))
