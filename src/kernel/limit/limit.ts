// What a machine can do at most, as kernels of this language on the same device and with all its threads: reading memory in a row, and
// multiplying and adding in registers. Nobody computes with them; `ingot bench --ops` and the lab print what they time as shares of these.

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'
import { type Readable, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value, VectorOf } from '../../ir/value.ts'
import { type Cost, type Form, type Launch, NONE, family, isCpu, isGpu } from '../family.ts'
import { type Team, combineLanes, teamOf } from '../lanes.ts'
import { type Write, template } from '../template.ts'

/** Which limit: of memory, or of arithmetic. */
export type LimitKind = 'read' | Cost['arithmetic']
const KINDS: readonly LimitKind[] = ['read', 'f32', 'i8']

export interface LimitParams {
  readonly kind: LimitKind
  /** workgroups: each sums a chunk of memory, or turns its chains */
  readonly groups: number
  /** how long the chains are; 0 where memory is read */
  readonly turns: number
}

/** Elements that one workgroup sums: 64 KB. */
const CHUNK = 2 ** 14
/** Sums under way in a lane when memory is read. */
const SUMS = 4
/** As packed kernels ask for their weights. */
const AHEAD = 8192
/** Chains under way when registers are: latency times throughput of every processor known, and they fit sixteen registers. */
const CHAINS = 12
/** Elements of each chain in a workgroup: one vector of each lane on GPUs, several one after the other on CPUs. */
const WIDE = 256
const GPU_LANES = 64
const TURNS = 512
/** Workgroups for each that runs at the same time: some, so that one that comes late does not hold up all. */
const GROUPS_EACH = { cpu: 32, gpu: 16 } as const
/** A chain of floats goes to factor / (1 - factor). */
const FLOAT_FACTOR = 0.5
const BYTE_FACTORS = [7, 5, 3, 1] // least significant first
const PACKED_FACTORS = 0x01030507

/** A sum over about so many bytes of memory. */
export function readLimit(bytes: number): LimitParams {
  return { kind: 'read', groups: Math.floor(bytes / (4 * CHUNK)), turns: 0 }
}

/** As much arithmetic as keeps a device busy for a while. */
export function peakLimit(kind: Cost['arithmetic'], caps: Caps): LimitParams {
  return { kind, groups: caps.parallel * GROUPS_EACH[isCpu(caps) ? 'cpu' : 'gpu'], turns: TURNS }
}

/** Vectors and lanes as kernels of such a device use them. */
interface Shape extends Team {
  readonly width: Width
}
type Traits = Shape & { readonly kind: LimitKind }

const traitsOf = (caps: Caps, kind: LimitKind): Traits =>
  isCpu(caps) ? { kind, ...teamOf(caps, 1), width: caps.width } : { kind, ...teamOf(caps, Math.min(caps.lanes, GPU_LANES)), width: 4 }

const vectors = template({ family: 'limit', form: 'vectors' }, writeLimit)
const lanes = template({ family: 'limit', form: 'lanes' }, writeLimit)

/** Where there are no dot products of bytes, nothing is held against them. */
const serves = ({ dot }: Caps, kind: LimitKind): boolean => kind !== 'i8' || dot

function formOf(name: string, suits: (caps: Caps) => boolean, kernelFor: (traits: Traits) => Kernel): Form<LimitParams> {
  return {
    name,
    fits: (caps, { kind }) => suits(caps) && serves(caps, kind),
    work: (caps, { kind, groups, turns }) => {
      const uniforms: Launch['uniforms'] = kind === 'read' ? {} : { turns, a: kind === 'f32' ? FLOAT_FACTOR : PACKED_FACTORS }
      return { launches: [{ kernel: kernelFor(traitsOf(caps, kind)), uniforms, grid: [groups, 1, 1] }] }
    },
  }
}

/** What libraries are compiled from: those of CPUs. */
function listKernels(caps: Caps): Kernel[] {
  return KINDS.filter((kind) => serves(caps, kind)).map((kind) => vectors(traitsOf(caps, kind)))
}

function writeLimit({ kind, ...traits }: Traits, kernel: Write): Kernel {
  return kind === 'read' ? writeRead(traits, kernel) : writeChains(kind, traits, kernel)
}

function writeRead({ lanes, subgroup, width }: Shape, kernel: Write): Kernel {
  // GPUs load vectors of a buffer of vectors best, CPUs any that are next to each other
  const params = { x: buffer(lanes === 1 ? 'f32' : 'f32x4', 'read'), y: buffer('f32', 'write') }
  return kernel('limit_read', { params, workgroup: [lanes], subgroup }, (p, k) => {
    const load = (at: Value<'u32'>): VectorOf<'f32'> =>
      lanes === 1
        ? (p.x as Readable<'f32', 'uniform'>).load(at.mul(width), width, { ahead: AHEAD })
        : (p.x as Readable<'f32x4', 'uniform'>).at(at)
    const count = CHUNK / width
    const start = k.let('start', k.workgroupId.x.mul(count))
    const sums = Array.from({ length: SUMS }, () => k.var('sum', k.const('f32', 0).splat(width)))
    k.for({ name: 'i', from: k.lane, to: count, step: SUMS * lanes }, (i) => {
      sums.forEach((sum, part) => sum.set(sum.get().add(load(start.add(i).add(part * lanes)))))
    })
    const mine = sums.map((sum) => sum.get()).reduce((a, b) => a.add(b))
    const total = combineLanes(k, { lanes, subgroup })('sum', mine.hsum())
    k.when(k.lane.eq(0), () => p.y.set(k.workgroupId.x, total))
  })
}

