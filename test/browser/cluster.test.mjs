// The section Cluster of the dashboard in a browser: two servers that meet at one Valkey, what each of them says of itself, a Valkey that ends
// and comes back, and its password, which is nowhere. CLUSTER_URL is the control listener of the server `one`; test/browser/cluster starts both.
import assert from "node:assert/strict"
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { test } from "node:test"
import { setTimeout as pause } from "node:timers/promises"
import { promisify } from "node:util"
import { address, browse, hardToRead } from "./browser.mjs"

const { url, options } = address("CLUSTER_URL")
const { CLUSTER_DIR: folder = "", CLUSTER_SECRET: secret, PACELINE_BIN: paceline, VALKEY_SERVER: program } = process.env
const [one, other] = ["ONE", "OTHER"].map(name => ({ url: process.env[`${name}_URL`], pid: Number(process.env[`${name}_PID`]), dir: join(folder, name.toLowerCase()) }))
const socket = join(folder, "valkey.sock")

/** The Valkey or Redis that both servers have in their configuration, with its password. It forgets everything when it ends. */
class Valkey {
  async start() {
    const settings = { port: 0, unixsocket: socket, requirepass: secret, save: "", appendonly: "no", dir: folder }
    this.server = spawn(program, Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]), { stdio: ["ignore", "pipe", "inherit"] })
    await new Promise((ready, failed) => {
      let said = ""
      this.server.stdout.on("data", piece => /ready to accept/i.test(said += piece) && ready())
      this.server.once("exit", () => failed(new Error(`it ended: ${said}`)))
    })
  }

  async kill() {
    if (!this.server || this.server.exitCode !== null || this.server.signalCode !== null) return
    const ended = once(this.server, "exit")
    this.server.kill("SIGKILL")
    await ended
  }
}

/** A command in the directory of a server. */
const command = (server, ...words) => promisify(execFile)(paceline, words, { cwd: server.dir })

/** Status and body of what a server answers, and whether its page cache did. */
async function ask(server) {
  const answer = await fetch(`${server.url}/`)
  return { status: answer.status, body: await answer.text(), isHit: /; hit/.test(answer.headers.get("cache-status")) }
}

/** Waits until the row of a server is like this; its cells are parted by bars. */
const row = (page, server, pattern) => page.waitForFunction(([pid, pattern]) => {
  const rows = [...document.querySelectorAll("#cluster tbody tr")].map(row => [...row.cells].map(cell => cell.textContent.trim()).join(" | "))
  return rows.filter(cells => new RegExp(`^\\S+ pid ${pid}(, this one)? \\|`).test(cells)).some(cells => new RegExp(pattern).test(cells))
}, [server.pid, pattern.source])

/** Waits until the page says that the servers are cut off, or does not say so. */
const alarm = (page, is) => page.waitForFunction(is => {
  const words = document.querySelector("#cluster .alarm")?.textContent
  return is ? /^The server that joins them is not reached: .+\. This is what was known before\.$/.test(words) : words === undefined
}, is)

const both = async page => {
  await row(page, one, /, this one \| ready \| g1 one \| 1 of 1 \|/)
  await row(page, other, /^[^,|]+ \| ready \| g\d other \| 1 of 1 \|/)
  await page.waitForFunction(() => document.querySelectorAll("#cluster tbody tr").length === 2)
}

/** Neither the page nor what it is made of has the password of Valkey. */
const tellsNoSecret = async page => {
  const told = [await page.content(), await (await fetch(url)).text(), await (await fetch(`${url}/cluster`)).text()]
  for (const text of told) {
    assert.ok(text.includes(socket), "it names the place")
    assert.ok(!text.includes(secret), text)
  }
}

test("it shows the servers of the cluster, and when they are cut off", options, () => browse(async (page, shot, { complaints }) => {
  page.on("console", message => message.type() === "error" && complaints.push(message.text()))
  const valkey = new Valkey()
  try {
    // Nobody has met anybody yet.
    await page.goto(url)
    await alarm(page, true)
    assert.equal(await page.textContent("#cluster .hint"), `shop, by ${socket}`)
    await tellsNoSecret(page)
    await valkey.start()
    await alarm(page, false)
    await both(page)

    // What the other one does: its requests and hits, closed, restarting, silent. The page is not loaded again.
    await page.evaluate(() => document.body.dataset.same = "yes")
    await row(page, other, /\| 1 of 1 \| \S+ \| .+ \| 0 \| – \| \d+\.\d+\.\d+$/)
    for (let answer; !answer?.isHit; await pause(10)) {
      answer = await ask(other)
      assert.deepEqual([answer.status, answer.body], [200, "new"])
    }
    await row(page, other, /\| 1 of 1 \| [\d.,]+ \| \S+ m?s \| 0 \| \d+ % \| \d+\.\d+\.\d+$/)
    await command(other, "maintenance", "on")
    await row(page, other, /\| closed: 1 of 1 \|/)
    assert.equal((await ask(other)).status, 503)
    await command(other, "maintenance", "off")
    await row(page, other, /\| ready \| g1 other \|/)
    await writeFile(join(other.dir, "version"), "slow")
    await command(other, "restart")
    await row(page, other, /\| restarting \| g1 other \|/)
    await writeFile(join(other.dir, "gate"), "go")
    await row(page, other, /\| ready \| g2 other \| 1 of 1 \|/)
    process.kill(other.pid, "SIGSTOP")
    await row(page, other, /\| silent for \d+ s \| g2 other \|/)
    const marked = page.locator("#cluster tr.warn", { hasText: `pid ${other.pid}` })
    await marked.waitFor()
    process.kill(other.pid, "SIGCONT")
    await both(page)
    await marked.waitFor({ state: "detached" })

    // Valkey is away: the page says so, and shows what was known before.
    await valkey.kill()
    await alarm(page, true)
    await both(page)
    for (const server of [one, other]) assert.equal((await ask(server)).status, 200)
    await tellsNoSecret(page)
    for (const [name, width, height] of [["phone", 375, 800], ["desk", 1280, 900]]) {
      await page.setViewportSize({ width, height })
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme })
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), `${name}: nothing sticks out`)
        assert.deepEqual(await hardToRead(page), [], `${name}, ${colorScheme}`)
        await shot(`dashboard-cluster-${name}-${colorScheme}`)
      }
    }
    await valkey.start()
    await alarm(page, false)
    await both(page)
    await tellsNoSecret(page)
    assert.equal(await page.evaluate(() => document.body.dataset.same), "yes")
    for (const { dir } of [one, other]) assert.ok(!readFileSync(join(dir, "out"), "utf8").includes(secret), "no log has it")
    assert.deepEqual(complaints, [])
  } finally {
    await valkey.kill()
  }
}))
