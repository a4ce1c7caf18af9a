// Counts the suite's results as its own site does, and compares what did not pass with the exceptions.
//
//   node score.mjs SUITE RESULTS EXCEPTIONS
import fs from 'node:fs'

const [suite, resultsFile, exceptionsFile] = process.argv.slice(2)
const groups = (await import(`${suite}/tests/index.mjs`)).default
groups.push((await import(`${suite}/tests/surrogate-control.mjs`)).default)
const results = JSON.parse(fs.readFileSync(resultsFile))
const exceptions = JSON.parse(fs.readFileSync(exceptionsFile))

const tests = new Map(groups.flatMap(group => group.tests).filter(test => !test.browser_only).map(test => [test.id, test]))

// As lib/display.mjs: a test whose dependency did not pass, or whose setup failed, says nothing.
function outcome (id) {
  const test = tests.get(id)
  if ((test?.depends_on ?? []).some(other => outcome(other) !== 'pass')) return 'depends'
  if (results[id] === true) return 'pass'
  return results[id]?.[0] === 'Setup' ? 'setup' : 'fail'
}

const counts = {}
const wrong = []
for (const [id, test] of tests) {
  const kind = test.kind ?? 'required'
  const came = outcome(id)
  counts[kind] ??= { pass: 0, fail: 0, setup: 0, depends: 0 }
  counts[kind][came]++
  if (kind === 'check') continue
  const listed = exceptions[id]
  if (came === 'pass' && listed) wrong.push(`${id} passes: take it out of exceptions.json and docs/caching.md`)
  if (came !== 'pass' && !listed) wrong.push(`${kind} ${id}: ${came} ${JSON.stringify(results[id])}`)
}
for (const [kind, { pass, fail, setup, depends }] of Object.entries(counts)) {
  console.log(`${kind}: ${pass} pass, ${fail} fail, ${setup + depends} say nothing`)
}
wrong.forEach(line => console.log(line))
process.exit(wrong.length === 0 ? 0 : 1)
