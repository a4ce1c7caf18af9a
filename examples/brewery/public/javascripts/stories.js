// Measures a story without leaving the page: shows the progress that the server sends line by line, and the figures at the end. The first one, where nobody has
// measured it yet, by itself.
for (const form of document.querySelectorAll("[data-story]")) {
  const buttons = () => document.querySelectorAll("[data-run]")
  const [progress, step] = [form.querySelector("progress"), form.querySelector("[data-step]")]
  const result = form.parentElement.querySelector("[data-result]")

  const take = line => {
    if (line.error) step.textContent = line.error
    if (line.step) step.textContent = line.step
    if (line.done !== undefined) progress.value = line.done
    if (line.html) {
      result.innerHTML = line.html
      step.textContent = ""
    }
  }

  const run = async () => {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { accept: "application/x-ndjson" } })
    if (!answer.ok) throw new Error(answer.status === 409 ? await answer.text() : `The server answered ${answer.status}: reload the page.`)
    let rest = ""
    for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { value, done } = await reader.read()
      if (done) break
      const lines = (rest + value).split("\n")
      rest = lines.pop()
      lines.forEach(line => take(JSON.parse(line)))
    }
  }

  form.addEventListener("submit", async event => {
    event.preventDefault()
    buttons().forEach(button => { button.disabled = true })
    progress.value = 0
    progress.hidden = false
    step.textContent = ""
    try {
      await run()
    } catch (error) {
      step.textContent = error.message
    }
    progress.hidden = true
    buttons().forEach(button => { button.disabled = false })
  })
  if (form.dataset.atOnce) form.requestSubmit()
}
