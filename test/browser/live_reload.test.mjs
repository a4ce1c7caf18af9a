// Live reload in a real browser. LIVE_URL serves a copy of live_app, which is in LIVE_DIR.
import assert from "node:assert/strict"
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("LIVE_URL")
const path = name => join(process.env.LIVE_DIR, name)
const read = name => readFileSync(path(name), "utf8")
const view = "app/views/beers/index.html.erb"

/** Writes as editors do: beside the file, then in its place. */
function write(name, text) {
  mkdirSync(dirname(path(name)), { recursive: true })
  writeFileSync(`${path(name)}~`, text)
  renameSync(`${path(name)}~`, path(name))
}
const edit = (name, from, to) => write(name, read(name).replace(from, to))

/** A page of which we know whether it was loaded again: `mark` is gone then. */
async function open(page) {
  const streamed = page.waitForResponse(/\.paceline\/live-reload\?/)
  await page.goto(url)
  await streamed
  await page.evaluate(() => { window.mark = true })
}
const isSame = page => page.evaluate(() => window.mark === true)
const heading = (page, text) => page.waitForFunction(text => document.querySelector("h1")?.textContent === text, text)
const colour = (page, value) => page.waitForFunction(value => getComputedStyle(document.querySelector("h1")).color === value, value)

test("a view that is edited changes in place", options, () => browse(async (page, shot, { complaints }) => {
  await open(page)
  await page.fill("#order", "two Pils")
  await page.fill("textarea", "in the garden")
  await page.click("summary")
  await page.focus("#order")
  await page.evaluate(() => { document.querySelector("#order").setSelectionRange(1, 3); scrollTo(0, 120) })
  edit(view, "On tap", "On tap today")
  await heading(page, "On tap today")
  edit("app/controllers/beers_controller.rb", "%w[Pils", "%w[Bock Pils")
  await page.waitForSelector("li:has-text('Bock')")
  assert.deepEqual(await page.$$eval("li", all => all.map(one => one.textContent)), ["Bock", "Pils", "Alt", "Weizen"])
  const kept = await page.evaluate(() => [document.activeElement.id, document.activeElement.value, document.activeElement.selectionStart,
    document.querySelector("textarea").value, document.querySelector("details").open, scrollY])
  assert.deepEqual(kept, ["order", "two Pils", 1, "in the garden", true, 120])
  assert.ok(await isSame(page), "the page was not loaded again")
  await shot("live-reload-view")
  assert.deepEqual(complaints, [])
}))

test("a stylesheet that is edited is the only thing that is loaded", options, () => browse(async (page, shot, { complaints }) => {
  await open(page)
  await page.fill("#order", "one Alt")
  edit("public/site.css", /h1 {[^}]*}/, "h1 { color: rgb(200, 0, 0); }")
  await colour(page, "rgb(200, 0, 0)")
  edit("public/site.css", "200, 0, 0", "0, 150, 0")
  await colour(page, "rgb(0, 150, 0)")
  await page.waitForFunction(() => document.querySelectorAll("link[rel=stylesheet]").length === 1)
  assert.equal(await page.inputValue("#order"), "one Alt")
  edit(view, "</ul>", "</ul><p id=new>A page keeps its new colours.</p>")
  await page.waitForSelector("#new")
  await colour(page, "rgb(0, 150, 0)")
  assert.ok(await isSame(page), "the page was not loaded again")
  await shot("live-reload-style")
  assert.deepEqual(complaints, [])
}))

test("an error covers the page until it is corrected", options, () => browse(async (page, shot) => {
  await open(page)
  await page.fill("#order", "one Weizen")
  const good = read(view)
  write(view, good.replace("<% end %>", "<% ende %>"))
  const error = page.frameLocator("iframe")
  await error.locator("body").filter({ hasText: /SyntaxError|syntax error/ }).waitFor()
  await shot("live-reload-error")
  write(view, good)
  await page.waitForSelector("iframe", { state: "detached" })
  assert.equal(await page.inputValue("#order"), "one Weizen")
  assert.ok(await isSame(page), "the page was not loaded again")
}))

test("code that is restarted: the start-up page comes and goes by itself", options, () => browse(async (page, shot) => {
  await open(page)
  await page.fill("#order", "a Bock")
  write("config/initializers/beers.rb", "Beers.all\n")
  const error = page.frameLocator("iframe")
  await error.locator("body").filter({ hasText: "uninitialized constant Beers" }).waitFor()
  await shot("live-reload-start-up-page")

  // A tab that was opened meanwhile shows the error alone, and follows as well.
  const other = await page.context().newPage()
  await other.goto(url)
  assert.match(await other.textContent("body"), /uninitialized constant Beers/)
  await page.bringToFront()
  write("config/initializers/beers.rb", "# nothing any more\n")
  await page.waitForSelector("iframe", { state: "detached" })
  assert.equal(await page.inputValue("#order"), "a Bock")
  await other.bringToFront()
  await other.waitForSelector("h1:has-text('On tap')")
}))

test("a script that changes loads the page again", options, () => browse(async page => {
  await open(page)
  write("public/site.js", "1\n")
  await page.waitForFunction(() => window.mark === undefined)
  await heading(page, await page.textContent("h1"))
}))
