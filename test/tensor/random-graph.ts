// Random graphs of tensors: leaves of random shapes and types, and operations on them and on each other. The same graph is built for two
// devices and read from both; what is known of each result (random-known.ts) says how far apart they may be.

import * as fc from 'fast-check'
import { expect } from 'vitest'
import { ELEMENT_TYPES, type ElementType, roundElements } from '../../src/base/element.ts'
import type { Caps } from '../../src/base/caps.ts'
import type { Device } from '../../src/device/device.ts'
import { compile } from '../../src/tensor/compile.ts'
import { isFloatType } from '../../src/tensor/promote.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import type { Known } from './random-known.ts'
import { OVER_AXES } from './random-axis.ts'
import { MOVES } from './random-move.ts'
import { ELEMENTWISE } from './random-op.ts'
import { MOST_AXES, MOST_ELEMENTS, Tape, type Value, sizeOf } from './random-tape.ts'

interface Leaf {
  readonly type: ElementType
  readonly shape: readonly number[]
  /** few different floats, of which sums and products are exact; else any */
  readonly isCoarse: boolean
  readonly seed: number
}
export interface Graph {
  /** what elements may become */
  readonly types: readonly ElementType[]
  readonly leaves: readonly Leaf[]
  /** for each operation its number, and the choices that it makes */
  readonly steps: readonly (readonly number[])[]
}

const KINDS = [ELEMENTWISE, MOVES, OVER_AXES]

const leafOf = (types: readonly ElementType[]): fc.Arbitrary<Leaf> =>
  fc.record({
    type: fc.constantFrom<ElementType>(...types.filter((type) => type !== 'i64'), 'f32', 'f32'),
    shape: fc.array(fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 1, max: 6 }) }, fc.constantFrom(7, 16, 33)), { maxLength: 3 }),
    isCoarse: fc.boolean(),
    seed: fc.nat(),
  })
/** Graphs that this device can compute. */
export function randomGraph({ f64 }: Caps): fc.Arbitrary<Graph> {
  const types = ELEMENT_TYPES.filter((type) => type !== 'f64' || f64)
  return fc.record({
    types: fc.constant(types),
    leaves: fc.array(leafOf(types), { minLength: 1, maxLength: 3 }),
    steps: fc.array(fc.array(fc.nat(997), { minLength: 26, maxLength: 26 }), { minLength: 2, maxLength: 16 }),
  })
}

/** The numbers of a leaf; another `round` gives others. */
function numbersOf({ type, shape, isCoarse, seed }: Leaf, round: number): number[] {
  let state = (seed + 7919 * round) >>> 0
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const isFloat = isFloatType(type)
  return Array.from({ length: sizeOf(shape) }, () => {
    if (isFloat) return isCoarse ? Math.round(next() * 16 - 8) / 4 : next() * 4 - 2
    if (type === 'bool') return Math.floor(next() * 2)
    return Math.floor(next() * 9) - (type === 'i32' || type === 'i8' ? 4 : 0)
  })
}

function makeLeaf(each: Leaf, device: Device | undefined, round: number): Tensor {
  const { type, shape } = each
  const values = Float64Array.from(roundElements(type, numbersOf(each, round)))
  return Tensor.from(values, { shape, dtype: type, ...(device && { device }) })
}

function knownLeaf({ type, isCoarse }: Leaf): Known {
  if (!isFloatType(type)) return { type, most: type === 'bool' ? 1 : 8, error: 0, grain: 1 }
  return { type, most: 2, error: 0, ...(isCoarse && { grain: 1 / 4 }) }
}

/** All values of a graph, its leaves and what its operations give, in a list that is one longer each time. */
function* grow({ leaves, steps, types }: Graph, tensors: readonly Tensor[]): Generator<readonly Value[]> {
  const values: Value[] = leaves.map((each, i) => ({ ...knownLeaf(each), tensor: tensors[i]! }))
  yield values
  for (const [kind = 0, operation = 0, ...choices] of steps) {
    const list = KINDS[kind % KINDS.length]!
    const value = list[operation % list.length]!(new Tape(choices, values, types))
    if (value === undefined || value.tensor.size > MOST_ELEMENTS || value.tensor.rank > MOST_AXES) continue
    values.push(value)
    yield values
  }
}

function build(graph: Graph, tensors: readonly Tensor[]): readonly Value[] {
  return [...grow(graph, tensors)].at(-1) ?? []
}

