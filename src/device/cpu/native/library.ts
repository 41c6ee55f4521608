// Finds and loads the native library: the best instruction set that was built and that this CPU has. Node only; koffi is loaded
// here and nowhere else in this folder (blas/library.ts asks for it). Knows nothing of buffers or commands.
//
// Libraries lie, each with a manifest beside it, in a package for the platform (docs/native.md) or where set-up builds them.

import { IngotError, messageOf } from '../../../base/error.ts'
import { packageFile } from '../../../base/place.ts'
import type { Program } from '../../device.ts'
import { hashRunningSources } from '../../open/code-hash.ts'
import { type Reason, makeReason } from '../../open/finding.ts'
import { LEVELS, type Level } from '../level.ts'
import { type LibraryFile, findDamage } from './intact.ts'

/** A kernel of the library. */
export interface NativeKernel {
  readonly address: number
  /** bytes that a thread needs while it runs it */
  readonly scratch: number
}

/** A compiled kernel that is in the library. */
export interface NativeProgram extends Program {
  readonly native: NativeKernel
}

/** A loaded library. Addresses are of the process. */
export interface Native {
  readonly level: Level
  /** another build has another one */
  readonly key: string
  find(hash: string): NativeKernel | undefined
  /** where the kernel is that multiplies by a BLAS library */
  readonly multiply: number
  addressOf(memory: ArrayBufferLike): number
  /** 0 if threads cannot be had */
  createPool(threads: number): number
  destroyPool(pool: number): void
  /** Resolves with the status when the job is done; tickets count from 0. */
  run(pool: number, job: number, ticket: number): Promise<number>
  /** The same on this thread, of a pool that has no other. */
  runHere(pool: number, job: number, ticket: number): number
  /** 0 if there is no memory */
  alloc(bytes: number): number
  free(at: number, bytes: number): void
  copy(to: number, from: number, bytes: number): void
  /** asks for large pages */
  huge(at: number, bytes: number): void
  peek(from: number, bytes: number): Uint8Array<ArrayBuffer>
  poke(to: number, bytes: Uint8Array): void
  /** 0 if the file cannot be mapped */
  map(path: string, bytes: number): number
  unmap(at: number, bytes: number): void
  advise(at: number, bytes: number, wanted: boolean): void
}

/** What was found, with the reason why a better one that this CPU may have was not taken; or why nothing was. */
export type FoundNative =
  | { readonly native: Native; readonly reason?: undefined; readonly passedOver?: Reason | undefined }
  | { readonly native?: undefined; readonly reason: Reason }

export interface FindOptions {
  /** a level by name; default: the best that works */
  readonly level?: string | undefined
  /** where the libraries are */
  readonly folder?: string | undefined
  /** refuse a library that was made from other code than the one that runs; default: unless a folder is given */
  readonly strict?: boolean
}

interface Manifest {
  readonly level: string
  readonly key: string
  /** what the kernels were made from: hashes of the sources and of their compiled form (`hashSources`); not asked of a given folder */
  readonly sources?: readonly string[]
  /** the library as it was written; one without it is not loaded */
  readonly library?: LibraryFile
  readonly kernels: Readonly<Record<string, { readonly index: number; readonly scratch: number }>>
}

type Call = ((...args: unknown[]) => unknown) & { async(...args: unknown[]): void }
export interface Koffi {
  load(path: string): {
    func(prototype: string): Call
    func(name: string, result: string, parameters: readonly string[]): Call
    symbol(name: string, type: string): unknown
  }
  address(value: unknown): bigint
}

const SETUP = 'run `node scripts/setup.js`'

/** Never throws. */
export async function findNative({ level, folder, strict = folder === undefined }: FindOptions = {}): Promise<FoundNative> {
  const here = LEVELS.filter(({ arch }) => arch === process.arch)
  const candidates = here.filter(({ name }) => level === undefined || name === level)
  if (candidates.length === 0) {
    const known = ['wasm', ...here.map(({ name }) => name)].join(', ')
    return {
      reason: makeReason(
        level === undefined ? `no native kernels for ${process.arch}` : `no instruction set ${level} here; there is ${known}`,
      ),
    }
  }
  const koffi = await loadKoffi()
  if (koffi === undefined) return { reason: makeReason('koffi is not installed', '`npm install koffi`') }
  const problems: Problem[] = []
  for (const place of folder === undefined ? await folders() : [folder]) {
    for (const candidate of candidates) {
      const found = await tryLoad(koffi, place, candidate, strict)
      if (found?.native !== undefined) return { ...found, passedOver: problems.find(({ lacking }) => lacking !== true) }
      if (found !== undefined) problems.push(found.reason)
    }
  }
  const [reason = makeReason('native kernels are not built', `install a C compiler (gcc or clang) and ${SETUP}`)] = problems
  return { reason }
}

export async function loadKoffi(): Promise<Koffi | undefined> {
  try {
    const { default: koffi } = await import('koffi')
    return koffi
  } catch {
    return undefined
  }
}

/** A package for this platform comes before what was built here. */
async function folders(): Promise<string[]> {
  const [{ createRequire }, { dirname }, { fileURLToPath }] = await Promise.all([
    import('node:module'),
    import('node:path'),
    import('node:url'),
  ])
  const built = fileURLToPath(packageFile('build/native'))
  try {
    return [dirname(createRequire(import.meta.url).resolve(`@ingot/cpu-${process.platform}-${process.arch}/package.json`)), built]
  } catch {
    return [built]
  }
}