/** Every element starts elsewhere, so that no compiler computes one for all; `y` is the mean over elements of the sum over chains. */
function writeChains(kind: Cost['arithmetic'], { lanes, subgroup, width }: Shape, kernel: Write): Kernel {
  const params = { y: buffer('f32', 'write'), turns: uniform('u32'), a: uniform(kind === 'f32' ? 'f32' : 'u32') }
  return kernel(`limit_${kind}`, { params, workgroup: [lanes], subgroup }, (p, k) => {
    const sum = k.var('sum', k.const('f32', 0).splat(width))
    const steps = k.vec(...Array.from({ length: width }, (_, i) => k.const('u32', i)))
    k.for({ name: 'block', from: k.lane, to: WIDE / width, step: lanes }, (block) => {
      const first = k.let('first', steps.add(block.mul(width)))
      const starts = Array.from({ length: CHAINS }, (_, chain) => first.add(chain))
      const ends =
        kind === 'f32'
          ? turnFloats(k, p.turns, (p.a as Value<'f32'>).splat(width), starts)
          : turnBytes(k, p.turns, (p.a as Value<'u32'>).splat(width), starts)
      sum.set(ends.reduce((total, end) => total.add(end), sum.get()))
    })
    const total = combineLanes(k, { lanes, subgroup })('sum', sum.get().hsum())
    k.when(k.lane.eq(0), () => p.y.set(k.workgroupId.x, total.mul(1 / WIDE)))
  })
}

function turnFloats(k: Scope, turns: Value<'u32'>, factor: VectorOf<'f32'>, starts: readonly VectorOf<'u32'>[]): VectorOf<'f32'>[] {
  const chains = starts.map((start) => k.var('chain', start.to('f32') as VectorOf<'f32'>))
  k.for({ name: 'i', to: turns }, () => chains.forEach((chain) => chain.set(chain.get().fma(factor, factor))))
  return chains.map((chain) => chain.get())
}

/** A sum is also what is multiplied: with other operands a compiler could take the product out of the loop. */
function turnBytes(k: Scope, turns: Value<'u32'>, factor: VectorOf<'u32'>, starts: readonly VectorOf<'u32'>[]): VectorOf<'f32'>[] {
  const chains = starts.map((start) => k.var('chain', start.as('i32') as VectorOf<'i32'>))
  k.for({ name: 'i', to: turns }, () => chains.forEach((chain) => chain.set(factor.dotU7I8(chain.get().as('u32'), chain.get()))))
  return chains.map((chain) => chain.get().to('f32') as VectorOf<'f32'>)
}

export const limit = family<LimitParams>({
  name: 'limit',
  about: 'what a device does at most: sums of memory, chains of arithmetic in registers',
  tolerance: () => 1e-11,
  cases: [
    { kind: 'f32', groups: 2, turns: 4 },
    { kind: 'i8', groups: 3, turns: 5 },
    { kind: 'read', groups: 2, turns: 0 },
  ],
  buffers: ({ kind, groups }) => [
    ...(kind === 'read' ? [{ name: 'x', role: 'in', type: 'f32', elements: groups * CHUNK, cold: true } as const] : []),
    { name: 'y', role: 'out', type: 'f32', elements: groups },
  ],
  forms: [{ ...formOf('vectors', isCpu, vectors), kernels: listKernels }, formOf('lanes', isGpu, lanes)],
  define: ({ x = NONE }, { kind, groups, turns }) => {
    if (kind === 'read') {
      const y = new Float32Array(groups)
      for (let at = 0, sum = 0; at < x.length; at++) {
        sum = (at % CHUNK === 0 ? 0 : sum) + (x[at] ?? NaN)
        if (at % CHUNK === CHUNK - 1) y[Math.floor(at / CHUNK)] = sum
      }
      return { y }
    }
    const next = (value: number): number =>
      kind === 'f32'
        ? value * FLOAT_FACTOR + FLOAT_FACTOR
        : BYTE_FACTORS.reduce((sum, factor, byte) => sum + factor * ((value << (24 - 8 * byte)) >> 24), value) | 0
    let sum = 0
    for (let element = 0; element < WIDE; element++) {
      for (let chain = 0; chain < CHAINS; chain++) {
        let value = element + chain
        for (let turn = 0; turn < turns; turn++) value = next(value)
        sum += value / WIDE
      }
    }
    return { y: new Float32Array(groups).fill(sum) }
  },
  cost: ({ kind, groups, turns }) =>
    kind === 'read'
      ? { operations: groups * CHUNK, arithmetic: 'f32' }
      : { operations: 2 * CHAINS * WIDE * turns * groups * (kind === 'i8' ? 4 : 1), arithmetic: kind },
})
