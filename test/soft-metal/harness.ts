// Speaks to soft-metal as a Metal client does: typed message sends through koffi, one prepared function per signature.
// For the tests of soft-metal only; the Metal device has its own table. Not a test itself.

import koffi from 'koffi'
import { describe } from 'vitest'

type Koffi = ReturnType<typeof koffi.load>
type Func = ReturnType<Koffi['func']>
type Type = Parameters<typeof koffi.sizeof>[0]
type Id = bigint | null

interface Build {
  readonly built: boolean
  readonly path?: string
  readonly driver?: string
  readonly reason?: string
}

interface Report {
  readonly live: Readonly<Record<string, number>>
  readonly overReleases: Readonly<Record<string, number>>
  readonly misuse: readonly { readonly kind: string; readonly text: string }[]
}

/** Builds (when stale) through the set-up script; the reason is for skipping. */
export async function build(sanitize = false): Promise<Build> {
  const url = new URL('../../scripts/build-soft-metal.js', import.meta.url).href
  const module = (await import(url)) as { buildSoftMetal(o: { sanitize: boolean }): Promise<Build> }
  return module.buildSoftMetal({ sanitize })
}

/**
 * A suite that runs on soft-metal, or is skipped with the reason. When it is skipped its body still runs, with no library:
 * only tests and hooks may use it.
 */
