// The dashboard in a browser: what it shows, that it stays up to date by itself, that nothing of an application's runs in it, and
// how it looks. DASHBOARD_URL is the control listener of a server with an application that can be slow and can die (SITE_URL).
import assert from "node:assert/strict"
import { test } from "node:test"
import { address, browse, hardToRead } from "./browser.mjs"

const { url, options } = address("DASHBOARD_URL")
const site = process.env.SITE_URL
const sizes = [["phone", 375, 800], ["desk", 1280, 900]]

const ask = (path, more) => fetch(site + path, more).then(answer => answer.text()).catch(() => "")

test("it shows what the server does, as it does it", options, () => browse(async (page, shot, { complaints }) => {
  page.on("console", message => message.type() === "error" && complaints.push(message.text()))
  const answer = await page.goto(url)
  assert.equal(answer.status(), 200)
  await page.waitForFunction(() => document.querySelector("#state .badge")?.textContent === "ready")
  // Requests appear without a reload, also one that is under way; its path is text, whatever it says.
  const traffic = setInterval(() => { ask("/page"); ask("/private"); ask(`/item/${Math.random()}`) }, 40)
  const slow = ask("/slow/%3Cimg%20src=x%20onerror=alert(1)%3E/<b>bold")
  await page.waitForFunction(() => /GET \/slow\//.test(document.querySelector("#live")?.textContent))
  assert.equal(await page.locator("#live b, #live img").count(), 0)
  // A worker that dies is there a moment later, with a page of its own, and the mark on the charts.
  await ask("/die", { method: "POST" })
  await page.waitForFunction(() => document.querySelector("#incidents a"))
  await page.waitForFunction(() => document.querySelector("#requests .mark.incident"))
  await page.waitForFunction(() => document.querySelectorAll("#memory path.line").length > 0 && document.querySelectorAll("#hits path.line").length > 0)
  await page.waitForTimeout(Number(process.env.DASHBOARD_SECONDS ?? 4) * 1000)
  for (const [name, width, height] of sizes) {
    await page.setViewportSize({ width, height })
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme })
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), `${name}: nothing sticks out`)
      await shot(`dashboard-${name}-${colorScheme}`)
    }
  }
  clearInterval(traffic)
  await ask("/go")
  await slow
  await page.waitForFunction(() => document.querySelector("#live .empty"))
  // The post-mortem.
  await page.emulateMedia({ colorScheme: "light" })
  await page.locator("#incidents a").first().click()
  await page.waitForURL(/\/incidents\/[0-9a-f]{8}$/)
  const words = await page.textContent("main")
  for (const said of ["POST /die", "killed by signal 9", "answered 502"]) assert.ok(words.includes(said), `“${said}” in ${words.slice(0, 1500)}`)
  await shot("dashboard-incident-desk")
  await page.setViewportSize({ width: 375, height: 800 })
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), "nothing sticks out of a phone")
  await page.emulateMedia({ colorScheme: "dark" })
  await shot("dashboard-incident-phone-dark")
  assert.deepEqual(complaints, [])
}))

test("what the doctor found last has a page", options, () => browse(async (page, shot, { complaints }) => {
  page.on("console", message => message.type() === "error" && complaints.push(message.text()))
  await page.goto(url)
  await page.locator("nav[aria-label=Pages] a").click()
  await page.waitForURL(/\/advice$/)
  const words = await page.textContent("main")
  for (const said of ["two changes are worth it", "−1,120 ms of 1,836 ms", "95 % sure: 58 to 64", "paceline doctor apply 1", "threads 5 -> 3", "INSERT INTO visits"]) {
    assert.ok(words.includes(said), `“${said}” in ${words}`)
  }
  // Pieces of pages are text, whatever they say.
  assert.equal(await page.locator("main img, main script, pre b").count(), 0)
  assert.ok((await page.textContent("del >> nth=1")).includes("<script>"))
  for (const [name, width, height] of [...sizes, ["narrow", 400, 800]]) {
    await page.setViewportSize({ width, height })
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme })
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), `${name}: nothing sticks out`)
      const bars = await page.locator(".bars rect").evaluateAll(all => all.map(bar => bar.getBoundingClientRect().width))
      assert.ok(bars.length === 8 && bars[0] > 150 && bars[1] < bars[0] && bars[3] > bars[2], `${name}: ${bars}`)
      await shot(`advice-${name}-${colorScheme}`)
    }
  }
  assert.deepEqual(complaints, [])
}))

for (const path of ["/", "/advice"]) test(`words of ${path} can be read: contrast in light and dark`, options, () => browse(async page => {
  await page.goto(url + path)
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme })
    assert.deepEqual(await hardToRead(page), [], colorScheme)
  }
}))
