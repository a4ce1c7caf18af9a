// Redmine as a person uses it: log in, file an issue with a picture, find it.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { address, browse } from "./browser.mjs"

const { url, options } = address("REDMINE_URL")
const name = process.env.SHOT_PREFIX ?? "redmine"

test("log in, create an issue with an attachment, find it", options, () => browse(async (page, shot, { complaints }) => {
  const account = JSON.parse(readFileSync(process.env.REDMINE_ACCOUNT ?? new URL("../../tmp/redmine/account.json", import.meta.url)))
  const subject = `The mash tun sings at night ${Date.now()}`
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 7 + (i >> 8)) % 256))

  await page.goto(`${url}/login`)
  await page.fill("#username", account.login)
  await page.fill("#password", account.password)
  await page.click("#login-submit")
  await page.waitForSelector("#loggedas")

  await page.goto(`${url}/projects/${account.project}/issues/new`)
  await page.fill("#issue_subject", subject)
  await page.fill("#issue_description", "A low hum, *about* 50 Hz.")
  // Redmine's script sends the file at once, by XMLHttpRequest, and writes its token into the form.
  await page.setInputFiles("input[type=file].file_selector", { name: "hum.bin", mimeType: "application/octet-stream", buffer: bytes })
  await page.waitForFunction(() => document.querySelector("input[name='attachments[1][token]']")?.value)
  await shot(`${name}-new-issue`)
  await page.click("#issue-form input[name=commit]")
  await page.waitForSelector("#flash_notice")
  assert.match(await page.textContent("#content .subject"), new RegExp(subject))
  await shot(`${name}-issue`)

  const link = await page.getAttribute("#content .attachments a[href*='/attachments/download/'], #content .attachments a.icon-download", "href")
  const back = await page.request.get(new URL(link, url).href)
  assert.ok(bytes.equals(await back.body()), "the attachment comes back byte for byte")

  await page.goto(`${url}/projects/${account.project}/issues`)
  await page.waitForSelector("table.issues")
  assert.ok((await page.textContent("table.issues")).includes(subject))
  // Debian's Redmine 6 loads two script libraries that complain of each other, whoever serves them.
  assert.deepEqual(complaints.filter(words => !words.includes("use rails-ujs only")), [])
}))
