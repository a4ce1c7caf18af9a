// Debian's Chromium, driven by playwright-core, and where screenshots go.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chromium } from "playwright-core"

const screenshots = process.env.SCREENSHOTS ?? join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../../tmp/screenshots")

// Chromium would look up hosts of its own at every start; none of that is wanted in a test.
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"]

/** Runs `visit(page, shot)` in a browser of its own; `shot(name)` takes a picture of the whole page. */
export async function browse(visit, options = {}) {
  const profile = mkdtempSync(join(tmpdir(), "paceline-browser-"))
  mkdirSync(screenshots, { recursive: true })
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: quiet, headless: true, timeout: 120_000, viewport: { width: 1200, height: 800 }, ...options
  })
  context.setDefaultTimeout(60_000)
  try {
    const page = context.pages()[0] ?? await context.newPage()
    const complaints = []
    page.on("pageerror", error => complaints.push(String(error)))
    const shot = name => page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true })
    await visit(page, shot, { context, complaints })
  } finally {
    await context.close()
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** The base address in environment variable `name`, or a reason to skip. */
export function address(name) {
  const url = process.env[name]?.replace(/\/$/, "")
  return { url, options: { skip: url ? false : `${name} is not set`, timeout: 300_000 } }
}

/** Words of a page of the dashboard whose contrast is below 4.5, as element, text and contrast. */
export function hardToRead(page) {
  return page.evaluate(() => {
    const rgb = text => (text.match(/[\d.]+/g) ?? []).map(Number)
    const bright = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
    const ground = element => {
      for (let at = element; at; at = at.parentElement) {
        const colour = getComputedStyle(at).backgroundColor
        if (!/^rgba\(.*, 0\)$/.test(colour) && colour !== "transparent") return rgb(colour)
      }
      return [255, 255, 255]
    }
    return [...document.querySelectorAll("main :not(title), header *")].filter(element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
      .map(element => {
        const style = getComputedStyle(element)
        const [one, other] = [bright(rgb(element.ownerSVGElement ? style.fill : style.color)), bright(ground(element))].sort((a, b) => b - a)
        return [element.tagName, element.textContent.slice(0, 30), (one + 0.05) / (other + 0.05)]
      }).filter(([, , ratio]) => ratio < 4.5)
  })
}