type Tried = { readonly native: Native; readonly reason?: undefined } | { readonly native?: undefined; readonly reason: Problem }
/** `lacking`: the CPU cannot run it, which is no fault of the library. */
type Problem = Reason & { readonly lacking?: true }

/** Nothing where there is no library to load. */
async function tryLoad(koffi: Koffi, folder: string, level: Level, strict: boolean): Promise<Tried | undefined> {
  const [{ readFile }, { join }] = await Promise.all([import('node:fs/promises'), import('node:path')])
  let manifest: Manifest
  try {
    // Written by scripts/build-native.js, and only believed where the key in the library is the same.
    manifest = JSON.parse(await readFile(join(folder, `libingot-${level.name}.json`), 'utf8')) as Manifest
  } catch {
    return undefined
  }
  if (strict && !manifest.sources?.includes(await hashRunningSources().catch(() => '')))
    return { reason: makeReason(`the native kernels for ${level.title} are not of these sources`, SETUP) }
  try {
    const path = join(folder, `libingot-${level.name}.so`)
    const damage = manifest.library === undefined ? 'its manifest does not name it' : await findDamage(path, manifest.library)
    if (damage !== undefined) return { reason: makeReason(`the library for ${level.title} is damaged: ${damage}`, SETUP) }
    const library = koffi.load(path)
    if (library.func('int32_t ingot_supported()')() === 0)
      return { reason: { ...makeReason(`this CPU has no ${level.title}`), lacking: true } }
    if (library.func('const char *ingot_build_key()')() !== manifest.key)
      return { reason: makeReason(`the library for ${level.title} is not the one of its manifest`, SETUP) }
    return { native: bind(koffi, library, level, manifest) }
  } catch (error) {
    return { reason: makeReason(`the library for ${level.title} does not load: ${messageOf(error)}`) }
  }
}

function bind(koffi: Koffi, library: ReturnType<Koffi['load']>, level: Level, { key, kernels }: Manifest): Native {
  const kernelAt = library.func('uint64_t ingot_kernel_at(uint32_t index)')
  const create = library.func('uint64_t ingot_pool_create(uint32_t threads)')
  const destroy = library.func('void ingot_pool_destroy(uint64_t pool)')
  const run = library.func('int32_t ingot_pool_run(uint64_t pool, uint64_t job, uint32_t ticket)')
  const alloc = library.func('uint64_t ingot_memory_alloc(uint64_t bytes)')
  const free = library.func('void ingot_memory_free(uint64_t at, uint64_t bytes)')
  const copy = library.func('void ingot_memory_copy(uint64_t to, uint64_t from, uint64_t bytes)')
  const huge = library.func('void ingot_memory_huge(uint64_t at, uint64_t bytes)')
  const peek = library.func('ingot_memory_copy', 'void', ['void *', 'uint64_t', 'uint64_t'])
  const poke = library.func('ingot_memory_copy', 'void', ['uint64_t', 'const void *', 'uint64_t'])
  const map = library.func('uint64_t ingot_file_map(const char *path, uint64_t bytes)')
  const unmap = library.func('void ingot_file_unmap(uint64_t at, uint64_t bytes)')
  const advise = library.func('void ingot_file_advise(uint64_t at, uint64_t bytes, uint32_t wanted)')
  const addresses = new Map<string, NativeKernel>()
  return {
    level,
    key,
    multiply: Number(library.func('uint64_t ingot_multiply_at()')()),
    find: (hash) => {
      const listed = kernels[hash]
      if (listed === undefined) return undefined
      const known = addresses.get(hash) ?? { address: Number(kernelAt(listed.index)), scratch: listed.scratch }
      addresses.set(hash, known)
      return known
    },
    addressOf: (memory) => Number(koffi.address(new Uint8Array(memory))),
    createPool: (threads) => Number(create(threads)),
    destroyPool: (pool) => {
      destroy(pool)
    },
    run: (pool, job, ticket) =>
      new Promise((resolve, reject) => {
        run.async(pool, job, ticket, (error: unknown, status: unknown) => {
          if (error === null || error === undefined) resolve(Number(status))
          else reject(new IngotError('device-failed', 'the native call failed', { op: 'submit', cause: error }))
        })
      }),
    runHere: (pool, job, ticket) => Number(run(pool, job, ticket)),
    alloc: (bytes) => Number(alloc(bytes)),
    free: (at, bytes) => {
      free(at, bytes)
    },
    copy: (to, from, bytes) => {
      copy(to, from, bytes)
    },
    huge: (at, bytes) => {
      huge(at, bytes)
    },
    peek: (from, bytes) => {
      const taken = new Uint8Array(new ArrayBuffer(bytes))
      if (bytes > 0) peek(taken, from, bytes)
      return taken
    },
    poke: (to, bytes) => {
      if (bytes.length > 0) poke(to, bytes, bytes.length)
    },
    map: (path, bytes) => Number(map(path, bytes)),
    unmap: (at, bytes) => {
      unmap(at, bytes)
    },
    advise: (at, bytes, wanted) => {
      advise(at, bytes, wanted ? 1 : 0)
    },
  }
}
