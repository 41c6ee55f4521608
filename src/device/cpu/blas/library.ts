// Finds a BLAS on this machine: a library of the system that multiplies f32 matrices, usually with kernels written for the very CPU.
// Node only. Never throws, says why there is none. Does not know when it pays to use it (choice.ts).
//
// Invariant: a library that was loaded stays loaded, since jobs hold the address of its function.

import { type Reason, makeReason } from '../../open/finding.ts'
import { type Koffi, loadKoffi } from '../native/library.ts'

export interface Blas {
  /** for people: `OpenBLAS 0.3.21` */
  readonly name: string
  /** as it was asked for: a path, or a name that the system's loader knows */
  readonly path: string
  /** all it says of itself; another build says something else */
  readonly version: string
  /** address of cblas_sgemm */
  readonly sgemm: number
  /** Calls that may be made at once, one for each thread of ours. 1: it has threads of its own, one call does all. */
  readonly calls: number
}

/** What was found, or why nothing was. */
export type FoundBlas = { readonly blas: Blas; readonly reason?: undefined } | { readonly blas?: undefined; readonly reason: Reason }

type Library = ReturnType<Koffi['load']>

/** Best first. Plain libblas.so.3 is often one of the others under another name. */
const NAMES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['/System/Library/Frameworks/Accelerate.framework/Accelerate', 'libopenblas.dylib'],
  linux: ['libopenblas.so.0', 'libopenblas.so', 'libcblas.so.3', 'libblas.so.3'],
  win32: ['openblas.dll', 'libopenblas.dll'],
}
/** What openblas_get_parallel says of a build: what it does with threads. */
const PARALLEL = { none: 0, own: 1, openmp: 2 } as const
/** Calls at once if it does not say how many it is made for. */
const FEW_CALLS = 8

const loaded = new Map<string, { readonly library: Library; readonly blas: Blas }>()

const ADVICE = 'OpenBLAS makes models of f32 weights faster; Debian and Ubuntu have it as libopenblas0-pthread'

/** `asked`: a path, or `off`; default: INGOT_BLAS, else what the system has. */
export async function findBlas(asked: string = process.env['INGOT_BLAS'] ?? ''): Promise<FoundBlas> {
  const wish = asked.trim()
  const none = (evidence: string): FoundBlas => ({ reason: makeReason(evidence, wish === '' ? ADVICE : '') })
  if (wish.toLowerCase() === 'off') return none('INGOT_BLAS is off')
  const koffi = await loadKoffi()
  if (koffi === undefined) return none('koffi is not installed')
  const problems: string[] = []
  for (const path of wish === '' ? (NAMES[process.platform] ?? []) : [wish]) {
    const found = tryLoad(koffi, path)
    if (typeof found === 'object') return { blas: found }
    if (found !== undefined) problems.push(found)
  }
  // One that is there and cannot be used says more than those that are not there.
  const [first = wish === '' ? 'no BLAS library is installed' : `no library ${wish}, which INGOT_BLAS names, can be loaded`] = problems
  return none(first)
}

/** The library, why it cannot be used, or nothing where there is none. */
function tryLoad(koffi: Koffi, path: string): Blas | string | undefined {
  const known = loaded.get(path)
  if (known !== undefined) return known.blas
  let library: Library
  try {
    library = koffi.load(path)
  } catch {
    return undefined
  }
  try {
    const sgemm = Number(koffi.address(library.symbol('cblas_sgemm', 'void')))
    const described = describe(library, path)
    if (typeof described === 'string') return described
    const blas = { ...described, path, sgemm }
    loaded.set(path, { library, blas })
    return blas
  } catch {
    return `${path} has no cblas_sgemm`
  }
}

/** What is known of a library, or why it cannot be used. */
function describe(library: Library, path: string): Pick<Blas, 'name' | 'version' | 'calls'> | string {
  const config = attempt(() => String(library.func('const char *openblas_get_config()')()))
  if (config === undefined) {
    const name = path.split(/[\\/]/).at(-1) ?? path
    return { name, version: '', calls: 1 }
  }
  if (config.includes('USE64BITINT')) return `${path} takes 64-bit sizes`
  const parallel = attempt(() => library.func('int openblas_get_parallel()')())
  // Built without threads it may have no locks either, and then two callers spoil each other's work.
  if (parallel === PARALLEL.none) return `${path} is built for one thread`
  const alone =
    parallel === PARALLEL.own && attempt(() => library.func('void openblas_set_num_threads(int threads)')(1) ?? true) !== undefined
  const most = Number(/MAX_THREADS=(\d+)/.exec(config)?.[1] ?? FEW_CALLS)
  return { name: config.split(' ').slice(0, 2).join(' '), version: config, calls: alone ? most : 1 }
}

function attempt<T>(what: () => T): T | undefined {
  try {
    return what()
  } catch {
    return undefined
  }
}
