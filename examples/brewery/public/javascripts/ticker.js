const ticker = document.querySelector("[data-ticker]")
const talk = ticker.querySelector("[data-talk]")
const state = ticker.querySelector("[data-state]")
const events = new EventSource(ticker.dataset.ticker)

events.addEventListener("poured", event => {
  const { beer, at } = JSON.parse(event.data)
  const item = document.createElement("li")
  for (const [tag, text] of [["b", `no. ${event.lastEventId}`], ["span", beer], ["time", at]]) {
    const element = document.createElement(tag)
    element.textContent = text
    item.append(element)
  }
  talk.prepend(item)
  ticker.dataset.state = "seated"
  state.textContent = "Pouring"
})

events.addEventListener("closed", event => {
  events.close()
  ticker.dataset.state = "away"
  state.textContent = `Last orders: ${JSON.parse(event.data).poured} glasses were poured`
})

events.onerror = () => {
  ticker.dataset.state = "away"
  state.textContent = "The line is gone; trying again …"
}
