// Who multiplies f32 matrices: our own kernel or a BLAS library, whichever is faster for the size. Sizes fall into classes, powers of
// two; the first product of a class lets both multiply on scratch memory (measure.ts), and the library is taken only if it gives the
// same and is clearly faster. What came out is remembered for this library, CPU and number of threads. Nothing is looked for, loaded
// or measured before there is a product. Never throws: where anything fails, our own kernel does the work.

import { release as systemRelease, cpus } from 'node:os'
import { hashRunningCode } from '../../open/code-hash.ts'
import { type EncodedProduct, type Multiplier, type Size, useBlas } from '../native/product.ts'
import { type Blas, type FoundBlas, findBlas } from './library.ts'
import { type MeasureContext, measureProduct, measuredSize } from './measure.ts'
import type { Choice, ProductReport } from './report.ts'
import { type TimingStore, openTimings } from './timing.ts'

export interface BlasOptions {
  /** a path, or `off`; default: INGOT_BLAS, else what the system has */
  readonly library?: string
  /** use it for every size, unmeasured: for tests */
  readonly always?: boolean
  /** default: those of this machine */
  readonly timings?: TimingStore
}

export class ProductChoice {
  readonly #context: MeasureContext
  readonly #options: BlasOptions
  /** by the size that was measured */
  readonly #choices = new Map<string, Choice>()
  #finding: Promise<FoundBlas> | undefined
  #found: FoundBlas | undefined

  constructor(context: MeasureContext, options: BlasOptions = {}) {
    this.#context = context
    this.#options = options
  }

  /** Undefined until there was a product. */
  get report(): ProductReport | undefined {
    if (this.#found === undefined) return undefined
    const { blas, reason } = this.#found
    const choices = [...this.#choices.values()]
    return blas === undefined ? { reason, choices } : { name: blas.name, path: blas.path, choices }
  }

  /** Decides about the products of a job that is not running yet. Nothing else may run meanwhile. */
  async settle(products: readonly EncodedProduct[]): Promise<void> {
    const { native, heap, memory, threads } = this.#context
    try {
      const { blas } = await (this.#finding ??= this.#find())
      if (blas === undefined) return
      const multiplier = { blas, threads, multiply: native.multiply, addressOf: (place: number) => memory.addressOf(place) }
      for (const product of products) {
        if (this.#options.always === true || (await this.#choose(product, multiplier)).verdict === 'faster')
          useBlas(heap.words, product, multiplier)
      }
    } catch {
      // no memory to measure in, a store that fails: jobs are right as they were encoded
    }
  }

  async #find(): Promise<FoundBlas> {
    const found = await findBlas(this.#options.library)
    this.#found = found
    if (found.blas !== undefined && this.#options.always !== true) {
      for (const choice of (await this.#store.get(await this.#key(found.blas))) ?? []) this.#choices.set(choice.size, choice)
    }
    return found
  }

  get #store(): TimingStore {
    return this.#options.timings ?? openTimings()
  }

  async #key({ path, version }: Blas): Promise<string> {
    const { native, threads } = this.#context
    return [path, version, systemRelease(), cpus()[0]?.model ?? '', threads, native.key, await hashRunningCode()].join('/')
  }

  async #choose({ size, dispatch }: EncodedProduct, multiplier: Multiplier): Promise<Choice> {
    const measured = measuredSize(size)
    const name = nameOf(measured)
    const known = this.#choices.get(name)
    if (known !== undefined) return known
    const choice = { size: name, ...(await measureProduct(this.#context, measured, dispatch, multiplier)) }
    this.#choices.set(name, choice)
    await this.#store.set(await this.#key(multiplier.blas), [...this.#choices.values()])
    return choice
  }
}

/** As BLAS says it: nt is a as it is, and b transposed. */
function nameOf({ m, k, n, transposeA, transposeB }: Size): string {
  return `${m} x ${k} x ${n} ${transposeA ? 't' : 'n'}${transposeB ? 't' : 'n'}`
}
