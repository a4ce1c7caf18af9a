// Turbo Streams without Turbo: changes parts of a page as <turbo-stream> elements say that an answer or an event brought. Forms with data-streams are sent
// without leaving the page; an element with data-listen gets events.
const TYPE = "text/vnd.turbo-stream.html"

const actions = {
  append: (target, content) => target.append(without(target, content)),
  prepend: (target, content) => target.prepend(without(target, content)),
  before: (target, content) => target.before(content),
  after: (target, content) => target.after(content),
  update: (target, content) => target.replaceChildren(content),
  replace: (target, content) => target.replaceWith(content),
  remove: target => target.remove(),
  // Not Turbo's: page[:details].hide and its opposite.
  hide: target => { target.hidden = true },
  show: target => { target.hidden = false }
}

// What has an id is there once: the author's own note comes by the answer, and by an event too.
const without = (target, content) => {
  for (const child of content.children) if (child.id) document.getElementById(child.id)?.remove()
  return content
}

const apply = html => {
  const page = new DOMParser().parseFromString(html, "text/html")
  for (const stream of page.querySelectorAll("turbo-stream")) {
    const target = document.getElementById(stream.getAttribute("target"))
    const content = stream.querySelector("template")?.content ?? document.createDocumentFragment()
    if (target) actions[stream.getAttribute("action")]?.(target, document.importNode(content, true))
  }
}

document.addEventListener("submit", async event => {
  const form = event.target
  if (!form.matches("[data-streams]")) return
  event.preventDefault()
  const button = form.querySelector("[type=submit]")
  const body = new FormData(form)
  button.disabled = true
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: `${TYPE}, text/html` } })
    if (!answer.headers.get("content-type")?.startsWith(TYPE)) throw new Error(`The server answered ${answer.status}`)
    apply(await answer.text())
  } catch (error) {
    form.insertAdjacentHTML("beforebegin", '<p class="flash alert" role="alert"></p>')
    form.previousElementSibling.textContent = `${error.message}: reload the page, and try again.`
  }
  button.disabled = false
})

const listening = document.querySelector("[data-listen]")
if (listening) {
  const events = new EventSource(listening.dataset.listen)
  events.onopen = () => { listening.dataset.state = "listening" }
  events.onmessage = event => apply(event.data)
  events.onerror = () => { listening.dataset.state = "away" }
}
