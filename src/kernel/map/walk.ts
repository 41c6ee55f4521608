// Walks through memory: how the elements of a tensor lie in a buffer, and how several walks of one shape become simpler together. Axes that
// every walk takes alike are merged; what is left of the rank, and how each walk goes along the last axis, is all that a kernel's text
// depends on.

/** Where the elements of a shape lie: elements from the start, and to step per axis. 0 repeats along an axis, less goes backwards. */
export interface View {
  readonly strides: readonly number[]
  readonly offset?: number
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1)
}

/** Elements from the start of a buffer to the last one that is seen, at least; `shape` has elements. */
export function extentOf(shape: readonly number[], { strides, offset = 0 }: View): number {
  return shape.reduce((last, size, axis) => last + Math.max(0, (size - 1) * (strides[axis] ?? 0)), offset) + 1
}

/** The place of element number `at` of the shape. */
export function placeOf(at: number, shape: readonly number[], { strides, offset = 0 }: View): number {
  let place = offset
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis] ?? 1
    place += (at % size) * (strides[axis] ?? 0)
    at = Math.floor(at / size)
  }
  return place
}

/** The steps of a tensor that lies row by row. */
export function contiguous(shape: readonly number[]): number[] {
  const strides = shape.map(() => 1)
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = (strides[axis + 1] ?? 1) * (shape[axis + 1] ?? 1)
  return strides
}

/** The shape and strides with axes of size 1 dropped and axes merged that every walk takes like one. At least one axis is left. */
export function mergeAxes(shape: readonly number[], strides: readonly (readonly number[])[]): { shape: number[]; strides: number[][] } {
  const axes: { size: number; steps: number[] }[] = []
  shape.forEach((size, axis) => {
    if (size === 1) return
    const steps = strides.map((one) => one[axis] ?? 0)
    const outer = axes.at(-1)
    if (outer !== undefined && outer.steps.every((step, i) => step === (steps[i] ?? 0) * size))
      axes[axes.length - 1] = { size: outer.size * size, steps }
    else axes.push({ size, steps })
  })
  if (axes.length === 0) axes.push({ size: 1, steps: strides.map(() => 0) })
  return { shape: axes.map(({ size }) => size), strides: strides.map((_, i) => axes.map(({ steps }) => steps[i] ?? 0)) }
}

/** How a walk goes along the last axis: to the next element, nowhere, or in steps, maybe backwards. */
export type Along = 'next' | 'same' | 'steps' | 'back'

/** What a kernel knows of a walk. */
export interface WalkTraits {
  readonly along: Along
  /** outer axes that it goes backwards along */
  readonly back: readonly number[]
  readonly offset: boolean
}

/** A walk after merging: what a kernel knows of it, and the numbers that it is given. */
export interface Walk {
  readonly traits: WalkTraits
  /** `offset` if there is one, then a step per axis, without the last where it is known */
  readonly numbers: readonly number[]
}

/** With `always`, a kernel is told where the walk begins also if that is 0: one text for all. */
export function walkOf(steps: readonly number[], offset = 0, always = false): Walk {
  const inner = steps.at(-1) ?? 0
  const along = inner === 1 ? 'next' : inner === 0 ? 'same' : inner < 0 ? 'back' : 'steps'
  const outer = steps.slice(0, -1)
  const told = always || offset > 0
  const traits = { along, back: outer.flatMap((step, axis) => (step < 0 ? [axis] : [])), offset: told } as const
  const known = along === 'next' || along === 'same'
  return { traits, numbers: [...(told ? [offset] : []), ...(known ? outer : steps).map(Math.abs)] }
}

/** How many numbers a kernel is given for a walk over so many axes. */
export function numbersOf({ along, offset }: WalkTraits, rank: number): number {
  return Number(offset) + rank - Number(along === 'next' || along === 'same')
}
