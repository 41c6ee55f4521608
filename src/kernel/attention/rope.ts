// Rotary position embedding: pairs of a head's elements turned by position * frequency. The first `dims` elements of each
// head turn, the rest are copied. Pairs are neighbours ('adjacent') or half a turn of dims apart ('half').
// The angle is not rounded on the way to its sine, so that far positions are as exact as near ones.

/* oxlint-disable typescript/no-non-null-assertion -- `define` is given every input that `buffers` lists, and stays within them */

import type { Caps } from '../../base/caps.ts'
import type { Vector, Width } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type LaneScope, type Readable, type Writable, buffer, uniform } from '../../ir/author.ts'
import type { Uniformity, Value } from '../../ir/value.ts'
import { type Work, family, isCpu, isGpu } from '../family.ts'
import { type SinCos, sinCosOfProduct } from '../function.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { combinations, template } from '../template.ts'

export type RopeStyle = 'adjacent' | 'half'
export interface RopeParams {
  readonly style: RopeStyle
  readonly rows: number
  readonly heads: number
  readonly headDim: number
  /** elements of a head that turn; even */
  readonly dims: number
  /** factor on sine and cosine */
  readonly magnitude: number
}

/** Heads that one workgroup of a CPU turns with the same sines. */
const HEADS_EACH = 8

const PARAMS = {
  x: buffer('f32', 'read'),
  positions: buffer('u32', 'read'),
  freqs: buffer('f32', 'read'),
  y: buffer('f32', 'write'),
  heads: uniform('u32'),
  headDim: uniform('u32'),
  half: uniform('u32'),
  magnitude: uniform('f32'),
} as const

type Memory = Readable<'f32', Uniformity>
type Floats = 'f32' | Vector<'f32'>
type Turn<D extends Floats> = SinCos<Value<D>>

function scaled<D extends Floats>(k: LaneScope, { sin, cos }: Turn<D>, magnitude: Value<'f32'>): Turn<D> {
  return { sin: k.let('sin', sin.mul(magnitude.like(sin))), cos: k.let('cos', cos.mul(magnitude.like(cos))) }
}

/** The pair (p, q) turned. */
function turned<D extends Floats>(p: Value<D>, q: Value<D>, { sin, cos }: Turn<D>): [Value<D>, Value<D>] {
  return [p.mul(cos).sub(q.mul(sin)), p.mul(sin).add(q.mul(cos))]
}

function turnPair(x: Memory, y: Writable<'f32'>, a: Value<'u32'>, b: Value<'u32'>, turn: Turn<'f32'>): void {
  const [p, q] = turned(x.at(a), x.at(b), turn)
  y.set(a, p)
  y.set(b, q)
}

