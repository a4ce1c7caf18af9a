// Signs in to the demo (SITE) as PERSON at the identity provider, in Chromium, changes the price of a beer to PRICE as somebody would, and prints what the
// audit says of it. It asserts nothing.
import { browse } from "../browser/browser.mjs"

const { SITE: site, PERSON: person, PRICE: price } = process.env
await browse(async (page, shot) => {
  const beer = `${site}/beers/14`
  await page.goto(beer).catch(() => {}) // the page that asks for a ticket leads on by itself
  await page.fill("input[name=login]", person)
  await page.fill("input[name=password]", "any")
  await page.click("button[type=submit]")
  await page.click("button[type=submit]")
  await page.waitForURL(beer)
  await page.click("details.price summary")
  await page.fill("input[name='beer[price]']", price)
  await page.click("text=Charge it")
  await page.waitForSelector(`text=€ ${price}`)
  await page.goto(`${site}/audit`)
  console.log(await page.textContent("tbody tr:first-child"))
  await shot("demo-sso-audit")
}, { ignoreHTTPSErrors: true })
