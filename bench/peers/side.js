// The peer's side of `ingot bench --against node-llama-cpp`: a child process that stays alive and answers requests over its IPC
// channel, one at a time. The requests and replies are those of src/bench/side.ts.

import { readFileSync } from 'node:fs'
import { decode, openModel } from './llama.js'

/** @typedef {{ id: number, op: string, model: string, context: number, settings: import('./llama.js').Settings, tokens: number[], count: number }} Request */

const { version } = JSON.parse(readFileSync(new URL('./node_modules/node-llama-cpp/package.json', import.meta.url), 'utf8'))

/** @type {import('./llama.js').Opened | undefined} */
let opened

const answers = {
  async open(/** @type {Request} */ { model, context, settings }) {
    await close()
    const begun = performance.now()
    opened = await openModel(model, context, settings)
    const ms = performance.now() - begun
    const { gpu } = opened.llama
    return { ms, info: { name: 'node-llama-cpp', version, device: gpu === false ? 'cpu' : gpu, detail: 'llama.cpp', gpu: gpu !== false } }
  },

  /** All tokens in, the first greedy token out. */
  async prefill(/** @type {Request} */ { tokens }) {
    const { sequence } = need()
    await sequence.clearHistory()
    const begun = performance.now()
    const steps = decode(sequence, tokens)
    await steps.next()
    const ms = performance.now() - begun
    await steps.return()
    return { ms }
  },

  /** `count` greedy tokens after a context that is kept from the last time if it is the same. */
  async decode(/** @type {Request} */ { tokens, count }) {
    const { sequence } = need()
    const kept = sharedWith(sequence.contextTokens, tokens)
    if (kept < sequence.nextTokenIndex) await sequence.eraseContextTokenRanges([{ start: kept, end: sequence.nextTokenIndex }])
    const steps = decode(sequence, tokens.slice(kept))
    await steps.next()
    const chosen = []
    const begun = performance.now()
    while (chosen.length < count) chosen.push(Number((await steps.next()).value))
    const ms = performance.now() - begun
    await steps.return()
    return { ms, tokens: chosen }
  },

  async peak() {
    return { bytes: process.resourceUsage().maxRSS * 1024 }
  },
}

let replied = { cpu: process.cpuUsage(), at: performance.now() }

process.on('message', async (/** @type {Request} */ request) => {
  const { user, system } = process.cpuUsage(replied.cpu)
  const idle = { cpuMs: (user + system) / 1000, ms: performance.now() - replied.at }
  let reply
  try {
    reply = await answers[/** @type {keyof typeof answers} */ (request.op)](request)
  } catch (error) {
    reply = { error: error instanceof Error ? error.message : String(error) }
  }
  replied = { cpu: process.cpuUsage(), at: performance.now() }
  process.send?.({ ...reply, id: request.id, idle, cpuMs: (replied.cpu.user + replied.cpu.system) / 1000 })
})

process.on('disconnect', () => process.exit())

function need() {
  if (opened === undefined) throw new Error('no model is open')
  return opened
}

async function close() {
  await opened?.context.dispose()
  await opened?.model.dispose()
  opened = undefined
}

/** How many tokens may stay; the last is fed again, to have its logits. @param {readonly number[]} held @param {readonly number[]} wanted */
function sharedWith(held, wanted) {
  let shared = 0
  while (shared < wanted.length - 1 && shared < held.length && held[shared] === wanted[shared]) shared++
  return shared
}
