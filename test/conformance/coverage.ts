// Which kernels the conformance suite has seen, and which are used without that. Kernels of CPUs are compiled ahead of time, every variant
// of them: each needs a case of its own. Those of GPUs are written for the sizes they meet; of these, one case for every family, form and
// choice (format, type, kind...) stands for all sizes.

import type { Caps } from '../../src/base/caps.ts'
import { openHost } from '../../src/device/core/host.ts'
import type { Device } from '../../src/device/device.ts'
import { describeOrigin } from '../../src/ir/hash.ts'
import type { Kernel, Origin } from '../../src/ir/kernel.ts'
import { isCpu } from '../../src/kernel/family.ts'
import { CACHE_TYPES, type CacheType, canCache } from '../../src/kernel/attention/cache-type.ts'
import { FAMILIES } from '../../src/kernel/index.ts'
import { Engine } from '../../src/llm/engine/engine.ts'
import { type DummyOptions, SMALL, type DummySizes, createDummyFile } from '../../src/llm/dummy-file.ts'
import type { SamplerNeeds } from '../../src/llm/sample.ts'
import { loadModel } from '../../src/llm/weights.ts'
import { ARCHITECTURES } from '../../src/model/index.ts'
import type { Architecture } from '../../src/model/model.ts'
import { FORMATS } from '../../src/quant/index.ts'
import { allCases } from './case.ts'
import { noting } from './noting.ts'

/** Tells whether a kernel was seen by the cases that run on a device with these caps. */
export class Coverage {
  readonly #listed: ReadonlySet<string>
  readonly #seen: ReadonlySet<string>

  constructor(caps: Caps) {
    const listed = isCpu(caps) ? FAMILIES.flatMap(({ forms }) => forms.flatMap((form) => form.kernels?.(caps) ?? [])) : []
    this.#listed = new Set(listed.flatMap(({ origin }) => (origin === undefined ? [] : [describeOrigin(origin)])))
    const cases = allCases().filter(({ family, params }) => family.form(caps, params) !== undefined)
    const launches = cases.flatMap(({ family, params }) => family.work(caps, params).launches)
    this.#seen = new Set(launches.flatMap(({ kernel: { origin } }) => (origin === undefined ? [] : [this.#key(origin)])))
  }

  /** The name of what no case has seen; nothing if one has, or if it is no kernel of the library. */
  missing({ origin }: Kernel): string[] {
    return origin === undefined || this.#seen.has(this.#key(origin)) ? [] : [this.#key(origin)]
  }

  /** Kernels that libraries are made of and no case has seen. */
  unseen(): string[] {
    return [...this.#listed].filter((key) => !this.#seen.has(key))
  }

  #key(origin: Origin): string {
    const exact = describeOrigin(origin)
    return this.#listed.has(exact) ? exact : describeOrigin({ ...origin, traits: withoutSizes(origin.traits) as object })
  }
}

function withoutSizes(value: unknown): unknown {
  if (typeof value === 'number') return '#'
  if (Array.isArray(value)) return value.map(withoutSizes)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutSizes(each)]))
}

/** Rows of a step: vectors, few, and matrices. */
const COUNTS = [1, 2, 3, 8, 9]
const CAPACITY = 64
/** With more keys than these, attention is split among workgroups. */
const LONG_CONTEXT = 1024
const LARGE_VOCABULARY = 65536
const HEADS: readonly Partial<DummySizes>[] = [
  { heads: 1, kvHeads: 1, dim: 256 },
  { heads: 8, kvHeads: 8, dim: 32 },
  { heads: 64, kvHeads: 8, dim: 32 },
  { heads: 16, kvHeads: 2, dim: 80 },
  { heads: 32, kvHeads: 32, dim: 8 },
]

/** Runs models of every architecture and format on a device that computes nothing; `note` gets every kernel that is dispatched. */
export async function runModels(caps: Caps, note: (kernel: Kernel) => void): Promise<void> {
  const device = noting(openHost({ name: 'noting', detail: '', caps, compile: () => {}, run: () => {} }), note)
  const plain: DummyOptions = { sizes: SMALL, format: 'q4_k', bias: false, fused: false }
  const [first] = ARCHITECTURES
  if (first === undefined) return
  for (const { name: format } of FORMATS) {
    for (const bias of [false, true]) await runModel(device, first, { ...plain, format, bias }, { counts: COUNTS })
  }
  const wants = [
    'argmax',
    { topK: 40 },
    { topK: 40, rule: { temperature: 1, topP: 1, minP: 0, seed: 0, start: 0, count: 40 } },
    'logits',
  ] as const
  await runModel(device, first, { ...plain, sizes: { ...SMALL, vocabulary: LARGE_VOCABULARY } }, { counts: [1], wants })
  for (const heads of HEADS) {
    for (const capacity of [CAPACITY, LONG_CONTEXT]) {
      const sizes = { ...SMALL, ...heads }
      const caches = CACHE_TYPES.filter((type) => canCache(type, sizes.dim))
      await runModel(device, first, { ...plain, sizes }, { counts: [1, 4, 33], capacity, caches })
    }
  }
  for (const architecture of ARCHITECTURES) {
    let ran = 0
    for (const [fused, bias, format] of [false, true].flatMap((a) =>
      [false, true].flatMap((b) => (['q4_k', 'q8_0', 'f16'] as const).map((c) => [a, b, c] as const)),
    )) {
      // Some architectures have several matrices in one tensor, others never.
      await runModel(device, architecture, { ...plain, fused, bias, format }, { counts: [1, 2, 9], wants, traced: true }).then(
        () => ran++,
        () => {},
      )
    }
    if (ran === 0) throw new Error(`${architecture.names[0]} does not run`)
  }
  await device.close()
}

interface Course {
  readonly counts: readonly number[]
  readonly wants?: readonly SamplerNeeds[]
  readonly caches?: readonly CacheType[]
  readonly capacity?: number
  /** also all logits, and every intermediate tensor, as `ingot compare` wants them */
  readonly traced?: boolean
}

async function runModel(device: Device, architecture: Architecture, made: DummyOptions, course: Course): Promise<void> {
  const { counts, wants = ['argmax'], caches = ['f16'], capacity = CAPACITY, traced = false } = course
  const file = createDummyFile(architecture.names[0] ?? '', made)
  const { model, free } = await loadModel(device, file, architecture, { contextLength: capacity })
  try {
    for (const cacheType of caches) {
      const engine = new Engine(device, model, { capacity, cacheType, chunk: CAPACITY })
      for (const count of counts) {
        const tokens = Array.from({ length: count }, (_, i) => i)
        for (const want of wants) {
          await engine.prepare([count], want)
          if (count > 1) await engine.prepare([0, count], want, count)
        }
        if (!traced) continue
        engine.rewind([])
        await engine.evaluate(tokens, () => {})
        engine.rewind([])
        await engine.trace(tokens)
      }
      await engine.close()
    }
  } finally {
    free()
  }
}
