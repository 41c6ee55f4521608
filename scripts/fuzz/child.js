// The process in which changed files are loaded and run, case after case: it may die or hang, and its parent (watch.js) notices. Answers
// every case with what came of it. What it calls a fault: an error that is none of Ingot's, or none that a file may cause; tokens and
// logits that cannot be, given out as if they were right; memory of the device that is not given back.

import { readFileSync, writeFileSync } from 'node:fs'
import { isIngotError } from '../../dist/base/error.js'
import { open } from '../../dist/device/open/open.js'
import { load } from '../../dist/llm/model.js'
import { fromBytes } from '../../dist/weights/source.js'
import { loadBases } from './base.js'
import { chooseBase, mutate } from './mutation.js'
import { putTogether } from './parts.js'

/**
 * @typedef {import('../../dist/llm/model.js').Model} Model
 * @typedef {{ seed: number, number: number, base?: string, again?: boolean }} Job `again`: it took too long the first time
 * @typedef {object} Answer
 * @property {number} number
 * @property {string} what was changed
 * @property {string} outcome `ok`, or the code of the error
 * @property {string} [message] of the error
 * @property {string} [fault]
 * @property {number} cpu milliseconds of computing, of all threads
 * @property {number} peak bytes of memory at most, beyond what the process had when it was ready
 * @property {number} size bytes of the file
 */

/** Codes that a file may cause. The rest mean that it got too far. `bad-argument` is what models say that compute no numbers. */
const FROM_FILES = ['bad-file', 'unsupported', 'too-large', 'out-of-memory', 'bad-argument']
const TEXT = 'Once upon a time 😀 </s> there'
const LONGEST_SHOWN = 1500
/** the device, and where a case may be written */
const [deviceName = 'cpu', path = 'case.gguf'] = process.argv.slice(2)

/** @typedef {Pick<Answer, 'outcome' | 'message' | 'fault'>} Outcome */
/** @type {Outcome} */
const OK = { outcome: 'ok' }

const bases = await loadBases()
const { device } = await open(deviceName, { selfTest: false }).catch((/** @type {unknown} */ error) => {
  process.send?.({ unavailable: String(error) })
  process.exit(0)
})
await warmUp()
const ready = memory().now
process.on('message', (/** @type {Job} */ job) => void run(job).then((answer) => process.send?.(answer)))
process.on('disconnect', () => process.exit(0))
process.send?.({ ready: device.detail })

/** Files as they are must run; on a GPU one will do, since each takes seconds to compile. */
async function warmUp() {
  for (const base of deviceName === 'cpu' ? bases : bases.slice(0, 1)) {
    const { outcome, fault } = await attempt(putTogether(base).bytes, 0)
    if (outcome !== 'ok' || fault !== undefined) throw new Error(`${base.name} does not run as it is: ${fault ?? outcome}`)
  }
}

/** @returns {Promise<Answer>} */
async function run(/** @type {Job} */ { seed, number, base: name, again = false }) {
  const base = bases.find((each) => each.name === name) ?? chooseBase(bases, seed, number)
  const { bytes, what } = mutate(base, seed, number)
  // What the driver of a GPU compiles for the file as it is takes seconds of its own: the change is not to blame for them.
  if (again && deviceName !== 'cpu') await attempt(putTogether(base).bytes, number)
  forgetPeak()
  const before = process.cpuUsage()
  const result = await attempt(bytes, number)
  const { user, system } = process.cpuUsage(before)
  return { number, what, ...result, cpu: (user + system) / 1000, peak: memory().peak - ready, size: bytes.length }
}

/** @returns {Promise<Outcome>} */
async function attempt(/** @type {Uint8Array} */ bytes, /** @type {number} */ number) {
  const { buffers } = device.stats
  const result = await loadAndUse(bytes, number).catch(judge)
  const left = device.stats.buffers - buffers
  return left === 0 || result.fault !== undefined ? result : { ...result, fault: `${left} buffers of the device are not freed` }
}

/** @returns {Promise<Outcome>} */
async function loadAndUse(/** @type {Uint8Array} */ bytes, /** @type {number} */ number) {
  const model = await load(sourceOf(bytes, number), { device })
  try {
    const { vocabulary, hasTokenizer } = model
    const text = number % 8 === 5 ? TEXT.repeat(10) : TEXT // some take more than one submission
    const prompt = hasTokenizer ? model.tokenize(text, { addSpecial: true, parseSpecial: true }) : [1, 2, 3].map((id) => id % vocabulary)
    const results = [await generate(model, prompt, number).catch(judge), await evaluate(model, prompt).catch(judge)]
    if (hasTokenizer) results.push(await chat(model).catch(judge))
    return results.find(({ fault }) => fault !== undefined) ?? results[0] ?? OK
  } finally {
    await model.close()
  }
}

/** As a file, which devices may map, and from memory. */
function sourceOf(/** @type {Uint8Array} */ bytes, /** @type {number} */ number) {
  if (number % 4 === 3) return fromBytes(bytes, 'case.gguf')
  writeFileSync(path, bytes)
  return path
}

/** Two tokens: the best, or drawn from the best on the device. */
async function generate(/** @type {Model} */ model, /** @type {number[]} */ prompt, /** @type {number} */ number) {
  const options = number % 2 === 0 ? { temperature: 0 } : { temperature: 0.8, topK: 40, seed: 1 }
  const { tokens } = await model.generate(prompt, { ...options, maxTokens: 2, ignoreEos: true })
  const odd = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= model.vocabulary)
  return odd === undefined ? OK : { ...OK, fault: `token ${odd} of a vocabulary of ${model.vocabulary} was generated` }
}

/** The logits of every position. Those of -Infinity are numbers that models may mean: a token that cannot come. */
async function evaluate(/** @type {Model} */ model, /** @type {number[]} */ prompt) {
  /** @type {number[]} */
  const odd = []
  await model.evaluate(prompt, (rows) => {
    const found = rows.find((value) => Number.isNaN(value) || value === Infinity)
    if (found !== undefined) odd.push(found)
  })
  return odd.length === 0 ? OK : { ...OK, fault: `logits hold ${odd[0]}, and no error says so` }
}

async function chat(/** @type {Model} */ model) {
  const ids = model.renderChat([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi!' },
  ])
  model.detokenize(ids)
  return OK
}

/** @returns {Outcome} */
function judge(/** @type {unknown} */ error) {
  if (!isIngotError(error)) {
    const shown = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { outcome: 'foreign', fault: `foreign error: ${shown.slice(0, LONGEST_SHOWN)}` }
  }
  const { code } = error
  const message = error.message.slice(0, LONGEST_SHOWN)
  return { outcome: code, message, ...(FROM_FILES.includes(code) ? {} : { fault: `${code}: ${message}` }) }
}

/** Bytes of memory that are resident now, and were at most since `forgetPeak`; of the process's whole life where Linux does not say. */
function memory() {
  const kilobytes = (/** @type {string} */ name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0)
  const status = process.platform === 'linux' ? readFileSync('/proc/self/status', 'utf8') : ''
  if (status === '') return { now: process.memoryUsage.rss(), peak: 1024 * process.resourceUsage().maxRSS }
  return { now: 1024 * kilobytes('VmRSS'), peak: 1024 * kilobytes('VmHWM') }
}

function forgetPeak() {
  if (process.platform !== 'linux') return
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {
    // a container may forbid it: then it is the peak of all cases so far
  }
}
