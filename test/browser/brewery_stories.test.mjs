// What the brewery guide shows of Paceline, in Chromium: a story measured with its progress.
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