export async function describeSoftMetal(title: string, body: (metal: SoftMetal, path: string) => void): Promise<void> {
  const { path = '', reason } = await build()
  const metal = path === '' ? (undefined as unknown as SoftMetal) : new SoftMetal(path)
  describe.skipIf(path === '')(`${title}${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
    body(metal, path)
  })
}

const SIZE = koffi.struct({ width: 'uint64', height: 'uint64', depth: 'uint64' })
const RANGE = koffi.struct({ location: 'uint64', length: 'uint64' })

// Objective-C encodings to koffi types. `^@` is an NSError** that the caller reads back.
const TYPES: Record<string, Type> = {
  v: 'void',
  '@': 'void *',
  ':': 'void *',
  Q: 'uint64',
  q: 'int64',
  i: 'int32',
  C: 'uint8',
  B: 'bool',
  d: 'double',
  '*': 'str',
  '^v': 'void *',
  '^@': 'void *',
  '^Q': 'void *',
  '{MTLSize=QQQ}': SIZE,
  '{_NSRange=QQ}': RANGE,
}

function splitTypes(types: string): string[] {
  return types.match(/\^?(?:\{[^}]*\}|.)/g) ?? []
}

export type Size = readonly [number, number, number]
const size = ([width, height, depth]: Size) => ({ width, height, depth })

export interface Run {
  /** 4 completed, 5 failed */
  readonly status: number
  readonly error: string
}

/** The loaded library and the calls the tests need. */
export class SoftMetal {
  readonly #lib: Koffi
  readonly #functions = new Map<string, Func>()
  readonly #selectors = new Map<string, bigint>()
  readonly #selectorTypes: Func
  readonly #getClass: Func
  readonly #register: Func
  readonly push: () => bigint
  readonly pop: (pool: bigint) => void
  readonly release: (object: Id) => void
  readonly retain: (object: Id) => bigint
  readonly inject: (what: string, count: number) => boolean
  readonly reset: () => void
  readonly #report: () => string
  readonly #counters: () => string
  readonly device: bigint
  readonly queue: bigint

  constructor(path: string) {
    this.#lib = koffi.load(path)
    const f = (name: string, result: string, args: string[]) => this.#lib.func(name, result, args)
    this.#selectorTypes = f('soft_metal_selector_types', 'str', ['str', 'str'])
    this.#getClass = f('objc_getClass', 'void *', ['str'])
    this.#register = f('sel_registerName', 'void *', ['str'])
    this.push = f('objc_autoreleasePoolPush', 'void *', [])
    this.pop = f('objc_autoreleasePoolPop', 'void', ['void *'])
    this.release = f('objc_release', 'void', ['void *'])
    this.retain = f('objc_retain', 'void *', ['void *'])
    this.inject = f('soft_metal_inject', 'bool', ['str', 'uint64'])
    this.reset = f('soft_metal_reset', 'void', [])
    this.#report = f('soft_metal_report', 'str', [])
    this.#counters = f('soft_metal_counters', 'str', [])
    this.device = f('MTLCreateSystemDefaultDevice', 'void *', [])() as bigint
    this.queue = this.send(this.device, 'MTLDevice', 'newCommandQueue') as bigint
  }

  selector(name: string): bigint {
    let s = this.#selectors.get(name)
    if (s === undefined) this.#selectors.set(name, (s = this.#register(name) as bigint))
    return s
  }
  types(cls: string, selector: string): string | null {
    return this.#selectorTypes(cls, selector) as string | null
  }
  classOf(name: string): bigint | null {
    return this.#getClass(name) as bigint | null
  }
  /** The prepared function for a signature in Objective-C's encoding. */
  function(types: string): Func {
    let func = this.#functions.get(types)
    if (!func) {
      const [result = 'v', ...args] = splitTypes(types).map((t) => TYPES[t] ?? 'void *')
      this.#functions.set(types, (func = this.#lib.func('objc_msgSend', result, args)))
    }
    return func
  }
  /** Send a message; the signature is the one soft-metal says the class has (or `types`, for selectors it lacks). */
  send(receiver: Id, cls: string, selector: string, ...args: unknown[]): unknown {
    const types = this.types(cls, selector) ?? `@@:${'Q'.repeat(args.length)}`
    return this.function(types)(receiver, this.selector(selector), ...args)
  }
  /** A message to a class. */
  sendClass(cls: string, selector: string, ...args: unknown[]): unknown {
    return this.send(this.classOf(cls), `+${cls}`, selector, ...args)
  }

  report(): Report {
    return JSON.parse(this.#report()) as Report
  }
  counters(): Record<string, number> {
    return JSON.parse(this.#counters()) as Record<string, number>
  }
  kinds(): string[] {
    return this.report().misuse.map((m) => m.kind)
  }

  text(string: unknown): string {
    return string ? (this.send(string as bigint, 'NSString', 'UTF8String') as string) : ''
  }
  string(text: string): bigint {
    return this.sendClass('NSString', 'stringWithUTF8String:', text) as bigint
  }
  errorText(error: unknown): string {
    return error ? this.text(this.send(error as bigint, 'NSError', 'localizedDescription')) : ''
  }
  /** Run inside an autorelease pool. */
  pooled<T>(body: () => T): T {
    const pool = this.push()
    try {
      return body()
    } finally {
      this.pop(pool)
    }
  }

  /** An owned library, or Metal's error text. */
  library(source: string): bigint | string {
    return this.pooled(() => {
      const error = new BigUint64Array(1)
      const full = `#include <metal_stdlib>\nusing namespace metal;\n${source}`
      const library = this.send(this.device, 'MTLDevice', 'newLibraryWithSource:options:error:', this.string(full), null, error) as Id
      return library ?? this.errorText(error[0])
    })
  }
  /** A pipeline of `source`'s kernel; `constants` are [index, MTLDataType, value]. Lines of `source` count from 3. */
  pipeline(
    source: string,
    name: string,
    constants: readonly (readonly [number, number, ArrayBufferView])[] = [],
    indirect = false,
  ): bigint {
    const library = this.library(source)
    if (typeof library === 'string') throw new Error(library)
    return this.pooled(() => {
      const error = new BigUint64Array(1)
      const values = constants.length ? (this.sendClass('MTLFunctionConstantValues', 'new') as bigint) : null
      for (const [index, type, value] of constants) {
        this.send(values, 'MTLFunctionConstantValues', 'setConstantValue:type:atIndex:', value, type, index)
      }
      const f = (
        values
          ? this.send(library, 'MTLLibrary', 'newFunctionWithName:constantValues:error:', this.string(name), values, error)
          : this.send(library, 'MTLLibrary', 'newFunctionWithName:', this.string(name))
      ) as Id
      if (values) this.release(values)
      this.release(library)
      if (!f) throw new Error(this.errorText(error[0]) || `no function ${name}`)
      const descriptor = this.sendClass('MTLComputePipelineDescriptor', 'new') as bigint
      this.send(descriptor, 'MTLComputePipelineDescriptor', 'setComputeFunction:', f)
      this.send(descriptor, 'MTLComputePipelineDescriptor', 'setSupportIndirectCommandBuffers:', indirect)
      const make = 'newComputePipelineStateWithDescriptor:options:reflection:error:'
      const p = this.send(this.device, 'MTLDevice', make, descriptor, 0, null, error) as Id
      this.release(descriptor)
      this.release(f)
      if (!p) throw new Error(this.errorText(error[0]))
      return p
    })
  }

  buffer(data: number | Float32Array | Uint32Array | Uint16Array | Uint8Array): bigint {
    const bytes = typeof data === 'number' ? data : data.byteLength
    const b = this.send(this.device, 'MTLDevice', 'newBufferWithLength:options:', bytes, 0) as Id
    if (!b) throw new Error('newBuffer returned nil')
    if (typeof data !== 'number') new Uint8Array(this.bytes(b)).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    return b
  }
  bytes(buffer: bigint): ArrayBuffer {
    const address = this.send(buffer, 'MTLBuffer', 'contents') as bigint
    return koffi.view(address, Number(this.send(buffer, 'MTLBuffer', 'length')))
  }
  floats(buffer: bigint): Float32Array {
    return new Float32Array(this.bytes(buffer))
  }

  /** A command buffer whose encoder is filled by `encode`; committed and waited for. */
  run(encode: (e: ComputeEncoder) => void, concurrent = false, retained = true): Run {
    return this.pooled(() => {
      const cb = this.commandBuffer(retained)
      const e = new ComputeEncoder(
        this,
        this.send(cb, 'MTLCommandBuffer', 'computeCommandEncoderWithDispatchType:', concurrent ? 1 : 0) as bigint,
      )
      encode(e)
      e.end()
      return this.finish(cb)
    })
  }
  commandBuffer(retained = true): bigint {
    return this.send(this.queue, 'MTLCommandQueue', retained ? 'commandBuffer' : 'commandBufferWithUnretainedReferences') as bigint
  }
  finish(cb: bigint): Run {
    this.send(cb, 'MTLCommandBuffer', 'commit')
    this.send(cb, 'MTLCommandBuffer', 'waitUntilCompleted')
    const status = Number(this.send(cb, 'MTLCommandBuffer', 'status'))
    return { status, error: this.errorText(this.send(cb, 'MTLCommandBuffer', 'error')) }
  }
  /** One dispatch of `name` with `buffers` bound from 0 on, everything made and released here. */
  dispatch(source: string, name: string, buffers: readonly (bigint | ArrayBufferView)[], groups: Size, threads: Size): Run {
    const p = this.pipeline(source, name)
    const run = this.run((e) => e.use(p, buffers).groups(groups, threads))
    this.release(p)
    return run
  }
}

