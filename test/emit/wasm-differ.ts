// One kernel in the interpreter and in every variant of WebAssembly, compared element by element. For the tests beside it.

import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { VARIANTS, runWasm } from './wasm-run.ts'

export type Arrays = Record<
  string,
  Float32Array | Float64Array | Int32Array | Uint32Array | Uint16Array | Int16Array | Uint8Array | Int8Array
>
interface Setting {
  readonly grid?: [number, number, number]
  readonly uniforms?: Record<string, number>
}

const bytesOf = (arrays: Arrays): Record<string, Uint8Array> =>
  Object.fromEntries(Object.entries(arrays).map(([name, each]) => [name, new Uint8Array(each.slice().buffer)]))

/** What differs from the interpreter, by variant and buffer; nothing, if all is well. */
export function differences(written: Kernel, arrays: Arrays, { grid = [1, 1, 1], uniforms = {} }: Setting = {}): string[] {
  const wanted = bytesOf(arrays)
  interpret(written, { buffers: wanted, uniforms, grid })
  return VARIANTS.flatMap(([variant, features]) => {
    const got = bytesOf(arrays)
    runWasm(written, { buffers: got, uniforms, grid }, features)
    return Object.keys(wanted).flatMap((name) => {
      const Type = arrays[name]?.constructor as Float32ArrayConstructor
      const [ours, theirs] = [got, wanted].map((from) => new Type(from[name]?.buffer as ArrayBuffer)) as [Float32Array, Float32Array]
      const at = theirs.findIndex((value, index) => !Object.is(value, ours[index]))
      return at < 0 ? [] : [`${variant}: ${name}[${at}] is ${ours[at]}, wanted ${theirs[at]}`]
    })
  })
}
