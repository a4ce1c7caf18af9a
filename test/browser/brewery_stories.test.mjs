// What the brewery guide shows of Paceline, in Chromium: a story measured with its progress, a note that appears at once for all who have the page open.
import assert from "node:assert/strict"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("BREWERY_URL")
const fits = page => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)

test("a story is measured, and shows its progress and its figures", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/stories`)
  await page.click("#provision [data-run]")
  await page.waitForFunction(() => {
    const [progress, step] = [document.querySelector("#provision progress"), document.querySelector("#provision [data-step]")]
    return progress.value > 0 && progress.value < 1 && step.textContent.includes("Paceline::HTTP")
  })
  assert.ok(await page.isDisabled("#xml [data-run]"), "one measurement at a time")
  await shot("brewery-stories-measuring")
  await page.waitForSelector("#provision .bars")
  await page.click("#one_write [data-run]:enabled")
  await page.waitForSelector("#one_write .bars")
  await page.waitForSelector("#one_write [data-run]:enabled")
  assert.equal(await page.locator("#provision .bars tr").count(), 3)
  assert.match(await page.textContent("#provision .bars tr:last-child"), /times as fast/)
  await shot("brewery-stories")
  await page.emulateMedia({ colorScheme: "dark" })
  await page.setViewportSize({ width: 390, height: 780 })
  await page.reload()
  assert.ok(await fits(page), "nothing sticks out of a narrow window")
  await shot("brewery-stories-narrow")
  assert.deepEqual(complaints, [])
}))

test("a note changes the page at once, also where others have it open", options, () => browse(async (page, shot, { context, complaints }) => {
  const words = `Toffee, then green apple ${Date.now()}`
  await page.goto(`${url}/beers/31`)
  const other = await context.newPage()
  await other.goto(`${url}/beers/31`)
  for (const each of [page, other]) await each.waitForSelector("[data-listen][data-state=listening]", { state: "attached" })
  const count = Number(await page.textContent("#note_count"))
  await page.evaluate(() => { window.same = true })

  await page.fill("#note_author", "Oluf")
  await page.fill("#note_body", words)
  await page.click("text=Leave the note")
  await page.waitForSelector(`#notes >> text=${words}`)
  await page.waitForSelector("#note_form", { state: "hidden" })
  assert.ok(await page.evaluate(() => window.same), "the page was not loaded again")
  await other.waitForSelector(`#notes >> text=${words}`)
  for (const each of [page, other]) assert.equal(await each.textContent("#note_count"), String(count + 1))
  assert.equal(await page.textContent("#note_average"), await other.textContent("#note_average"))
  assert.ok(await other.isVisible("#note_form"), "others can still write one")
  // The author gets it by the answer, and by an event too.
  await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 600)))
  assert.equal(await page.locator(`#notes >> text=${words}`).count(), 1)
  await shot("brewery-note-at-once")
  assert.deepEqual(complaints, [])
}))
