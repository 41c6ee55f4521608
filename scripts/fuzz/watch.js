// Runs cases in a child process and watches it: one that dies, does not answer in time or takes too much memory has found a fault, as has
// one that says so itself. A child serves thousands of cases; a new one is started only after a fault.

import { fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { driverEnvironment, findDrivers } from '../drivers.js'

/**
 * @typedef {import('./child.js').Answer} Answer
 * @typedef {import('./child.js').Job} Job
 * @typedef {'cpu' | 'wasm' | 'webgpu'} DeviceName
 * @typedef {{ number: number, fault: string, what: string }} Fault
 * @typedef {object} FuzzOptions
 * @property {DeviceName} device
 * @property {number} seed
 * @property {number} from the first case
 * @property {number} count
 * @property {string} [base] the file to change, by name; else each case chooses
 * @property {number} [longest] milliseconds of one case (default 5000)
 * @property {string} [program] what is run instead of child.js: for tests of the watch itself
 * @property {(fault: Fault) => void} [onFault]
 * @property {(verdict: Verdict & { number: number }) => void} [onCase]
 */

const CHILD = fileURLToPath(new URL('child.js', import.meta.url))
const LONGEST = 5000 // milliseconds of one case
/** A case that took too long may take so many times as long when it is repeated, if it waits and does not compute. */
const PATIENCE = 10
const LONGEST_START = 120_000 // milliseconds: a GPU's driver compiles a whole model
const MOST_MEMORY = 500 << 20 // bytes beyond the file
const STDERR_SHOWN = 1500

/** @type {Record<DeviceName, () => { name: string, env: NodeJS.ProcessEnv } | { missing: string }>} */
const DEVICES = {
  cpu: () => ({ name: 'cpu', env: {} }),
  wasm: () => ({ name: 'cpu', env: { INGOT_CPU: 'wasm' } }),
  webgpu: () => {
    const drivers = Object.values(findDrivers())
    const wished = process.env.INGOT_WEBGPU_DRIVER // what a test project is for; else lavapipe, which compiles faster
    const driver = drivers.findLast(({ name, icd }) => icd !== undefined && (wished === undefined || wished === name))
    if (driver === undefined) return { missing: drivers.map(({ hint }) => hint).join('; ') }
    return { name: 'webgpu', env: driverEnvironment(driver) }
  },
}
export const DEVICE_NAMES = /** @type {DeviceName[]} */ (Object.keys(DEVICES))

/** Why this device cannot be fuzzed here, or undefined. */
export function missingDevice(/** @type {DeviceName} */ device) {
  const found = DEVICES[device]()
  return 'missing' in found ? found.missing : undefined
}

/** Runs the cases; gives what came of them, by outcome, and the faults. */
export async function fuzz(/** @type {FuzzOptions} */ options) {
  const { seed, from, count, base, longest = LONGEST, onFault, onCase } = options
  /** @type {Record<string, number>} */
  const outcomes = {}
  /** @type {Fault[]} */
  const faults = []
  /** of a case at most: bytes beyond the file, milliseconds, and which took them */
  const most = { memory: 0, milliseconds: 0, slowest: from }
  let repeated = 0
  let detail = ''
  const scratch = mkdtempSync(join(tmpdir(), 'ingot-fuzz-'))
  /** @type {Child | undefined} */
  let child
  try {
    for (let number = from; number < from + count; number++) {
      child ??= await Child.start(options, join(scratch, 'case.gguf'))
      const job = { seed, number, ...(base === undefined ? {} : { base }) }
      let verdict = await child.run(job, longest)
      detail = child.detail
      // A process keeps memory of the cases before, and a busy machine lets it wait: what counts is what a fresh one does and computes.
      if (verdict.outcome === HANG || verdict.outcome === MEMORY) {
        await child.end()
        child = await Child.start(options, join(scratch, 'case.gguf'))
        verdict = await child.run({ ...job, again: true }, PATIENCE * longest)
        if (verdict.cpu > longest) verdict = { ...verdict, outcome: HANG, fault: `it took ${verdict.cpu / 1000} s of computing` }
        repeated++
      }
      const { outcome, fault, what, excess = 0, milliseconds } = verdict
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
      most.memory = Math.max(most.memory, excess)
      if (milliseconds > most.milliseconds) Object.assign(most, { milliseconds, slowest: number })
      onCase?.({ ...verdict, number })
      if (fault === undefined) continue
      faults.push({ number, fault, what })
      onFault?.({ number, fault, what })
      await child.end()
      child = undefined
    }
  } finally {
    await child?.end()
    rmSync(scratch, { recursive: true, force: true })
  }
  return { outcomes, faults, most, repeated, detail }
}

const HANG = 'hang'
const MEMORY = 'memory'

/**
 * @typedef {{
 *   outcome: string
 *   message?: string
 *   fault?: string
 *   what: string
 *   excess?: number
 *   milliseconds: number
 *   cpu: number
 * }} Verdict
 */

/** A process that runs cases. */
class Child {
  #process
  #stderr = ''
  /** @type {(message: { [key: string]: unknown } | { died: string }) => void} */
  #heard = () => {}
  /** what the device is */
  detail = ''

  /** Ready, with its device open. */
  static async start(/** @type {FuzzOptions} */ { device, program = CHILD }, /** @type {string} */ path) {
    const found = DEVICES[device]()
    if ('missing' in found) throw new Error(found.missing)
    const child = new Child(program, [found.name, path], found.env)
    const message = await child.#hear(LONGEST_START)
    if (message === undefined || !('ready' in message)) {
      await child.end()
      throw new Error(`${device} cannot be fuzzed: ${JSON.stringify(message ?? 'no answer')} ${child.#stderr}`)
    }
    child.detail = String(message.ready)
    return child
  }

  constructor(/** @type {string} */ program, /** @type {string[]} */ args, /** @type {NodeJS.ProcessEnv} */ env) {
    const inherited = { ...process.env, INGOT_DEBUG: '', ...env } // a test run verifies every kernel, which is not what is tried here
    this.#process = fork(program, args, { env: inherited, execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    this.#process.stderr?.on('data', (chunk) => {
      this.#stderr = (this.#stderr + String(chunk)).slice(-STDERR_SHOWN)
    })
    this.#process.on('message', (message) => this.#heard(/** @type {Record<string, unknown>} */ (message)))
    this.#process.on('close', (code, signal) => this.#heard({ died: signal ?? `exit code ${code}` }))
  }

  /** @returns {Promise<Verdict>} */
  async run(/** @type {Job} */ job, /** @type {number} */ longest) {
    this.#stderr = ''
    const begun = performance.now()
    const hearing = this.#hear(longest)
    this.#process.send(job, () => {}) // that it is gone shows below
    const message = await hearing
    const milliseconds = performance.now() - begun
    const silent = { what: '', milliseconds, cpu: 0 } // only a living child can say what was changed
    if (message === undefined) return { outcome: HANG, fault: `no answer within ${longest / 1000} s`, ...silent }
    if ('died' in message) {
      return { outcome: 'crash', fault: `the process died: ${String(message.died)} ${this.#stderr}`.trim(), ...silent }
    }
    const answer = /** @type {Answer} */ (/** @type {unknown} */ (message))
    const excess = answer.peak - answer.size
    if (answer.fault !== undefined || excess <= MOST_MEMORY) return { ...answer, excess, milliseconds }
    return { ...answer, excess, milliseconds, outcome: MEMORY, fault: `${megabytes(excess)} MB beyond the file` }
  }

  /** The next message or the end, or undefined when neither comes in time. */
  #hear(/** @type {number} */ milliseconds) {
    return new Promise((/** @type {(message: Record<string, unknown> | undefined) => void} */ resolve) => {
      const timer = setTimeout(() => resolve(undefined), milliseconds)
      this.#heard = (message) => {
        clearTimeout(timer)
        resolve(message)
      }
    })
  }

  async end() {
    const { exitCode, signalCode } = this.#process
    if (exitCode !== null || signalCode !== null) return
    const closed = new Promise((resolve) => this.#process.once('close', resolve))
    this.#process.kill('SIGKILL') // it may be in a loop that listens to nothing
    await closed
  }
}

export function megabytes(/** @type {number} */ bytes) {
  return Math.round(bytes / 2 ** 20)
}
