// Kernels as Metal pipelines: MSL text, a library, a function, a pipeline state; one per text. Compiling happens on another
// thread, so that the event loop goes on. Constants are emitted into the text and not given as function constants: the text is
// the key of every cache, and a kernel looks the same on all targets.
//
// Invariant: every pipeline that was made is released by `close`, and nothing else is kept.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { emitMsl } from '../../emit/msl.ts'
import { hashText } from '../../ir/hash.ts'
import { type Kernel, buffersOf, lanesOf, uniformsOf } from '../../ir/kernel.ts'
import { checkKernel } from '../core/check.ts'
import type { Compilation } from '../core/backend.ts'
import type { Program } from '../device.ts'
import type { Size } from './ffi.ts'
import { type Id, type Objc, type Owned, required } from './objc.ts'

export interface MetalProgram extends Program {
  readonly pipeline: Id
  readonly workgroup: Size
  /** slot of the uniforms, after the buffers; undefined if there are none */
  readonly uniforms: number | undefined
}

export interface PipelineOptions {
  /** can be used in indirect command buffers */
  readonly indirect: boolean
  /** what the system calls itself: `Version 15.3 (Build 24D60)` */
  readonly system: string
  readonly emit?: typeof emitMsl
}

/** At most this many at a time: threads for calls are few, and completions need one too. */
const AT_ONCE = 4
const MATH_SAFE = 0

export class Pipelines {
  readonly #objc: Objc
  readonly #device: Id
  readonly #caps: Caps
  readonly #options: PipelineOptions
  /** by text */
  readonly #states = new Map<string, Promise<Owned>>()
  readonly #made: Owned[] = []
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(objc: Objc, device: Id, caps: Caps, options: PipelineOptions) {
    this.#objc = objc
    this.#device = device
    this.#caps = caps
    this.#options = options
  }

