// Who takes part in a comparison: how to start it, which settings it may be best with, and how it is run for one token. Ingot is
// always one; a peer comes from bench/peers, which has its own package and is never a dependency of ours.

import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { IngotError } from '../base/error.ts'
import { OUR_NAME, startHere } from './answer.ts'
import { type Settings, type Side, startChild } from './side.ts'
import type { Workload } from './workload.ts'

export interface Choice {
  /** the user's, for both sides; undefined: try some */
  readonly threads?: number
  readonly device?: string
  /** Ingot computes on a GPU, so the peer may too */
  readonly gpu: boolean
}

export interface Contestant {
  readonly name: string
  start(signal?: AbortSignal): Side
  /** Settings worth trying, the usual ones first. */
  candidates(kind: Workload['kind'], choice: Choice): readonly Settings[]
  /** Arguments to node for a program that prints something when it has its first token; undefined where there is none. */
  firstToken(run: FirstToken): readonly string[] | undefined
}

export interface FirstToken {
  readonly model: string
  readonly tokens: readonly number[]
  readonly context: number
  readonly settings: Settings
}

export const PEERS: readonly string[] = ['node-llama-cpp']

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url))
const LAUNCHER = fileURLToPath(new URL('../../bin/ingot.js', import.meta.url))
const PEER_FOLDER = new URL('../../bench/peers/', import.meta.url)
/** Run from its sources, Ingot has no script that node could start. */
const isCompiled = (): boolean => existsSync(CHILD)

export const ingot: Contestant = {
  name: OUR_NAME,
  start: (signal) => (isCompiled() ? startChild(OUR_NAME, CHILD, signal) : startHere()),
  candidates(kind, { threads, device, gpu }) {
    const chosen = device === undefined ? {} : { device }
    const counts = threads === undefined ? (gpu ? [undefined] : threadCounts()) : [threads]
    const chunks = kind === 'prefill' ? [128, 512] : [128]
    return counts.flatMap((count) => chunks.map((chunk) => ({ ...chosen, ...(count === undefined ? {} : { threads: count }), chunk })))
  },
  firstToken({ model, tokens, context, settings: { device, threads } }) {
    if (!isCompiled()) return undefined
    return [
      LAUNCHER,
      'run',
      model,
      '--prompt-tokens',
      tokens.join(','),
      '--ctx',
      String(context),
      '-n',
      '1',
      '-t',
      '0',
      '--ignore-eos',
      '--json',
      ...(device === undefined ? [] : ['--device', device]),
      ...(threads === undefined ? [] : ['--threads', String(threads)]),
    ]
  },
}

/** A peer by name; refuses one that is not installed, with the line that installs it. */
export function findPeer(name: string): Contestant {
  if (!PEERS.includes(name))
    throw new IngotError('unknown-name', 'no such peer', { op: 'bench', got: name, wanted: `one of ${PEERS.join(', ')}` })
  const at = (file: string): string => fileURLToPath(new URL(file, PEER_FOLDER))
  if (!existsSync(at(`node_modules/${name}/package.json`))) {
    const install = existsSync(at('package.json'))
      ? 'npm --prefix bench/peers ci --ignore-scripts'
      : 'peers are in the repository only, in bench/peers'
    throw new IngotError('bad-argument', `${name} is not installed`, { op: 'bench', hint: `install it with: ${install}` })
  }
  return {
    name,
    start: (signal) => startChild(name, at('side.js'), signal),
    candidates(kind, { threads, gpu }) {
      const counts = threads === undefined ? threadCounts() : [threads]
      const batches = kind === 'prefill' ? [512, 128] : [512]
      return counts.flatMap((threads) => batches.flatMap((batch) => [true, false].map((flash) => ({ threads, batch, flash, gpu }))))
    },
    firstToken: ({ model, tokens, context, settings }) => [
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
