// What the brewery guide shows of Paceline, in Chromium: a story measured with its progress, a note that appears at once for all who have the page open, the
// admin section.
import assert from "node:assert/strict"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("BREWERY_URL")
const fits = page => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)

test("a story is measured, and shows its progress and its figures", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/stories`)
  // The first one is measured by itself.
  await page.waitForSelector("#xml .bars")
  await page.click("#provision [data-run]:enabled")
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
  // By the stand-in for bin/bench of test/with-server.
  await page.click("#deploy [data-run]:enabled")
  await page.waitForSelector("#deploy .bars")
  await page.waitForSelector("#deploy [data-run]:enabled")
  assert.match(await page.textContent("#deploy .bars"), /puma before/)
  assert.match(await page.textContent("#deploy [data-warning]"), /1 round alone/)
  for (const name of ["rails", "swap"]) {
    assert.equal(await page.locator(`#${name} [data-run]`).count(), 0, "a page can't measure it")
    assert.match(await page.textContent(`#${name}`), new RegExp(`bin/bench story ${name}`))
  }
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

test("the admin section lists, edits and shows who did it", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/admin`)
  await page.click("th >> text=Price")
  await page.waitForSelector("th[aria-sort=ascending] >> text=Price")
  await page.selectOption("select[name='filter[style]']", "Stout")
  await page.click("text=Find")
  await page.waitForSelector("text=/^\\d+ records?$/")
  await shot("brewery-admin-list")

  await page.click("text=New beer")
  await page.selectOption("label:has-text('Brewery') select", { index: 3 })
  const name = `Velvet Anvil ${Date.now()}`
  for (const [field, value] of [["Name", name], ["Style", "Stout"], ["ABV", "5.1"], ["IBU", "35"], ["EBC", "80"], ["Price", "4.5"]]) await page.fill(`label:has-text('${field}') input`, value)
  await shot("brewery-admin-form")
  await page.click("text=Save")
  await page.waitForSelector(".flash.alert >> text=About can't be blank")
  await page.fill("label:has-text('About') textarea", "Made in a browser.")
  await page.click("text=Save")
  await page.waitForSelector(".flash.notice")
  await page.click("text=10 % cheaper")
  await page.waitForSelector("text=€ 4.05")
  assert.match(await page.textContent(".history tbody tr:first-child"), /Ines.*Price: 4\.5 → 4\.05/s)
  await shot("brewery-admin-record")
  await page.setViewportSize({ width: 390, height: 780 })
  assert.ok(await fits(page), "nothing sticks out of a narrow window")
  await shot("brewery-admin-narrow")
  await page.click("text=Delete")
  await page.waitForSelector(`.flash.notice >> text=${name} is gone`)
  assert.deepEqual(complaints, [])
}, { httpCredentials: { username: "Ines", password: "cellar" } }))
