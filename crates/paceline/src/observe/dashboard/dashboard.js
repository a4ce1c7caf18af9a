// Keeps an open dashboard up to date: each event is an object of HTML by the id of the element that it fills. The server has
// escaped all of it. A page that nobody sees does not ask.
"use strict"
const address = document.body.dataset.events
const state = document.getElementById("link")
let source = null
let again = 0

function say(live) {
  document.body.classList.toggle("away", !live)
  const words = live ? "live" : "no connection"
  if (state.textContent !== words) state.textContent = words
}

function fill(parts) {
  for (const [id, html] of Object.entries(parts)) {
    const element = document.getElementById(id)
    // What somebody has selected, or is about to follow, stays as it is for the moment.
    const selection = getSelection()
    const used = element && (element.contains(document.activeElement) && document.activeElement !== document.body ||
      !selection.isCollapsed && element.contains(selection.anchorNode))
    if (element && !used) element.innerHTML = html
  }
}

function open() {
  clearTimeout(again)
  if (source || document.hidden) return
  source = new EventSource(address)
  source.onmessage = event => {
    say(true)
    fill(JSON.parse(event.data))
  }
  source.onerror = () => {
    say(false)
    // A browser gives up for good where it gets another answer than a stream.
    if (source && source.readyState === EventSource.CLOSED) {
      close()
      again = setTimeout(open, 5000)
    }
  }
}

function close() {
  if (source) source.close()
  source = null
}

if (address) {
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open())
  addEventListener("pagehide", close)
  addEventListener("pageshow", open)
  open()
}
