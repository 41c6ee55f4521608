// The instruction sets that the native library is compiled for, best first, as data: what set-up tells the compiler and what
// kernels may rely on. native/cpu/runtime.c says whether a CPU has one (ingot_supported).

import type { Caps } from '../../base/caps.ts'
import type { Width } from '../../base/dtype.ts'

export interface Level {
  readonly name: string
  /** for people */
  readonly title: string
  /** as Node calls it */
  readonly arch: 'x64' | 'arm64'
  /** lanes of the widest register */
  readonly width: Width
  /** how many such registers it has */
  readonly registers: number
  /** as in Caps */
  readonly pairs?: boolean
  readonly flags: readonly string[]
}

export const LEVELS: readonly Level[] = [
  {
    name: 'avx512',
    title: 'AVX-512 VNNI',
    arch: 'x64',
    width: 16,
    registers: 32,
    flags: [
      '-mavx512f',
      '-mavx512bw',
      '-mavx512dq',
      '-mavx512vl',
      '-mavx512vnni',
      '-mavx2',
      '-mfma',
      '-mf16c',
      '-mbmi',
      '-mbmi2',
      '-mpopcnt',
    ],
  },
  {
    name: 'avx2',
    title: 'AVX2',
    arch: 'x64',
    width: 8,
    registers: 16,
    pairs: true,
    flags: ['-mavx2', '-mfma', '-mf16c', '-mbmi', '-mbmi2', '-mpopcnt'],
  },
  { name: 'baseline', title: 'x86-64', arch: 'x64', width: 4, registers: 16, flags: ['-march=x86-64'] },
  { name: 'i8mm', title: 'NEON i8mm', arch: 'arm64', width: 4, registers: 32, flags: ['-march=armv8.2-a+dotprod+fp16+i8mm'] },
  { name: 'dotprod', title: 'NEON dotprod', arch: 'arm64', width: 4, registers: 32, flags: ['-march=armv8.2-a+dotprod+fp16'] },
  { name: 'neon', title: 'NEON', arch: 'arm64', width: 4, registers: 32, flags: ['-march=armv8-a'] },
]

const SHARED_BYTES = 2 ** 20

interface CpuSize {
  readonly width: Width
  readonly registers?: number
  readonly pairs?: boolean | undefined
  readonly threads: number
  readonly bufferBytes: number
  readonly streams?: number
}

/** What kernels are written for: one lane with vectors, packed dot products. */
export function cpuCaps({ width, registers = 16, pairs, threads, bufferBytes, streams = 1 }: CpuSize): Caps {
  return {
    streams,
    lanes: 1,
    subgroup: 0,
    tiles: false,
    f16: false,
    f64: true,
    width,
    registers,
    dot: true,
    ...(pairs === undefined ? {} : { pairs }),
    parallel: threads,
    sharedBytes: SHARED_BYTES,
    bufferBytes,
    bindingBytes: bufferBytes,
    bindings: 64,
    grid: 2 ** 31 - 1,
    alignment: 64,
    blanks: true,
  }
}