/** A lane per pair. */
const eachPair = template<{ readonly style: RopeStyle; readonly lanes: number }>(
  { family: 'rope', form: 'pairs' },
  ({ style, lanes }, kernel) =>
    kernel('rope', { params: { ...PARAMS, pairs: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
      const pair = k.let('pair', flatLane(k, lanes))
      k.when(pair.lt(p.pairs), (k) => {
        const perHead = p.headDim.div(2)
        const i = k.let('i', pair.rem(perHead))
        const head = k.let('head', pair.div(perHead)) // counted over all rows
        const start = k.let('start', head.mul(p.headDim))
        k.when(
          i.lt(p.half),
          (k) => {
            const turn = scaled(k, sinCosOfProduct(p.positions.at(head.div(p.heads)), p.freqs.at(i)), p.magnitude)
            const a = k.let('a', start.add(style === 'half' ? i : i.mul(2)))
            turnPair(p.x, p.y, a, style === 'half' ? a.add(p.half) : a.add(1), turn)
          },
          () => {
            const at = start.add(i.mul(2))
            p.y.set(at, p.x.at(at))
            p.y.set(at.add(1), p.x.at(at.add(1)))
          },
        )
      })
    }),
)

interface HeadsTraits {
  readonly style: RopeStyle
  readonly width: Width
}

/** A workgroup per row and some heads, which share their sines. */
const someHeads = template<HeadsTraits>({ family: 'rope', form: 'heads' }, ({ style, width }, kernel) =>
  kernel('rope', { params: PARAMS }, (p, k) => {
    const row = k.workgroupId.x
    const position = p.positions.at(row)
    const head = k.let('head', k.workgroupId.y.mul(HEADS_EACH))
    const from = k.let('from', row.mul(p.heads).add(head))
    const to = k.let('to', from.add(p.heads.sub(head).min(HEADS_EACH)))
    const eachHead = (body: (start: Value<'u32'>) => void): void =>
      k.for({ name: 'h', from, to }, (h, k) => body(k.let('start', h.mul(p.headDim))))
    const whole = style === 'half' ? k.let('whole', p.half.div(width).mul(width)) : k.const('u32', 0)
    if (style === 'half') {
      k.for({ name: 'i', to: whole, step: width }, (i) => {
        const turn = scaled(k, sinCosOfProduct(position, p.freqs.load(i, width)), p.magnitude)
        eachHead((start) => {
          const a = start.add(i)
          const b = a.add(p.half)
          const [u, v] = turned(p.x.load(a, width), p.x.load(b, width), turn)
          p.y.store(a, u)
          p.y.store(b, v)
        })
      })
    }
    k.for({ name: 'i', from: whole, to: p.half }, (i) => {
      const turn = scaled(k, sinCosOfProduct(position, p.freqs.at(i)), p.magnitude)
      eachHead((start) => {
        const a = start.add(style === 'half' ? i : i.mul(2))
        turnPair(p.x, p.y, a, style === 'half' ? a.add(p.half) : a.add(1), turn)
      })
    })
    eachHead((start) => k.for({ name: 'c', from: p.half.mul(2), to: p.headDim }, (c) => p.y.set(start.add(c), p.x.at(start.add(c)))))
  }),
)

export const rope = family<RopeParams>({
  name: 'rope',
  about: 'rotary position embedding of adjacent pairs or of halves',
  tolerance: () => 1e-11,
  cases: [
    { style: 'half', rows: 3, heads: 4, headDim: 64, dims: 64, magnitude: 1 },
    { style: 'adjacent', rows: 3, heads: 4, headDim: 64, dims: 64, magnitude: 1 },
    { style: 'half', rows: 1, heads: 9, headDim: 80, dims: 20, magnitude: 1.25 },
    { style: 'adjacent', rows: 5, heads: 1, headDim: 6, dims: 2, magnitude: 0.5 },
    { style: 'half', rows: 67, heads: 3, headDim: 10, dims: 10, magnitude: 1 },
  ],
  buffers: ({ rows, heads, headDim, dims }) => [
    { name: 'x', role: 'in', type: 'f32', elements: rows * heads * headDim },
    { name: 'positions', role: 'in', type: 'u32', elements: rows },
    { name: 'freqs', role: 'in', type: 'f32', elements: dims / 2 },
    { name: 'y', role: 'out', type: 'f32', elements: rows * heads * headDim },
  ],
  inputs: ({ rows, dims }, random) => ({
    positions: Uint32Array.from({ length: rows }, (_, row) => (row === 0 ? 131071 : Math.floor(random() * 5000))),
    freqs: Float32Array.from({ length: dims / 2 }, (_, i) => 10000 ** ((-2 * i) / dims)),
  }),
  forms: [
    {
      name: 'heads',
      fits: isCpu,
      work: (caps, params) => {
        const { style, rows, heads } = params
        const uniforms = uniformsOf(params)
        return { launches: [{ kernel: someHeads({ style, width: caps.width }), uniforms, grid: [rows, Math.ceil(heads / HEADS_EACH), 1] }] }
      },
      kernels: ({ width }) => combinations<HeadsTraits>({ style: ['adjacent', 'half'], width: [width] }).map(someHeads),
    },
    { name: 'pairs', fits: isGpu, work: pairsWork },
  ],
  // two products and a sum for each element
  cost: ({ rows, heads, headDim }) => ({ operations: 3 * rows * heads * headDim, arithmetic: 'f32' }),
  define: ({ x, positions, freqs }, { style, rows, heads, headDim, dims, magnitude }) => {
    const y = Float32Array.from(x!)
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < dims / 2; i++) {
        const angle = positions![row]! * freqs![i]!
        const [cos, sin] = [Math.cos(angle) * magnitude, Math.sin(angle) * magnitude]
        for (let head = 0; head < heads; head++) {
          const start = (row * heads + head) * headDim
          const a = start + (style === 'half' ? i : 2 * i)
          const b = style === 'half' ? a + dims / 2 : a + 1
          y[a] = x![a]! * cos - x![b]! * sin
          y[b] = x![a]! * sin + x![b]! * cos
        }
      }
    }
    return { y }
  },
})

function uniformsOf({ heads, headDim, dims, magnitude }: RopeParams): Record<string, number> {
  if (headDim % 2 !== 0 || dims % 2 !== 0 || dims > headDim) {
    throw new IngotError('bad-argument', 'bad sizes', {
      op: 'rope',
      got: `${dims} of ${headDim}`,
      wanted: 'even numbers, the first no larger',
    })
  }
  return { heads, headDim, half: dims / 2, magnitude }
}

function pairsWork(caps: Caps, params: RopeParams): Work {
  const pairs = (params.rows * params.heads * params.headDim) / 2
  const { lanes } = teamFor(caps, pairs)
  const uniforms = { ...uniformsOf(params), pairs }
  return { launches: [{ kernel: eachPair({ style: params.style, lanes }), uniforms, grid: flatGrid(caps, Math.ceil(pairs / lanes)) }] }
}
