// Runs a kernel as WebAssembly in this thread: arrays in, results in place, like the interpreter.

import { buffersOf, packUniforms, type Kernel } from '../../src/ir/kernel.ts'
import { argsBytes, ARGS, emitWasm, uniformsOffset } from '../../src/emit/wasm/emit.ts'
import { detectWasm, type WasmFeatures } from '../../src/emit/wasm/features.ts'
import { importsFor } from '../../src/emit/wasm/math.ts'

const START = 65536
const found = await detectWasm()
/** What this engine has, and less: every fallback is run where the better way would be. */
export const VARIANTS: readonly (readonly [name: string, features: WasmFeatures])[] = [
  ['all features', found],
  ['sums in 16 bits first', { ...found, pairs: found.relaxed }],
  ['sums in 32 bits at once', { ...found, pairs: false }],
  ['no relaxed dot-add', { ...found, relaxedDot: false, pairs: false }],
  ['no relaxed SIMD', { ...found, relaxed: false, relaxedDot: false, pairs: false }],
  ['no threads', { ...found, relaxed: false, relaxedDot: false, pairs: false, threads: false }],
]

export interface Run {
  readonly buffers: Readonly<Record<string, Uint8Array>>
  readonly uniforms?: Readonly<Record<string, number>>
  readonly grid?: readonly [number, number, number]
}

export function runWasm(kernel: Kernel, { buffers, uniforms = {}, grid = [1, 1, 1] }: Run, features: WasmFeatures = found): void {
  const { bytes, entry, scratchBytes, tables } = emitWasm(kernel, features)
  const size = Object.values(buffers).reduce(
    (sum, each) => sum + each.length + 128,
    START + argsBytes(kernel) + scratchBytes + tables.length + 1024,
  )
  const pages = Math.ceil(size / 65536)
  const memory = features.threads
    ? new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true })
    : new WebAssembly.Memory({ initial: pages })
  const all = new Uint8Array(memory.buffer)
  const view = new DataView(memory.buffer)
  let top = START
  const place = (length: number): number => {
    const at = top
    top = Math.ceil((top + length) / 64) * 64
    return at
  }
  const args = place(argsBytes(kernel))
  const tablesAt = place(tables.length)
  all.set(tables, tablesAt)
  grid.forEach((count, axis) => view.setUint32(args + ARGS.grid + 4 * axis, count, true))
  view.setUint32(args + ARGS.tables, tablesAt, true)
  const places = buffersOf(kernel).map(({ name }, index) => {
    const given = buffers[name]
    if (given === undefined) throw new Error(`no buffer ${name}`)
    const at = place(given.length)
    all.set(given, at)
    view.setUint32(args + ARGS.buffers + 4 * index, at, true)
    return { given, at }
  })
  all.set(packUniforms(kernel, uniforms), args + uniformsOffset(kernel))
  const scratch = place(scratchBytes)
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), importsFor(memory))
  const run = exports[entry] as (args: number, scratch: number, begin: number, end: number) => void
  const total = grid[0] * grid[1] * grid[2]
  const middle = Math.floor(total / 3)
  run(args, scratch, 0, middle)
  run(args, scratch, middle, total)
  for (const { given, at } of places) given.set(all.subarray(at, at + given.length))
}
