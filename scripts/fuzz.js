// Changed model files through load and two tokens, in processes that are watched: `npm run fuzz -- [COUNT] [--seed N]
// [--device cpu|wasm|webgpu]`. A file from anywhere may be refused, never crash, hang, eat the memory or give garbage as if it were right.
//
// A seed, a number and the name of a file make a case: each fault is printed with the command that repeats it, to which `--write PATH` adds
// the changed file. `--list` prints what came of every case. Without a device, COUNT is shared out among all that are here.

import { writeFileSync } from 'node:fs'
import { loadBases } from './fuzz/base.js'
import { chooseBase, mutate } from './fuzz/mutation.js'
import { DEVICE_NAMES, fuzz, megabytes, missingDevice } from './fuzz/watch.js'

/** @typedef {import('./fuzz/watch.js').DeviceName} DeviceName */

/** Of COUNT: drivers compile slowly. @type {Record<DeviceName, number>} */
const SHARES = { cpu: 0.6, wasm: 0.3, webgpu: 0.1 }
const DEFAULT_COUNT = 2000
const SAY_EVERY = 500 // cases
const LONGEST_LISTED = 300

const args = process.argv.slice(2)
const option = (/** @type {string} */ name) => (args.includes(`--${name}`) ? args[args.indexOf(`--${name}`) + 1] : undefined)
const number = (/** @type {string} */ name, /** @type {number} */ otherwise) => {
  const value = Number(option(name) ?? otherwise)
  return Number.isSafeInteger(value) && value >= 0 ? value : fail(`--${name} must be a whole number, got ${option(name)}`)
}

const listing = args.includes('--list')
const single = option('case') !== undefined
const count = single ? 1 : Number(/^\d+$/.test(args[0] ?? '') ? args[0] : DEFAULT_COUNT)
const seed = number('seed', 1)
let from = number('case', 0)
const base = option('base')
const bases = await loadBases()
const names = bases.map(({ name }) => name)
if (base !== undefined && !names.includes(base)) fail(`no such file to change: ${base}; there are ${names.join(', ')}`)
const asked = option('device')
if (asked !== undefined && !DEVICE_NAMES.includes(/** @type {DeviceName} */ (asked))) {
  fail(`unknown device ${asked}; known: ${DEVICE_NAMES.join(', ')}`)
}
const baseOf = (/** @type {number} */ at) => bases.find(({ name }) => name === base) ?? chooseBase(bases, seed, at)

if (single) {
  const { bytes, what } = mutate(baseOf(from), seed, from)
  say(`case ${from} of seed ${seed}: ${what}`)
  const path = option('write')
  if (path !== undefined) writeFileSync(path, bytes)
}
let failed = 0
for (const device of asked === undefined ? DEVICE_NAMES : [/** @type {DeviceName} */ (asked)]) {
  const missing = missingDevice(device)
  if (missing !== undefined && asked === undefined) {
    say(`${device}: left out: ${missing}`)
    continue
  }
  const cases = asked === undefined && !single ? Math.ceil(count * SHARES[device]) : count
  failed += await run(device, cases)
  if (!single) from += cases // other files on another device
}
process.exit(failed === 0 ? 0 : 1)

async function run(/** @type {DeviceName} */ device, /** @type {number} */ cases) {
  const begun = Date.now()
  const seconds = () => Math.round((Date.now() - begun) / 1000)
  const { outcomes, faults, most, repeated, detail } = await fuzz({
    device,
    seed,
    from,
    count: cases,
    ...(base === undefined ? {} : { base }),
    onFault: ({ number, fault }) => {
      const changed = baseOf(number)
      say(`FAULT on ${device}: ${mutate(changed, seed, number).what}\n  ${fault.replaceAll('\n', '\n  ')}`)
      say(`  again: npm run fuzz -- --seed ${seed} --case ${number} --base ${changed.name} --device ${device}`)
    },
    onCase: ({ number, outcome, message = '', what }) => {
      if (listing) say(`${number} ${outcome}: ${what} -> ${message.slice(0, LONGEST_LISTED)}`)
      const done = number - from + 1
      if (done % SAY_EVERY === 0) say(`${device}: ${done} of ${cases}, ${seconds()} s`)
    },
  })
  const shown = Object.entries(outcomes).sort(([, a], [, b]) => b - a)
  const all = shown.map(([outcome, times]) => `${times} ${outcome}`).join(', ')
  say(`${device} (${detail}): ${cases} cases of seed ${seed} in ${seconds()} s: ${all}; ${faults.length} faults`)
  say(
    `  a case took at most ${Math.round(most.milliseconds)} ms (case ${most.slowest}), and ${megabytes(most.memory)} MB beyond its file; ` +
      `${repeated} were repeated in a fresh process`,
  )
  return faults.length
}

function say(/** @type {string} */ line) {
  process.stdout.write(`${line}\n`)
}

function fail(/** @type {string} */ message) {
  process.stderr.write(`${message}\n`)
  return process.exit(2)
}
