// What a map is: an expression over inputs that are walked side by side, and where the result goes. And the same after merging: what a
// kernel is written for, with the numbers that it is given.

import type { ElementType } from '../../base/element.ts'
import { IngotError } from '../../base/error.ts'
import { registerOf } from '../element.ts'
import { type MapExpr, substitute, typeOf } from './expr.ts'
import type { InputTraits, SlotType, SourceTraits } from './source.ts'
import { type View, type Walk, type WalkTraits, contiguous, extentOf, mergeAxes, walkOf } from './walk.ts'

/** Elements of a buffer; or, with `counts`, no memory at all: the place of each element is its value. */
export interface MapInput extends View {
  readonly type: ElementType
  readonly counts?: true
}
/** Part of a larger tensor that the result is written into. */
export interface MapTarget extends View {
  /** elements of the whole */
  readonly size: number
}
export interface MapParams {
  readonly expr: MapExpr
  readonly type: ElementType
  readonly shape: readonly number[]
  readonly inputs: readonly MapInput[]
  /** the input whose memory the result takes; both are all of the buffer, in the same order and of the same type */
  readonly inPlace?: number
  /** default: a tensor of its own */
  readonly to?: MapTarget
}

const MOST_AXES = 10

/** What a kernel is written for. */
export interface MapTraits extends SourceTraits {
  readonly type: ElementType
  /** where the result goes, if not row by row into all of a buffer */
  readonly to?: WalkTraits
}

export interface Merged {
  readonly traits: MapTraits
  /** the kernel counts the inputs that are memory of their own only */
  readonly binds: Readonly<Record<string, string>>
  readonly uniforms: Readonly<Record<string, number>>
  readonly shape: readonly number[]
}

/** Throws `bad-argument` for an expression or inputs that do not fit together. */
export function checkMap({ expr, type, shape, inputs }: Omit<MapParams, 'to' | 'inPlace'>): void {
  const fail = (what: string, got: unknown, wanted: unknown): never => {
    throw new IngotError('bad-argument', what, { op: 'map', got, wanted })
  }
  checkStrides('map', shape, inputs)
  const register = typeOf(expr, typesOf(inputs))
  if (register !== registerOf(type)) fail(`the expression does not give ${type}`, register, registerOf(type))
}

/** Every input has a step for every axis. */
export function checkStrides(op: string, shape: readonly number[], inputs: readonly View[]): void {
  const got = inputs.map(({ strides }) => strides.length)
  if (got.some((count) => count !== shape.length))
    throw new IngotError('bad-argument', 'strides do not match the shape', { op, got, wanted: shape.length })
}

export function typesOf(inputs: readonly { readonly type: ElementType }[]): ElementType[] {
  return inputs.map(({ type }) => type)
}

/** A copy of 64-bit elements as one of pairs of words: registers would hold the lower halves only. */
function asWords({ shape, inputs, to, ...params }: MapParams): MapParams {
  const wide = <V extends View>(view: V): V => ({
    ...view,
    strides: [...view.strides.map((step) => 2 * step), 1],
    ...(view.offset !== undefined && { offset: 2 * view.offset }),
  })
  return {
    ...params,
    type: 'u32',
    shape: [...shape, 2],
    inputs: inputs.map((input) => ({ ...wide(input), type: 'u32' })),
    ...(to && { to: { ...wide(to), size: 2 * to.size } }),
  }
}

export function isCopy({ expr, type, inputs }: MapParams): boolean {
  return 'input' in expr && inputs.length === 1 && inputs[0]?.type === type
}

export function mergeMap(given: MapParams): Merged {
  checkMap(given)
  const params = given.type === 'i64' && isCopy(given) ? asWords(given) : given
  const { type, inputs, to } = params
  const target = to ?? { strides: contiguous(params.shape) }
  checkTarget(params)
  const { shape, strides } = mergeAxes(params.shape, [...inputs.map((input) => input.strides), target.strides])
  const rank = shape.length
  if (rank > MOST_AXES) throw new IngotError('unsupported', 'too many axes', { op: 'map', got: rank, wanted: `at most ${MOST_AXES}` })
  const walks = inputs.map(({ offset }, i) => walkOf(strides[i] ?? [], offset))
  const written = to && walkOf(strides.at(-1) ?? [], to.offset)
  const { traits, binds, uniforms } = mergeSource(params, shape, walks, written ? [written] : [])
  return { traits: { ...traits, type, ...(written && { to: written.traits }) }, binds, uniforms, shape }
}

/** An expression over inputs that are walked like this, once for every element of the shape. */
export function mergeSource(
  { expr: given, inputs, inPlace }: Pick<MapParams, 'expr' | 'inputs' | 'inPlace'>,
  shape: readonly number[],
  walks: readonly Walk[],
  others: readonly Walk[] = [],
): { traits: SourceTraits } & Pick<Merged, 'binds' | 'uniforms'> {
  const { expr, values } = extractConstants(given)
  const numbers = [...walks, ...others].flatMap((walk) => walk.numbers)
  return {
    traits: {
      expr,
      inputs: inputs.map((input, i): InputTraits => ({
        type: input.type,
        source: i === inPlace ? 'result' : input.counts === true ? 'place' : 'memory',
        ...(walks[i] ?? walkOf([])).traits,
      })),
      slots: values.map((value) => value.type),
      rank: shape.length,
    },
    binds: Object.fromEntries(
      inputs.flatMap(({ counts }, i) => (counts || i === inPlace ? [] : [`in${i}`])).map((name, i) => [`in${i}`, name]),
    ),
    uniforms: Object.fromEntries([
      ...shape.map((size, axis): [string, number] => [`size${axis}`, size]),
      ...numbers.map((number, i): [string, number] => [`walk${i}`, number]),
      ...values.map(({ value }, i): [string, number] => [`slot${i}`, value]),
    ]),
  }
}

function checkTarget({ shape, to, inputs, inPlace, type }: MapParams): void {
  const fail = (what: string, got: unknown, wanted: unknown): never => {
    throw new IngotError('bad-argument', what, { op: 'map', got, wanted })
  }
  if (to !== undefined) {
    const end = extentOf(shape, to)
    if (to.strides.length !== shape.length || to.strides.some((step, axis) => step < 1 && shape[axis] !== 1) || end > to.size)
      fail('the result does not lie in its target', { ...to, end }, `at most ${to.size} elements`)
  }
  const own = inPlace === undefined ? undefined : inputs[inPlace]
  if (inPlace === undefined) return
  const isWhole = own !== undefined && own.type === type && !own.offset && !own.counts && to === undefined
  if (!isWhole || !contiguous(shape).every((step, axis) => shape[axis] === 1 || step === own.strides[axis]))
    fail('an input cannot be overwritten', own, 'all of the result')
}

/** The expression with slots in the place of numbers, so that kernels need not be made anew for each. */
function extractConstants(expr: MapExpr): { expr: MapExpr; values: { value: number; type: SlotType }[] } {
  const values: { value: number; type: SlotType }[] = []
  const slotted = substitute(expr, (leaf) => {
    if (!('const' in leaf) || leaf.type === 'bool' || leaf.type === 'f64') return undefined
    const { const: value, type } = leaf
    const known = values.findIndex((each) => Object.is(each.value, value) && each.type === type)
    return { slot: known >= 0 ? known : values.push({ value, type }) - 1, type }
  })
  return { expr: slotted, values }
}
