// Who multiplies f32 matrices: our own kernel or a BLAS library, whichever is faster for the size. Sizes fall into classes, powers of
// two; the first product of a class lets both multiply on scratch memory, compares the results, and takes the library only if they
// agree and it is clearly faster. What came out is remembered for this library, CPU and number of threads. Nothing is looked for,
// loaded or measured before there is a product. Never throws: where anything fails, our own kernel does the work.

import { release as systemRelease, cpus } from 'node:os'
import { packUniforms } from '../../ir/kernel.ts'
import type { Bound, Checked } from '../check.ts'
import { findDifference } from '../compare.ts'
import type { BufferHandle } from '../device.ts'
import { codeStamp } from '../stamp.ts'
import { type Verdict, type VerdictStore, openVerdicts } from '../verdict.ts'
import { type Blas, type FoundBlas, findBlas } from './blas.ts'
import type { Heap } from './heap.ts'
import type { NativeMemory } from './native-memory.ts'
import { type NativePlan, encodeNative } from './native-plan.ts'
import { type Multiplier, type PlannedProduct, type Size, useBlas } from './native-product.ts'
import type { Native } from './native.ts'

export interface BlasOptions {
  /** a path, or `off`; default: INGOT_BLAS, else what the system has */
  readonly library?: string
  /** use it for every size, unmeasured: for tests */
  readonly always?: boolean
  readonly verdicts?: VerdictStore
}

/** What was found out about one class of sizes. */
export interface Choice {
  /** the size that was measured: `n x k x m` */
  readonly size: string
  readonly blas: boolean
  /** how it came out, for people */
  readonly why: string
}

export interface ProductReport {
  /** the library, if there is one to use */
  readonly name?: string
  readonly path?: string
  /** why there is none */
  readonly reason?: string
  readonly choices: readonly Choice[]
}

/** What measuring needs of the runtime. */
export interface ProductGround {
  readonly native: Native
  readonly heap: Heap
  readonly memory: NativeMemory
  readonly threads: number
  /** Runs a plan; nothing else is running. */
  run(plan: NativePlan): Promise<void>
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

/** The size that stands for the class of a size. */
export function measuredSize(size: Size): Size {
  const logs = [size.m, size.k, size.n].map((count) => Math.floor(Math.log2(count))) as [number, number, number]
  while (logs[0] + logs[1] + logs[2] > Math.log2(MOST_MEASURED)) logs[logs.indexOf(Math.max(...logs))]!--
  const [m, k, n] = logs.map((log) => 2 ** log) as [number, number, number]
  return { m, k, n }
}

const nameOf = ({ m, k, n }: Size): string => `${n} x ${k} x ${m}`

export class ProductChoice {
  readonly #ground: ProductGround
  readonly #options: BlasOptions
  readonly #choices = new Map<string, Choice>()
  #found: Promise<FoundBlas> | undefined
  #told: FoundBlas | undefined

  constructor(ground: ProductGround, options: BlasOptions = {}) {
    this.#ground = ground
    this.#options = options
  }

  get report(): ProductReport | undefined {
    if (this.#told === undefined) return undefined
    const { blas, reason } = this.#told
    const choices = [...this.#choices.values()]
    return blas === undefined ? { reason, choices } : { name: blas.name, path: blas.path, choices }
  }

  /** Decides about the products of a plan that is not running yet. Nothing else may run meanwhile. */
  async settle(products: readonly PlannedProduct[]): Promise<void> {
    const { native, heap, memory, threads } = this.#ground
    try {
      const { blas } = await (this.#found ??= this.#find())
      if (blas === undefined) return
      const multiplier = { blas, threads, multiply: native.multiply, addressOf: (place: number) => memory.addressOf(place) }
      for (const product of products) {
        if (this.#options.always === true || (await this.#choose(product, multiplier)).blas) useBlas(heap.words, product, multiplier)
      }
    } catch {
      // no memory to measure in, a store that fails: plans are right as they were encoded
    }
  }

  async #find(): Promise<FoundBlas> {
    this.#told = await findBlas(this.#options.library)
    if (this.#told.blas !== undefined && this.#options.always !== true)
      this.#recall(await this.#store.get(await this.#key(this.#told.blas)))
    return this.#told
  }

  get #store(): VerdictStore {
    return this.#options.verdicts ?? openVerdicts()
  }

  async #key({ path, version }: Blas): Promise<string> {
    const { native, threads } = this.#ground
    return ['blas', path, version, systemRelease(), cpus()[0]?.model ?? '', threads, native.key, await codeStamp()].join('/')
  }

  /** A verdict lists the sizes that the library won, and those that it lost with the reason; `size: why`. */
  #recall(verdict: Verdict | undefined): void {
    for (const line of verdict?.passed ?? []) {
      const [size = '', why = ''] = line.split(': ')
      this.#choices.set(size, { size, blas: true, why })
    }
    for (const { name, error } of verdict?.failed ?? []) this.#choices.set(name, { size: name, blas: false, why: error })
  }

  async #remember(blas: Blas): Promise<void> {
    const all = [...this.#choices.values()]
    await this.#store.set(await this.#key(blas), {
      passed: all.filter((each) => each.blas).map(({ size, why }) => `${size}: ${why}`),
      failed: all.filter((each) => !each.blas).map(({ size, why }) => ({ name: size, error: why, lasting: true })),
    })
  }

