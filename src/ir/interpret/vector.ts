// Pure ops that move or combine the elements of a vector, and the packed ops, as their records mean them.

import { type Scalar, scalarOf, widthOf } from '../../base/dtype.ts'
import { roundHalf } from '../../base/half.ts'
import type { Meaning } from '../op/meaning.ts'
import type { Node } from '../node.ts'
import { type OpFacts, opRecord } from '../op.ts'
import { type Run, copyOf, move, packing, reducing, unpacking } from './loop.ts'
import type { Cells } from './state.ts'

/** The step of a pure op that is not elementwise, or undefined if it is none. */
export function vectorStep(node: Node, out: Cells, src: readonly Cells[]): Run | undefined {
  const { kind, moves, unpack, pack, reduces } = opRecord(node.op)
  const [[first], [a]] = [node.src, src]
  if (first === undefined || a === undefined || kind !== 'pure') return undefined
  const width = widthOf(first.dtype)
  const purpose = `${node.op} ${first.dtype}`
  if (moves !== undefined) return movement(node, out, src, (e) => moves(e, Number(node.arg), width))
  if (unpack !== undefined) return copyOf(unpacking, purpose)(unpack, widthOf(node.dtype), out, a)
  if (pack !== undefined) return copyOf(packing, purpose)(pack, width, out, a)
  if (reduces === undefined) return undefined
  const scalar = scalarOf(node.dtype)
  return copyOf(reducing, purpose)(combination(reduces, scalar), rounding(scalar), width, out, a)
}

/** What combines two values of a reduction. */
export function combination(reduces: NonNullable<OpFacts['reduces']>, scalar: Scalar): Meaning {
  const { js } = opRecord(reduces)
  if (js === undefined) throw new TypeError(`${reduces} does not work on single elements`)
  return js(scalar, scalar, null)
}

/** How a step of a reduction is rounded; integers wrap when the result is stored. */
export function rounding(scalar: Scalar): (x: number) => number {
  return scalar === 'f32' ? Math.fround : scalar === 'f16' ? roundHalf : (x) => x
}

/** Elements of the result come from operands; what comes from one operand is moved by one loop. */
function movement(node: Node, out: Cells, src: readonly Cells[], sourceOf: (e: number) => readonly [number, number]): Run {
  const width = widthOf(node.dtype)
  const sources = Array.from({ length: width }, (_, to) => ({ to, source: sourceOf(to) }))
  const runs = src.flatMap((cells, operand): Run[] => {
    const moves = sources.flatMap(({ to, source: [which, from] }) => (which === operand ? [{ to, from }] : []))
    const lanes = out.length / width
    const to = placesOf(
      moves.map((each) => each.to),
      width,
      lanes,
    )
    const from = placesOf(
      moves.map((each) => each.from),
      cells.length / lanes,
      lanes,
    )
    return moves.length === 0 ? [] : [copyOf(move, `move ${scalarOf(node.dtype)}`)(out, to, cells, from)]
  })
  const [only] = runs
  if (only !== undefined && runs.length === 1) return only
  return () => {
    for (const run of runs) run()
  }
}

/** Where some elements of each lane are in a register. */
function placesOf(elements: readonly number[], width: number, lanes: number): Int32Array {
  const places = new Int32Array(elements.length * lanes)
  for (const [at, element] of elements.entries()) {
    for (let lane = 0; lane < lanes; lane++) places[lane * elements.length + at] = lane * width + element
  }
  return places
}