  /** The program of a kernel; throws `too-large` past a limit. */
  compile(kernel: Kernel, key: string): Compilation<MetalProgram> {
    checkKernel(kernel, this.#caps)
    const { emit = emitMsl } = this.#options
    const { text, entry, workgroup } = emit(kernel, this.#caps)
    const textKey = hashText(text)
    const same = this.#states.get(textKey)
    const state = same ?? this.#queue(() => this.#build(kernel, text, entry))
    this.#states.set(textKey, state)
    state.catch(() => this.#states.delete(textKey)) // may be tried again
    return { program: state.then((pipeline) => programOf(kernel, key, pipeline, workgroup)), fresh: same === undefined }
  }

  /** Waits for what is being compiled, and releases everything. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#states.values())
    for (const pipeline of this.#made.splice(0)) this.#objc.release(pipeline)
  }

  async #queue<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= AT_ONCE)
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    this.#running++
    try {
      return await work()
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  async #build(kernel: Kernel, text: string, entry: string): Promise<Owned> {
    const objc = this.#objc
    const library = await this.#library(kernel, text)
    try {
      const pipeline = await this.#state(kernel, library, entry)
      this.#made.push(pipeline)
      const { maxTotalThreadsPerThreadgroup, threadExecutionWidth } = objc.messages.MTLComputePipelineState
      const [most, width] = [maxTotalThreadsPerThreadgroup(pipeline), threadExecutionWidth(pipeline)]
      if (lanesOf(kernel) > most)
        throw new IngotError('too-large', 'too many lanes for the registers this kernel needs', {
          op: kernel.name,
          got: lanesOf(kernel),
          wanted: `at most ${most}`,
        })
      if (this.#caps.subgroup !== 0 && width !== this.#caps.subgroup) {
        throw new IngotError('unsupported', 'simdgroups of an unexpected size', {
          op: kernel.name,
          got: width,
          wanted: this.#caps.subgroup,
        })
      }
      return pipeline
    } finally {
      objc.release(library)
    }
  }

  /**
   * The library of a text. Asked for without an error: on another thread no pool would hold one. Should there be none, it is
   * asked for again on this thread, to hear why.
   */
  async #library(kernel: Kernel, text: string): Promise<Owned> {
    const objc = this.#objc
    const { 'newLibraryWithSource:options:error:': make } = objc.messages.MTLDevice
    const source = objc.string(text)
    const options = this.#compileOptions()
    try {
      const library = await make.later(this.#device, source, options, null)
      if (library !== null) return library
      return objc.pooled(() => {
        const error = new BigUint64Array(1)
        return make(this.#device, source, options, error) ?? raise(explain(kernel, text, objc.describe(error[0] || null)))
      })
    } finally {
      objc.release(options)
      objc.release(source)
    }
  }

  async #state(kernel: Kernel, library: Owned, entry: string): Promise<Owned> {
    const objc = this.#objc
    const { 'newComputePipelineStateWithDescriptor:options:reflection:error:': make } = objc.messages.MTLDevice
    const descriptor = this.#descriptor(kernel, library, entry)
    try {
      const state = await make.later(this.#device, descriptor, 0, null, null)
      if (state !== null) return state
      return objc.pooled(() => {
        const error = new BigUint64Array(1)
        const why = (): string => objc.describe(error[0] || null)
        return (
          make(this.#device, descriptor, 0, null, error) ??
          raise(new IngotError('compile-failed', `no pipeline: ${why()}`, { op: kernel.name }))
        )
      })
    } finally {
      objc.release(descriptor)
    }
  }

  #descriptor(kernel: Kernel, library: Owned, entry: string): Owned {
    const objc = this.#objc
    const { MTLComputePipelineDescriptor: messages, MTLLibrary } = objc.messages
    const name = objc.string(entry)
    try {
      return objc.using(MTLLibrary['newFunctionWithName:'](library, name), `a function ${entry} of ${kernel.name}`, (found) => {
        const descriptor = required(messages.new(), 'a pipeline descriptor')
        messages['setComputeFunction:'](descriptor, found)
        messages['setLabel:'](descriptor, name)
        messages['setSupportIndirectCommandBuffers:'](descriptor, this.#options.indirect)
        return descriptor
      })
    } finally {
      objc.release(name)
    }
  }

  /** The default language version is old and the default maths drops NaN and infinities: both are always set. */
  #compileOptions(): Owned {
    const { messages } = this.#objc
    const options = required(messages.MTLCompileOptions.new(), 'compile options')
    messages.MTLCompileOptions['setLanguageVersion:'](options, languageVersion(this.#options.system))
    if (this.#objc.responds(options, 'setMathMode:')) messages.MTLCompileOptions['setMathMode:'](options, MATH_SAFE)
    else messages.MTLCompileOptions['setFastMathEnabled:'](options, false)
    return options
  }
}

/** Metal 3.1 from macOS 14 on, 3.0 before; nothing we emit needs a newer one. */
function languageVersion(system: string): number {
  const major = Number(/(\d+)\./.exec(system)?.[1] ?? 14)
  return major < 14 ? 0x30000 : 0x30001
}

function programOf(kernel: Kernel, key: string, pipeline: Id, [width, height, depth]: Kernel['workgroup']): MetalProgram {
  const uniforms = uniformsOf(kernel).length === 0 ? undefined : buffersOf(kernel).length
  return { kernel, key, pipeline, workgroup: { width, height, depth }, uniforms }
}

/** What the compiler said first, with the line it said it of. */
function explain(kernel: Kernel, text: string, said: string): IngotError {
  const [, at, message] = /program_source:(\d+):\d+: error: (.*)/.exec(said) ?? []
  if (at === undefined)
    return new IngotError('compile-failed', said === '' ? 'Metal gave no library and no reason' : said, { op: kernel.name })
  const line = text.split('\n')[Number(at) - 1]?.trim() ?? ''
  return new IngotError('compile-failed', `MSL line ${at}: ${message}\n  ${line}`, { op: kernel.name })
}

function raise(error: IngotError): never {
  throw error
}
