// Made-up targets for tests of the passes: from one that has everything to one that has next to nothing.

import { OPS, type OpName } from '../../src/ir/op.ts'
import type { Target } from '../../src/ir/target.ts'

const EVERY = Object.keys(OPS) as OpName[]
/** What no target can do without. */
const BASIC: readonly OpName[] = [
  'table',
  'add',
  'sub',
  'mul',
  'div',
  'rem',
  'sqrt',
  'lt',
  'le',
  'gt',
  'ge',
  'eq',
  'ne',
  'not',
  'and',
  'or',
  'xor',
  'shl',
  'shr',
  'select',
  'cast',
  'bitcast',
  'splat',
  'vec',
  'extract',
  'slice',
  'join',
]

/** Functions that a target with f64 has for it, at the least: nothing decomposes them. */
const DOUBLE: readonly OpName[] = ['exp', 'exp2', 'log', 'log2', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'tanh', 'pow']

export const RICH: Target = {
  name: 'rich',
  spells: new Set(EVERY),
  lanes: true,
  subgroup: 32,
  tiles: true,
  half: true,
  double: { width: 16, spells: new Set() },
  narrow: true,
  width: 16,
}
export const POOR: Target = {
  name: 'poor',
  spells: new Set(BASIC),
  lanes: false,
  subgroup: 0,
  tiles: false,
  half: false,
  double: { width: 2, spells: new Set(DOUBLE) },
  narrow: false,
  width: 4,
}
/** Lanes and subgroups, but 32-bit words only: like WGSL without extensions. */
const { double: _none, ...SINGLE } = RICH
export const WORDS: Target = { ...SINGLE, name: 'words', tiles: false, half: false, narrow: false, width: 4 }
/** Loops over lanes, all storages, vectors of 4: like WASM. */
export const LOOPS: Target = { ...POOR, name: 'loops', narrow: true }
/** Loops over lanes with wide vectors: like C. */
export const WIDE: Target = { ...RICH, name: 'wide', lanes: false, subgroup: 0, tiles: false, half: false, width: 16 }

export const TARGETS: readonly Target[] = [RICH, POOR, WORDS, LOOPS, WIDE]
