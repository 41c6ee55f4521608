// Compiled Atlas programs beside Ingot's own kernels for the same: sums of vectors, products of matrices by tiles in shared memory, with and
// without checks. On cpu, the experiment's own library has all of them as C; on wasm they are WebAssembly, as they are wherever a user runs
// a program on a CPU.
// `node lab/run.js atlas [--device wasm,cpu,webgpu] [--threads 2] [--only add,1M] [--rounds 9] [--quick] [--json]`

import { readFileSync } from 'node:fs'
import { compileProgram, statusBytes } from '../src/atlas/compile/compile.ts'
import { resolveLaunch } from '../src/atlas/launch.ts'
import { parseProgram } from '../src/atlas/text.ts'
import { uniformsOf } from '../src/ir/kernel.ts'
import type { BufferShape } from '../src/kernel/family.ts'
import { map } from '../src/kernel/map/map.ts'
import { matmul } from '../src/kernel/matmul/matmul.ts'
import { type Entry, bytesOf, entryOf } from './measure/entry.ts'
import { experiment } from './measure/experiment.ts'

interface Asked {
  readonly shape: string
  readonly quick: boolean
  readonly operations: number
  /** f32 elements of buffers 1, 2 and 3 */
  readonly elements: readonly [number, number, number]
  /** what buffer 4 says, as u64 */
  readonly sizes: readonly number[]
  readonly blocks: number
  readonly sharedBytes?: number
}

/** A program of assets/atlas whose buffers are two inputs, an output and the sizes. */
function atlas(name: string, checks: boolean, asked: Asked): Entry {
  const { shape, quick, operations, elements, sizes, blocks, sharedBytes = 0 } = asked
  const program = parseProgram(readFileSync(new URL(`../../../assets/atlas/${name}.atlas`, import.meta.url), 'utf8'))
  const launch = resolveLaunch({ grid: [blocks], block: [256], sharedBytes })
  const { kernel } = compileProgram(program, launch, { checks })
  const [a, b, c] = elements
  const buffers: BufferShape[] = [
    { name: 'buf1', role: 'in', type: 'f32', elements: a },
    { name: 'buf2', role: 'in', type: 'f32', elements: b },
    { name: 'buf3', role: 'inout', type: 'f32', elements: c },
    { name: 'buf4', role: 'in', type: 'u32', elements: 2 * sizes.length },
  ]
  const bytes = Object.fromEntries(buffers.map((buffer) => [`${buffer.name}_bytes`, bytesOf(buffer)]))
  const status: BufferShape = { name: 'status', role: 'inout', type: 'u32', elements: statusBytes(launch) / 4 }
  const uniforms = Object.fromEntries(uniformsOf(kernel).map((each) => [each.name, bytes[each.name] ?? 0]))
  return {
    kernel: `atlas ${name}${checks ? '' : ', no checks'}`,
    shape,
    quick,
    operations,
    arithmetic: 'f32',
    bytes: 4 * (a + b + c),
    buffers: checks ? [...buffers, status] : buffers,
    inputs: () => ({ buf4: Uint32Array.from(sizes.flatMap((size) => [size, 0])) }),
    work: () => ({ launches: [{ kernel, uniforms, grid: launch.grid }] }),
  }
}

function add(elements: number, shape: string, quick: boolean): Entry[] {
  const input = { type: 'f32', strides: [1] } as const
  const expr = { op: 'add', args: [{ input: 0 }, { input: 1 }] } as const
  const asked = {
    shape,
    quick,
    operations: elements,
    elements: [elements, elements, elements],
    sizes: [elements],
    blocks: elements / 256,
  } as const
  return [
    entryOf(map, { type: 'f32', shape: [elements], expr, inputs: [input, input] }, { kernel: 'own add', shape, quick }),
    atlas('vector-add', true, asked),
    atlas('vector-add', false, asked),
  ]
}

function product(side: number, quick: boolean): Entry[] {
  const size = side * side
  const shape = `${side}x${side}x${side}`
  const blocks = Math.ceil(side / 32) ** 2
  const asked = {
    shape,
    quick,
    operations: 2 * side ** 3,
    elements: [size, size, size],
    sizes: [side, side, side],
    blocks,
    sharedBytes: 4096,
  } as const
  const params = { type: 'f32', m: side, n: side, k: side, transposeA: false, transposeB: false, batch: [], bias: false } as const
  return [entryOf(matmul, params, { kernel: 'own product', shape, quick }), atlas('gemm', true, asked), atlas('gemm', false, asked)]
}

export const entries: readonly Entry[] = [
  ...add(2 ** 20, '1M', true),
  ...add(2 ** 24, '16M', false),
  ...product(256, true),
  ...product(512, false),
  ...product(1024, false),
]

export const main = experiment(entries)
