// Who takes part in a comparison: Ingot always; a peer comes from bench/peers, which has its own package and is never a dependency
// of ours. Knows how each is started, which settings it may be best with, and how it is run for one token.

import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { IngotError } from '../base/error.ts'
import { packageFile, scriptFile } from '../base/place.ts'
import { type Contender, startChild } from './contender.ts'
import { INGOT_NAME, startInProcess } from './ingot-server.ts'

export const PEERS: readonly string[] = ['node-llama-cpp']

const CHILD = fileURLToPath(scriptFile('bench/child.js'))
const LAUNCHER = fileURLToPath(packageFile('bin/ingot.js'))
const PEER_FOLDER = packageFile('bench/peers/')
/** Run from its sources, Ingot has no script that node could start. */
const isCompiled = (): boolean => existsSync(CHILD)

export const ingot: Contender = {
  name: INGOT_NAME,
  start: (signal) => (isCompiled() ? startChild(INGOT_NAME, CHILD, signal) : startInProcess()),
  candidates(kind, { threads, device, gpu }) {
    const chosen = device === undefined ? {} : { device }
    const counts = threads === undefined ? (gpu ? [undefined] : threadCounts()) : [threads]
    const chunks = kind === 'prefill' ? [128, 512] : [128]
    return counts.flatMap((count) => chunks.map((chunk) => ({ ...chosen, ...(count === undefined ? {} : { threads: count }), chunk })))
  },
  firstTokenArgs({ model, tokens, context, settings: { device, threads } }) {
    if (!isCompiled()) return undefined
    const prompt = ['--prompt-tokens', tokens.join(','), '--ctx', String(context)]
    const greedy = ['-n', '1', '-t', '0', '--ignore-eos', '--json']
    const deviceFlag = device === undefined ? [] : ['--device', device]
    const threadsFlag = threads === undefined ? [] : ['--threads', String(threads)]
    return [LAUNCHER, 'run', model, ...prompt, ...greedy, ...deviceFlag, ...threadsFlag]
  },
}

/** A peer by name; refuses one that is not installed, with the line that installs it. */
export function findPeer(name: string): Contender {
  if (!PEERS.includes(name))
    throw new IngotError('unknown-name', 'no such peer', { op: 'bench', got: name, wanted: `one of ${PEERS.join(', ')}` })
  const at = (file: string): string => fileURLToPath(new URL(file, PEER_FOLDER))
  if (!existsSync(at(`node_modules/${name}/package.json`))) {
    const hint = existsSync(at('package.json'))
      ? 'install it with: npm --prefix bench/peers ci --ignore-scripts'
      : 'peers come with the repository only, in bench/peers'
    throw new IngotError('bad-argument', `${name} is not installed`, { op: 'bench', hint })
  }
  return {
    name,
    start: (signal) => startChild(name, at('server.js'), signal),
    candidates(kind, { threads, gpu }) {
      const counts = threads === undefined ? threadCounts() : [threads]
      const batches = kind === 'prefill' ? [512, 128] : [512]
      return counts.flatMap((threads) => batches.flatMap((batch) => [true, false].map((flash) => ({ threads, batch, flash, gpu }))))
    },
    firstTokenArgs: ({ model, tokens, context, settings }) => [
      at('first-token.js'),
      model,
      tokens.join(','),
      String(context),
      JSON.stringify(settings),
    ],
  }
}

/** All cores first; then half of them, which two threads per core and shared bandwidth may make the better choice. */
function threadCounts(): number[] {
  const logical = availableParallelism()
  return [...new Set([logical, Math.ceil(logical / 2)])]
}