/** The same with each value computed before the next is written down: nothing is joined with anything. */
async function buildOneByOne(graph: Graph, tensors: readonly Tensor[]): Promise<readonly Value[]> {
  let all: readonly Value[] = []
  for (const values of grow(graph, tensors)) {
    await values.at(-1)?.tensor.realize()
    all = values
  }
  return all
}

/** What is read: the last result and some others. What lies between may be joined with them. */
function chosen(values: readonly Value[], leaves: number): readonly Value[] {
  return values.slice(leaves).filter((_, i, all) => (all.length - 1 - i) % 4 === 0)
}

/**
 * A graph as a whole on a device, and step by step on another; throws where results are further apart than they may be. So what is said is
 * about the device, and about the ways in which operations are joined.
 */
export async function checkGraph(graph: Graph, device: Device, reference: Device): Promise<void> {
  const [own, others] = [device, reference].map((each) => graph.leaves.map((one) => makeLeaf(one, each, 0))) as [Tensor[], Tensor[]]
  const mine = chosen(build(graph, own), own.length)
  const theirs = chosen(await buildOneByOne(graph, others), others.length)
  const read = (values: readonly Value[]): Promise<Numbers[]> => Promise.all(values.map(({ tensor }) => tensor.data()))
  const [got, want] = [await read(mine), await read(theirs)]
  mine.forEach((value, i) => compare(value, got[i]!, want[i]!))
}

/** The same as a function that is compiled, and one that is not, with a state that every call changes, called twice. */
export async function checkCompiled(graph: Graph, device: Device, reference: Device): Promise<void> {
  const about = build(
    graph,
    graph.leaves.map((each) => makeLeaf(each, undefined, 0)),
  )
  const last = about.at(-1)!
  const [got, want] = [await runTwice(graph, last, device, true), await runTwice(graph, last, reference, false)]
  const results = chosen(about, graph.leaves.length)
  const states = got.slice(0, 3).map((): Value => ({ ...last, error: last.error === 0 && !isFloatType(last.type) ? 0 : stateError(last) }))
  const each = [...states, ...results]
  got.forEach((numbers, i) => compare(each[i % each.length]!, numbers, want[i]!))
}

/** What two sums may be off. */
function stateError({ error, most, type }: Known): number {
  return 4 * error + (type === 'f64' ? 2 ** -48 : type === 'f32' ? 2 ** -20 : type === 'f16' ? 2 ** -8 : 2 ** -5) * Math.max(1, most)
}

async function runTwice(graph: Graph, { tensor: { shape }, type }: Value, device: Device, isCompiled: boolean): Promise<Numbers[]> {
  const zeros = (): Tensor => Tensor.from(new Float64Array(sizeOf(shape)), { shape, dtype: type, device })
  const [sum, other] = [zeros(), zeros()]
  const step = (...tensors: Tensor[]): Tensor[] => {
    const values = build(graph, tensors)
    const { tensor } = values.at(-1)!
    const [before, old] = [sum.flip(), other.reshape(...shape)]
    // Each needs what the other was.
    other.assign(before)
    sum.assign(type === 'bool' ? before.xor(tensor) : type === 'i64' ? tensor.reshape(...shape) : before.add(tensor))
    return [before, old, sum, ...chosen(values, graph.leaves.length).map((value) => value.tensor)]
  }
  using compiled = compile(step)
  const results: Numbers[] = []
  for (const round of [0, 1]) {
    const args = graph.leaves.map((each) => makeLeaf(each, device, round))
    const made = isCompiled ? await compiled(...args) : step(...args)
    results.push(...(await Promise.all(made.map((each) => each.data()))))
  }
  return results
}

type Numbers = Awaited<ReturnType<Tensor['data']>>

function compare({ tensor, type, error, most }: Value, got: Numbers, want: Numbers): void {
  const worst = Array.from(want).reduce((far, value, i) => (got[i] === value ? far : Math.max(far, Math.abs(got[i]! - value))), 0)
  const isNumber = want.every(Number.isFinite) && got.every(Number.isFinite)
  if (isNumber && worst <= 2 * error) return
  const at = want.findIndex((value, i) => !(Math.abs(got[i]! - value) <= 2 * error))
  expect.fail(
    `${type}[${tensor.shape.join()}] of ${tensor.node.op}: ${got[at]} instead of ${want[at]} at ${at}; may be off by ${2 * error}, size ${most}`,
  )
}
