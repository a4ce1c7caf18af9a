// The page that says why an application doesn't start. BROKEN_URL serves one that fails; BROKEN_SAYS is a part of what it must say.
import assert from "node:assert/strict"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("BROKEN_URL")
const name = process.env.SHOT_PREFIX ?? "startup-error"

test("the browser shows which step failed and what to do", options, () => browse(async (page, shot) => {
  const answer = await page.goto(url)
  assert.ok(answer.status() >= 500, `status ${answer.status()}`)
  const words = await page.textContent("body")
  for (const said of (process.env.BROKEN_SAYS ?? "").split("|").filter(Boolean)) assert.ok(words.includes(said), `“${said}” in: ${words.slice(0, 2000)}`)
  await shot(name)
  await page.setViewportSize({ width: 390, height: 780 })
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "nothing sticks out of a narrow window")
  await shot(`${name}-narrow`)
  await page.emulateMedia({ colorScheme: "dark" })
  await page.setViewportSize({ width: 1200, height: 800 })
  await shot(`${name}-dark`)
}))
