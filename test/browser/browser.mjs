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
