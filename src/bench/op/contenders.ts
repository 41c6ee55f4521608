// Who takes part in a comparison of operations: Ingot always; peers come from bench/peers/ops, which has its own package.

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { IngotError } from '../../base/error.ts'
import { packageFile, scriptFile } from '../../base/place.ts'
import { type RunningContender, startChild } from '../contender.ts'
import { INGOT_NAME } from '../ingot-server.ts'
import { startOpsInProcess } from './ingot-server.ts'
import type { OpProtocol } from './protocol.ts'

export interface OpContender {
  readonly name: string
  start(signal?: AbortSignal): RunningContender<OpProtocol>
}

/** Peers, with the package that each needs. */
const PEER_PACKAGES: Readonly<Record<string, string>> = {
  tfjs: '@tensorflow/tfjs-backend-wasm',
  'onnxruntime-node': 'onnxruntime-node',
  'onnxruntime-web': 'onnxruntime-web',
  'jax-js': '@jax-js/jax',
}
export const OP_PEERS: readonly string[] = Object.keys(PEER_PACKAGES)

const CHILD = fileURLToPath(scriptFile('bench/op/child.js'))
const PEER_FOLDER = packageFile('bench/peers/ops/')

export const ingotOps: OpContender = {
  name: INGOT_NAME,
  // Run from its sources, Ingot has no script that node could start.
  start: (signal) => (existsSync(CHILD) ? startChild<OpProtocol>(INGOT_NAME, CHILD, signal) : startOpsInProcess()),
}

/** A peer by name; refuses one that is not installed, with the line that installs it. */
export function findOpPeer(name: string): OpContender {
  const needed = PEER_PACKAGES[name]
  if (needed === undefined)
    throw new IngotError('unknown-name', 'no such peer', { op: 'bench --ops', got: name, wanted: `some of ${OP_PEERS.join(', ')}` })
  const at = (file: string): string => fileURLToPath(new URL(file, PEER_FOLDER))
  if (!existsSync(at(`node_modules/${needed}/package.json`))) {
    const hint = existsSync(at('package.json'))
      ? 'install it with: npm --prefix bench/peers/ops ci --ignore-scripts'
      : 'peers come with the repository only, in bench/peers'
    throw new IngotError('bad-argument', `${name} is not installed`, { op: 'bench --ops', hint })
  }
  return { name, start: (signal) => startChild<OpProtocol>(name, at('server.js'), signal, [name]) }
}
