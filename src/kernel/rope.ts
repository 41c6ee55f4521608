// Rotary position embedding: pairs of a head's elements turned by position * frequency. The first `dims` elements of each
// head turn, the rest are copied. Pairs are neighbours ('adjacent') or half a turn of dims apart ('half').
// The angle is not rounded on the way to its sine, so that far positions are as exact as near ones.

import type { Caps } from '../base/caps.ts'
import { IngotError } from '../base/error.ts'
import { type LaneScope, type Readable, type Writable, buffer, kernel, uniform } from '../ir/author.ts'
import type { Kernel } from '../ir/kernel.ts'
import type { Uniformity, Value } from '../ir/value.ts'
import { flatGrid, flatLane, lanesFor } from './lanes.ts'
import type { Arrays, KernelRecord, Work } from './record.ts'
import { sinCosOfProduct } from './special.ts'

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

export const rope: KernelRecord<RopeParams> = {
  name: 'rope',
  about: 'rotary position embedding of adjacent pairs or of halves',
  tolerance: 1e-7,
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
  work,
  define: ({ x, positions, freqs }: Arrays, { style, rows, heads, headDim, dims, magnitude }) => {
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
}

function work(caps: Caps, { style, rows, heads, headDim, dims, magnitude }: RopeParams): Work {
  if (headDim % 2 !== 0 || dims % 2 !== 0 || dims > headDim) {
    throw new IngotError('bad-argument', 'bad sizes', {
      op: 'rope',
      got: `${dims} of ${headDim}`,
      wanted: 'even numbers, the first no larger',
    })
  }
  const uniforms = { heads, headDim, half: dims / 2, magnitude }
  if (caps.lanes === 1) {
    return { launches: [{ kernel: cpuKernel(caps, style), uniforms, grid: [rows, Math.ceil(heads / HEADS_EACH), 1] }] }
  }
  const pairs = (rows * heads * headDim) / 2
  const lanes = lanesFor(caps, pairs)
  return {
    launches: [{ kernel: gpuKernel(lanes, style), uniforms: { ...uniforms, pairs }, grid: flatGrid(caps, Math.ceil(pairs / lanes)) }],
  }
}

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
interface Turn {
  readonly sin: Value<'f32'>
  readonly cos: Value<'f32'>
}

function turnOf(k: LaneScope, position: Value<'u32'>, freq: Value<'f32'>, magnitude: Value<'f32'>): Turn {
  const { sin, cos } = sinCosOfProduct(position, freq)
  return { sin: k.let('sin', sin.mul(magnitude)), cos: k.let('cos', cos.mul(magnitude)) }
}

function turnPair(x: Memory, y: Writable<'f32'>, a: Value<'u32'>, b: Value<'u32'>, { sin, cos }: Turn): void {
  const [p, q] = [x.at(a), x.at(b)]
  y.set(a, p.mul(cos).sub(q.mul(sin)))
  y.set(b, p.mul(sin).add(q.mul(cos)))
}

/** A lane per pair. */
function gpuKernel(lanes: number, style: RopeStyle): Kernel {
  return kernel('rope', { params: { ...PARAMS, pairs: uniform('u32') }, workgroup: [lanes] }, (p, k) => {
    const pair = k.let('pair', flatLane(k, lanes))
    k.when(pair.lt(p.pairs), (k) => {
      const perHead = p.headDim.div(2)
      const i = k.let('i', pair.rem(perHead))
      const head = k.let('head', pair.div(perHead)) // counted over all rows
      const start = k.let('start', head.mul(p.headDim))
      k.when(
        i.lt(p.half),
        (k) => {
          const turn = turnOf(k, p.positions.at(head.div(p.heads)), p.freqs.at(i), p.magnitude)
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
  })
}

/** A workgroup per row and some heads, which share their sines. */
function cpuKernel(caps: Caps, style: RopeStyle): Kernel {
  const { width } = caps
  return kernel('rope', { params: PARAMS, variant: `${style}, width ${width}` }, (p, k) => {
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
        const turn = turnOf(k, position, p.freqs.load(i, width) as unknown as Value<'f32'>, p.magnitude)
        eachHead((start) => {
          const a = start.add(i)
          const b = a.add(p.half)
          const [u, v] = [p.x.load(a, width), p.x.load(b, width)] as unknown as [Value<'f32'>, Value<'f32'>]
          p.y.store(a, u.mul(turn.cos).sub(v.mul(turn.sin)) as never)
          p.y.store(b, u.mul(turn.sin).add(v.mul(turn.cos)) as never)
        })
      })
    }
    k.for({ name: 'i', from: whole, to: p.half }, (i) => {
      const turn = turnOf(k, position, p.freqs.at(i), p.magnitude)
      eachHead((start) => {
        const a = start.add(style === 'half' ? i : i.mul(2))
        turnPair(p.x, p.y, a, style === 'half' ? a.add(p.half) : a.add(1), turn)
      })
    })
    eachHead((start) => k.for({ name: 'c', from: p.half.mul(2), to: p.headDim }, (c) => p.y.set(start.add(c), p.x.at(start.add(c)))))
  })
}
