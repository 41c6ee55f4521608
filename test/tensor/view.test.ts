// Views of memory against the plain meaning of moving elements: random chains of permutations, slices, expansions and shapes.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openReference } from '../../src/device/reference/reference.ts'
import { placeOf, sizeOf } from '../../src/kernel/map/walk.ts'
import { buildPlan } from '../../src/tensor/plan.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { type Seen, expanded, isWhole, permuted, reshaped, seenWhole, sliced } from '../../src/tensor/view.ts'

/** A tensor as plain numbers. */
interface Plain {
  readonly shape: readonly number[]
  readonly values: readonly number[]
}

const strides = (shape: readonly number[]): number[] => shape.map((_, axis) => sizeOf(shape.slice(axis + 1)))
const indicesOf = (at: number, shape: readonly number[]): number[] =>
  strides(shape).map((step, axis) => Math.floor(at / step) % shape[axis]!)

/** Every element of `shape` from where `from` says. */
function pick({ shape, values }: Plain, to: readonly number[], from: (indices: readonly number[]) => readonly number[]): Plain {
  const steps = strides(shape)
  return {
    shape: to,
    values: Array.from(
      { length: sizeOf(to) },
      (_, at) => values[from(indicesOf(at, to)).reduce((sum, i, axis) => sum + i * steps[axis]!, 0)]!,
    ),
  }
}

type Step =
  | { readonly kind: 'permute'; readonly keys: readonly number[] }
  | { readonly kind: 'slice'; readonly parts: readonly { start: number; count: number; back: boolean; step: number }[] }
  | { readonly kind: 'expand'; readonly times: number }
  | { readonly kind: 'reshape'; readonly cut: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('permute' as const), keys: fc.array(fc.double({ noNaN: true }), { minLength: 5, maxLength: 5 }) }),
  fc.record({
    kind: fc.constant('slice' as const),
    parts: fc.array(fc.record({ start: fc.nat(9), count: fc.nat(9), back: fc.boolean(), step: fc.integer({ min: 1, max: 3 }) }), {
      minLength: 5,
      maxLength: 5,
    }),
  }),
  fc.record({ kind: fc.constant('expand' as const), times: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ kind: fc.constant('reshape' as const), cut: fc.nat(9) }),
)

type Resolved = { readonly axes: number[] } | Record<'starts' | 'sizes' | 'steps', number[]> | { readonly shape: number[] }

/** What a step does to a shape: arguments that fit it. */
function resolve(shape: readonly number[], one: Step): Resolved {
  switch (one.kind) {
    case 'permute':
      return { axes: shape.map((_, axis) => axis).toSorted((a, b) => one.keys[a]! - one.keys[b]!) }
    case 'slice': {
      const parts = shape.map((size, axis) => {
        const { start, count, back, step: by } = one.parts[axis]!
        const from = start % size
        const room = back ? from : size - 1 - from
        return { start: from, size: 1 + (count % (1 + Math.floor(room / by))), step: back ? -by : by }
      })
      return { starts: parts.map((part) => part.start), sizes: parts.map((part) => part.size), steps: parts.map((part) => part.step) }
    }
    case 'expand':
      return { shape: [one.times, ...shape.map((size) => (size === 1 ? one.times : size))] }
    case 'reshape': {
      const size = sizeOf(shape)
      const divisors = Array.from({ length: size }, (_, i) => i + 1).filter((n) => size % n === 0)
      const first = divisors[one.cut % divisors.length]!
      return { shape: [first, size / first] }
    }
  }
}

function plainly(x: Plain, one: Step): Plain {
  const to = resolve(x.shape, one)
  if ('axes' in to)
    return pick(
      x,
      to.axes.map((axis) => x.shape[axis]!),
      (i) => x.shape.map((_, axis) => i[to.axes.indexOf(axis)]!),
    )
  if ('starts' in to) return pick(x, to.sizes, (i) => i.map((index, axis) => to.starts[axis]! + index * to.steps[axis]!))
  if (one.kind === 'expand') return pick(x, to.shape, (i) => x.shape.map((size, axis) => (size === 1 ? 0 : i[axis + 1]!)))
  return { shape: to.shape, values: x.values }
}

function viewed(seen: Seen, one: Step): Seen | undefined {
  const to = resolve(seen.shape, one)
  if ('axes' in to) return permuted(seen, to.axes)
  if ('starts' in to) return sliced(seen, to)
  return one.kind === 'expand' ? expanded(seen, to.shape) : reshaped(seen, to.shape)
}

function applied(x: Tensor, one: Step): Tensor {
  const to = resolve(x.shape, one)
  if ('axes' in to) return x.permute(...to.axes)
  if ('starts' in to) {
    return x.slice(
      ...to.starts.map((start, axis) => {
        const [size, by] = [to.sizes[axis]!, to.steps[axis]!]
        const end = start + size * by
        return [start, end < 0 ? null : end, by] as const
      }),
    )
  }
  return one.kind === 'expand' ? x.expand(...to.shape) : x.reshape(...to.shape)
}

const shape = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 })
const steps = fc.array(step, { maxLength: 2 })

test('strides say where the elements are, as long as strides can say it', () => {
  fc.assert(
    fc.property(shape, fc.array(step, { maxLength: 4 }), (first, chain) => {
      let plain: Plain = { shape: first, values: Array.from({ length: sizeOf(first) }, (_, i) => i) }
      let seen: Seen | undefined = seenWhole(first)
      for (const one of chain) {
        if (plain.shape.length > 4) return
        plain = plainly(plain, one)
        seen = seen && viewed(seen, one)
        if (seen === undefined) return
        expect(seen.shape).toEqual(plain.shape)
        expect(plain.values.map((_, at) => placeOf(at, plain.shape, seen!))).toEqual(plain.values)
      }
    }),
  )
})

test('a shape over what lies in a row is always a view', () => {
  fc.assert(
    fc.property(shape, fc.nat(9), (first, cut) => {
      const { shape: to } = resolve(first, { kind: 'reshape', cut }) as { shape: number[] }
      const seen = reshaped(seenWhole(first), to)
      expect(seen && isWhole(seen)).toBe(true)
    }),
  )
})

test('maps, sums and readers see the same elements through any chain', async () => {
  await using device = openReference()
  await fc.assert(
    fc.asyncProperty(shape, steps, steps, async (first, chain, then) => {
      const values = Float32Array.from({ length: sizeOf(first) }, (_, i) => i + 1)
      const buffer = device.alloc(values.byteLength)
      device.write(buffer, 0, new Uint8Array(values.buffer))
      const apply = (x: Tensor, list: readonly Step[]): Tensor => list.reduce(applied, x)
      const view = apply(Tensor.over(buffer, first), chain)
      if (view.rank > 4) return
      const again = apply(view.mul(2), then)
      using plan = await buildPlan(device, { reads: [view, again, view.sum(-1)] })
      const results = (await plan.run()).map((bytes) => [...new Float32Array(bytes.slice().buffer)])
      const plain = chain.reduce(plainly, { shape: first, values: [...values] } as Plain)
      const doubled = then.reduce(plainly, { ...plain, values: plain.values.map((value) => 2 * value) })
      const inner = plain.shape.at(-1)!
      const sums = Array.from({ length: plain.values.length / inner }, (_, row) =>
        plain.values.slice(row * inner, (row + 1) * inner).reduce((a, b) => a + b, 0),
      )
      expect(results).toEqual([plain.values, doubled.values, sums])
      device.free(buffer)
    }),
    { numRuns: 60 },
  )
})
