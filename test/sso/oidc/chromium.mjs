// Opens SITE in Chromium as alice: signs in at the provider, prints the page, its cookies by name, and where a logout leads. It asserts nothing.
import { browse } from "../../browser/browser.mjs"

const site = process.env.SITE
await browse(async (page, shot, { context }) => {
  await page.goto(site)
  await page.fill("input[name=login]", "alice")
  await page.fill("input[name=password]", "any")
  await page.click("button[type=submit]")
  await page.click("button[type=submit]")
  await page.waitForURL(site)
  console.log(await page.textContent("body"))
  for (const cookie of await context.cookies(site)) console.log(`cookie: ${cookie.name}`, cookie.httpOnly, cookie.secure, cookie.sameSite)
  await page.goto(new URL("/.paceline/sso/logout", site).href)
  console.log(`after the logout: ${page.url()}`)
}, { ignoreHTTPSErrors: true })