/** The setters of a compute encoder, chained. */
export class ComputeEncoder {
  readonly #metal: SoftMetal
  readonly id: bigint
  #ended = false
  constructor(metal: SoftMetal, id: bigint) {
    this.#metal = metal
    this.id = id
  }
  send(selector: string, ...args: unknown[]): this {
    this.#metal.send(this.id, 'MTLComputeCommandEncoder', selector, ...args)
    return this
  }
  use(pipeline: bigint, buffers: readonly (bigint | ArrayBufferView)[]): this {
    this.send('setComputePipelineState:', pipeline)
    buffers.forEach((b, i) => {
      if (typeof b === 'bigint') this.send('setBuffer:offset:atIndex:', b, 0, i)
      else this.send('setBytes:length:atIndex:', b, b.byteLength, i)
    })
    return this
  }
  groups(groups: Size, threads: Size): this {
    return this.send('dispatchThreadgroups:threadsPerThreadgroup:', size(groups), size(threads))
  }
  threads(grid: Size, threads: Size): this {
    return this.send('dispatchThreads:threadsPerThreadgroup:', size(grid), size(threads))
  }
  barrier(): this {
    return this.send('memoryBarrierWithScope:', 1)
  }
  end(): this {
    if (!this.#ended) this.send('endEncoding')
    this.#ended = true
    return this
  }
}
