// The brewery's factories, documents in a store that speaks MongoDB's protocol: test/factories/run starts both.
import assert from "node:assert/strict"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("BREWERY_URL")
const prefix = process.env.SHOT_PREFIX ?? ""

test("factories are put in, found, changed and removed", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/factories`)
  await page.click("text=Remove all")
  await page.waitForSelector("text=None.")
  await page.click("text=Twelve more")
  await page.waitForSelector(".factories tbody tr >> nth=11")
  await page.fill("label:has-text('Name') input", "Kettle & Daughters")
  await page.fill("label:has-text('City') input", "Tranes")
  await page.selectOption("label:has-text('Energy') select", "wood")
  await page.fill("label:has-text('Kettles') input", "4")
  await page.click("text=Put it in")
  await page.waitForSelector(".flash.notice >> text=insert_one")
  await shot(`${prefix}factories`)
  await page.selectOption("#find_energy", "wood")
  await page.check("label:has-text('Tranes') input")
  await page.click("button:text-is('Find')")
  await page.waitForURL(/energy=wood/)
  assert.equal(await page.locator(".factories tbody tr").count(), 1)
  assert.match(await page.textContent(".asked"), /plant\.energy.*\$in/s)
  await shot(`${prefix}factories-found`)
  await page.click("text=One kettle more")
  await page.waitForSelector(".flash.notice >> text=5 kettles")
  await page.setViewportSize({ width: 390, height: 780 })
  await shot(`${prefix}factories-narrow`)
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing sticks out of a narrow window")
  await page.click("text=Remove all")
  await page.waitForSelector("text=None.")
  assert.deepEqual(complaints, [])
}))
