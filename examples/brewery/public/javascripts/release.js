// Counts down to the release, and then shows the page as it is from then on. The page comes as any other request gets it:
// from the cache, which has it ready at the second.
const countdown = document.querySelector("[data-until]")

const shown = (seconds) => [seconds / 3600, seconds / 60 % 60, seconds % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":")

const change = async () => {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } })
  const page = new DOMParser().parseFromString(await answer.text(), "text/html")
  document.querySelector("[data-release]").replaceWith(page.querySelector("[data-release]"))
}

const tick = () => {
  const left = Number(countdown.dataset.until) - Date.now()
  if (left <= 0) return change()
  countdown.textContent = shown(Math.ceil(left / 1000))
  setTimeout(tick, left % 1000 || 1000)
}

if (countdown) tick()
