// The brewery guide: its pages, a tasting note, a label, the tasting room over Action Cable, the ticker over server-sent events.
import assert from "node:assert/strict"
import { test } from "node:test"
import { deflateSync } from "node:zlib"
import { address, browse } from "./browser.mjs"

const { url, options } = address("BREWERY_URL")

test("pages, in the light and in the dark, wide and narrow", options, () => browse(async (page, shot, { complaints }) => {
  for (const [path, name] of [["/", "home"], ["/breweries", "breweries"], ["/breweries/3", "brewery"], ["/beers", "beers"], ["/beers/7", "beer"], ["/search?q=raven", "search"]]) {
    const answer = await page.goto(url + path)
    assert.equal(answer.status(), 200, path)
    await shot(`brewery-${name}`)
  }
  await page.emulateMedia({ colorScheme: "dark" })
  await page.goto(`${url}/beers/7`)
  await shot("brewery-beer-dark")
  await page.setViewportSize({ width: 390, height: 780 })
  await page.goto(url)
  await shot("brewery-home-narrow")
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing sticks out of a narrow window")
  assert.deepEqual(complaints, [])
}))

test("a tasting note is refused, then kept, and its author remembered", options, () => browse(async (page, shot) => {
  const words = `Bread crust and a little smoke ${Date.now()}`
  await page.goto(`${url}/beers/9`)
  await page.fill("#note_author", "Ines")
  await page.fill("#note_body", "short")
  await page.click("text=Leave the note")
  await page.waitForSelector(".flash.alert")
  await shot("brewery-note-refused")
  await page.fill("#note_body", words)
  await page.click("text=Leave the note")
  await page.waitForSelector(".flash.notice")
  assert.ok((await page.textContent("main")).includes(words))
  assert.equal(await page.inputValue("#note_author"), "Ines")
}))

test("a label is uploaded and shown", options, () => browse(async (page, shot) => {
  await page.goto(`${url}/beers/11`)
  await page.click("text=Change the label")
  await page.setInputFiles("input[name=picture]", { name: "label.png", mimeType: "image/png", buffer: picture(480, 600) })
  await page.click("text=Put it on")
  await page.waitForSelector(".flash.notice")
  await page.waitForFunction(() => document.querySelector("img.label")?.naturalWidth === 480)
  await shot("brewery-label")
  await page.click("text=Change the label")
  await page.click("text=Take it off")
  await page.waitForSelector(".label.made")
}))

test("a price is changed, and the book says who did it", options, () => browse(async (page, shot, { complaints }) => {
  const price = (2 + Math.floor(Math.random() * 900) / 100).toFixed(2)
  await page.goto(`${url}/beers/13`)
  await page.click("text=Change the price")
  await page.fill("input[name='beer[price]']", price)
  await page.click("text=Charge it")
  await page.waitForSelector(".flash.notice")
  assert.ok((await page.textContent(".facts")).includes(`€ ${price}`))
  await shot("brewery-price")
  await page.click("details.price summary")
  await page.click("details.price a")
  await page.waitForSelector(".book")
  const row = await page.textContent(".book tbody tr:first-child")
  assert.ok(row.includes(`€ ${price}`) && row.includes("Ines"), row)
  await shot("brewery-audit")
  await page.setViewportSize({ width: 390, height: 780 })
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing sticks out of a narrow window")
  await shot("brewery-audit-narrow")
  assert.deepEqual(complaints, [])
}, { httpCredentials: { username: "Ines", password: "cellar" } }))

test("the tasting room hears and echoes, and comes back after the line was cut", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/tasting-room`)
  await page.waitForSelector("[data-room][data-state=seated]")
  await page.fill("input[name=words]", "It smells of fresh bread.")
  await page.press("input[name=words]", "Enter")
  await page.waitForSelector(".talk .mine >> text=It smells of fresh bread.")
  await page.click("[data-echo]")
  await page.waitForSelector(".talk .echo")
  await shot("brewery-tasting-room")

  // "away" lasts a quarter of a second, which a poll may miss.
  await page.evaluate(() => new Promise(resolve => {
    const room = document.querySelector("[data-room]")
    new MutationObserver(() => room.dataset.state === "away" && resolve()).observe(room, { attributes: true })
    cable.socket.close()
  }))
  await page.waitForSelector("[data-room][data-state=seated]")
  await page.click("[data-echo]")
  await page.waitForFunction(() => document.querySelectorAll(".talk .echo").length === 2)
  assert.deepEqual(complaints, [])
}))

test("the ticker pours line by line", options, () => browse(async (page, shot) => {
  await page.goto(`${url}/ticker`)
  await page.waitForFunction(() => document.querySelectorAll(".talk li").length >= 3)
  assert.ok(await page.locator(".talk li").count() < 30, "the lines come one by one, not all at the end")
  await shot("brewery-ticker")
}))

/** A PNG of some colours, made here. */
function picture(width, height) {
  const rows = Buffer.alloc((width * 3 + 1) * height)
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const ring = Math.sin(Math.hypot(x - width / 2, y - height / 2) / 18) * 30
    rows.set([190 + ring, 110 + ring + y / 12, 40 + x / 9], y * (width * 3 + 1) + 1 + x * 3)
  }
  const table = Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1; return n })
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data])
    const length = Buffer.alloc(4), crc = Buffer.alloc(4)
    length.writeUInt32BE(data.length)
    crc.writeUInt32BE((body.reduce((sum, byte) => table[(sum ^ byte) & 255] ^ (sum >>> 8), -1) ^ -1) >>> 0)
    return Buffer.concat([length, body, crc])
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))])
}

test("a beer goes on sale at its time, and the page that is open shows it", options, () => browse(async (page, shot, { complaints }) => {
  await page.goto(`${url}/release`)
  const waits = await page.locator("[data-release][data-state=waiting]").count() === 1
  const until = waits && Number(await page.getAttribute("[data-until]", "data-until"))
  await shot("brewery-release-before")
  // The server may be one whose release is hours away. test/browser/release serves one that is not.
  assert.ok(!process.env.RELEASE_AT || waits, "the release has begun before Chromium was there")
  if (waits && until - Date.now() < 120_000) {
    await page.waitForSelector("[data-release][data-state=on-sale]", { timeout: 150_000 })
    assert.ok(Date.now() >= until, "not before its time")
    await shot("brewery-release-after")
    const answer = await page.goto(`${url}/release`)
    assert.match(answer.headers()["cache-status"], /hit/)
  }
  assert.deepEqual(complaints, [])
}))
