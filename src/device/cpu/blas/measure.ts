// Our own kernel against a BLAS library, on scratch memory: both multiply the same matrices, the results are compared, then both are
// timed. Does not know what follows from it.

import { IngotError } from '../../../base/error.ts'
import { buffersOf, uniformsOf } from '../../../ir/kernel.ts'
import type { BoundRange, CheckedDispatch } from '../../core/checked-command.ts'
import type { BufferHandle } from '../../device.ts'
import { findDifference } from '../../open/compare.ts'
import type { Heap } from '../heap.ts'
import { type NativeJob, encodeNative } from '../native/encode.ts'
import type { Native, NativeProgram } from '../native/library.ts'
import type { NativeMemory } from '../native/memory.ts'
import { type Multiplier, type Size, useBlas } from '../native/product.ts'
import type { Choice } from './report.ts'

/** What measuring needs of the runtime. */
export interface MeasureContext {
  readonly native: Native
  readonly heap: Heap
  readonly memory: NativeMemory
  readonly threads: number
  /** Runs a job; nothing else is running. */
  run(job: NativeJob): Promise<void>
}

/** Largest product that is measured, in multiplications: some milliseconds. What is larger does not do worse by the library. */
const MOST_MEASURED = 2 ** 24
/** Small ones are repeated until there are about as many. */
const LEAST_MEASURED = 2 ** 23
const MOST_REPEATS = 128
const ROUNDS = 5
/** How much faster the library must be: results should not change with the weather. */
const CLEARLY = 1.1
/** largest NMSE between the two */
const TOLERANCE = 1e-6
/** Of memory that no handle stands for: nothing ever looks it up. */
const NO_HANDLE = 0 as BufferHandle

/** The size that stands for the class of a size: powers of two, and not too large. What is added along a rank takes little either way. */
export function measuredSize(size: Size): Size {
  const log = (count: number): number => Math.floor(Math.log2(count))
  let [m, k, n]: [number, number, number] = [log(size.m), log(size.k), log(size.n)]
  while (m + k + n > Math.log2(MOST_MEASURED)) {
    const largest = Math.max(m, k, n)
    if (m === largest) m--
    else if (k === largest) k--
    else n--
  }
  return { ...size, m: 2 ** m, k: 2 ** k, n: 2 ** n, rank: 0 }
}

/** Lets both multiply matrices of this size, taking turns. */
export async function measureProduct(
  { heap, memory, run, threads }: MeasureContext,
  size: Size,
  like: CheckedDispatch<number, NativeProgram>,
  multiplier: Multiplier,
): Promise<Omit<Choice, 'size'>> {
  const { m, k, n } = size
  const places: number[] = []
  const jobs: NativeJob[] = []
  try {
    const matrix = (elements: number, written: boolean): BoundRange<number> => {
      const place = memory.alloc(4 * elements, 'measure')
      places.push(place)
      if (!written) memory.write(place, someNumbers(elements))
      return wholeRange(place, 4 * elements, written)
    }
    const [a, y] = [matrix(m * k, false), matrix(m * n, true)]
    const matrices = new Map([
      ['a', a],
      ['u', a],
      ['v', a],
      ['b', matrix(k * n, false)],
      ['bias', matrix(n, false)],
      ['y', y],
    ])
    const dispatch = dispatchOf(like, size, threads, matrices)
    const repeats = Math.max(1, Math.min(MOST_REPEATS, Math.round(LEAST_MEASURED / (m * k * n))))
    const encode = (): NativeJob => {
      const job = encodeNative(
        heap,
        memory,
        Array.from({ length: repeats }, () => dispatch),
      )
      jobs.push(job)
      return job
    }
    const [own, library] = [encode(), encode()]
    for (const product of library.products) useBlas(heap.words, product, multiplier)

    const compute = async (job: NativeJob): Promise<Float32Array> => {
      memory.write(y.buffer.memory, new Uint8Array(y.bytes).fill(0xff)) // NaN, which neither may read
      await run(job)
      return new Float32Array(memory.read(y.buffer.memory, y.bytes).buffer)
    }
    const wanted = await compute(own)
    const difference = findDifference(await compute(library), wanted, TOLERANCE)
    if (difference !== undefined) return { verdict: 'wrong', why: difference }
    const times = { own: new Float64Array(ROUNDS), library: new Float64Array(ROUNDS) }
    for (let round = 0; round < ROUNDS; round++) {
      times.own[round] = await timed(() => run(own))
      times.library[round] = await timed(() => run(library))
    }
    const ratio = median(times.own) / median(times.library)
    return { verdict: ratio >= CLEARLY ? 'faster' : 'slower', why: `${ratio.toFixed(1)} times as fast` }
  } finally {
    for (const { block } of jobs) heap.free(block)
    for (const place of places) memory.free(place)
  }
}

/** The same kernel for another size and other matrices, cut along the longer side of the result. */
function dispatchOf(
  { program, uniforms }: CheckedDispatch<number, NativeProgram>,
  { m, k, n, rank }: Size,
  threads: number,
  matrices: ReadonlyMap<string, BoundRange<number>>,
): CheckedDispatch<number, NativeProgram> {
  const { kernel } = program
  const buffers = buffersOf(kernel).map(({ name }) => {
    const range = matrices.get(name)
    if (range === undefined) throw new IngotError('unknown-name', 'a product has no such buffer', { op: kernel.name, got: name })
    return range
  })
  const sizes: Readonly<Record<string, number>> = { m, k, n, rank }
  const fields = uniformsOf(kernel).map(({ name }) => name)
  const changed = Uint8Array.from(uniforms)
  const view = new DataView(changed.buffer)
  fields.forEach((name, field) => sizes[name] !== undefined && view.setUint32(4 * field, sizes[name], true))
  return { kind: 'dispatch', program, buffers, uniforms: changed, grid: m > n ? [threads, 1, 1] : [1, threads, 1] }
}

function wholeRange(memory: number, bytes: number, written: boolean): BoundRange<number> {
  return { buffer: { handle: NO_HANDLE, memory, bytes, capacity: bytes, writable: true, pooled: false }, offset: 0, bytes, written }
}

/** Between -1 and 1, the same every time. */
function someNumbers(count: number): Uint8Array {
  let state = 1
  return new Uint8Array(
    Float32Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) | 0
      return state / 2 ** 31
    }).buffer,
  )
}

async function timed(what: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await what()
  return performance.now() - start
}

function median(values: Float64Array): number {
  return values.toSorted()[values.length >> 1] ?? NaN
}