  async #choose({ size, dispatch }: PlannedProduct, multiplier: Multiplier): Promise<Choice> {
    const measured = measuredSize(size)
    const name = nameOf(measured)
    const known = this.#choices.get(name)
    if (known !== undefined) return known
    const choice = { size: name, ...(await this.#measure(measured, dispatch.program, multiplier)) }
    this.#choices.set(name, choice)
    await this.#remember(multiplier.blas)
    return choice
  }

  /** Both multiply the same matrices, taking turns. */
  async #measure(size: Size, program: Dispatch['program'], multiplier: Multiplier): Promise<Pick<Choice, 'blas' | 'why'>> {
    const { heap, memory, run } = this.#ground
    const { m, k, n } = size
    const places: number[] = []
    const plans: NativePlan[] = []
    try {
      const bind = (elements: number): Bound<number> => {
        const place = memory.alloc(4 * elements, 'measure')
        places.push(place)
        return bound(place, 4 * elements)
      }
      const [x, w, y, bias] = [bind(n * k), bind(m * k), bind(n * m), bind(m)]
      for (const input of [x, w, bias]) memory.write(input.entry.memory, someNumbers(input.bytes / 4))
      const named: Readonly<Record<string, Bound<number>>> = { x, w, y, bias }
      const buffers = program.kernel.params.flatMap(({ kind, name }) => (kind === 'buffer' ? named[name]! : []))
      const outs = program.kernel.product?.outs ?? 1
      const command: Dispatch = {
        kind: 'dispatch',
        program,
        buffers,
        uniforms: packUniforms(program.kernel, { ...size }),
        grid: [Math.ceil(m / outs), 1, 1],
      }
      const repeats = Math.max(1, Math.min(MOST_REPEATS, Math.round(LEAST_MEASURED / (m * k * n))))
      for (let which = 0; which < 2; which++)
        plans.push(
          encodeNative(
            { heap, addressOf: multiplier.addressOf },
            Array.from({ length: repeats }, () => command),
          ),
        )
      const [own, library] = plans as [NativePlan, NativePlan]
      for (const product of library.products) useBlas(heap.words, product, multiplier)

      const results = []
      for (const plan of [own, library]) {
        memory.write(y.entry.memory, new Uint8Array(y.bytes).fill(0xff)) // NaN, which neither may read
        await run(plan)
        results.push(new Float32Array(memory.read(y.entry.memory, y.bytes).buffer))
      }
      const difference = findDifference(results[1], results[0]!, TOLERANCE)
      if (difference !== undefined) return { blas: false, why: `wrong: ${difference}` }
      const times: [number[], number[]] = [[], []]
      for (let round = 0; round < ROUNDS; round++) {
        times[0].push(await timed(() => run(own)))
        times[1].push(await timed(() => run(library)))
      }
      const ratio = median(times[0]) / median(times[1])
      return { blas: ratio >= CLEARLY, why: `${ratio.toFixed(1)} times as fast` }
    } finally {
      for (const { block } of plans) heap.free(block)
      for (const place of places) memory.free(place)
    }
  }
}

type Dispatch = Extract<Checked<number>, { kind: 'dispatch' }>

function bound(memory: number, bytes: number): Bound<number> {
  return { entry: { handle: 0 as BufferHandle, memory, bytes, capacity: bytes, writable: true, pooled: false }, offset: 0, bytes }
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

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number
}
