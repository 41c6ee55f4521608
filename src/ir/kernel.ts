// A kernel: what it is called, what it is given, how its lanes are grouped, and its body. Plain immutable data; the body is
// nodes. Knows nothing of how it was written (author.ts) nor where it runs.

import { type Scalar, type Storage, storageBytes } from '../base/dtype.ts'
import { type Interner, type Node, walk } from './node.ts'

export type Role = 'read' | 'write' | 'readwrite'

export interface BufferParam {
  readonly kind: 'buffer'
  readonly name: string
  readonly storage: Storage
  readonly role: Role
  /** true when the kernel uses atomic operations on it: then every access to it is atomic */
  readonly atomic: boolean
}

export interface UniformParam {
  readonly kind: 'uniform'
  readonly name: string
  readonly dtype: Exclude<Scalar, 'bool' | 'f16' | 'f64'>
}

export type Param = BufferParam | UniformParam

export interface SharedArray {
  readonly name: string
  readonly storage: Storage
  readonly length: number
  readonly atomic: boolean
}

/**
 * Where a kernel of a library comes from. `traits` are plain data and all that its text depends on, by construction
 * (kernel/template.ts), so that an origin stands for the text in caches and the body is written only when somebody needs it.
 */
export interface Origin {
  readonly family: string
  readonly form: string
  /** which of the form's kernels, where it has several */
  readonly stage: string
  readonly traits: object
}

export interface Kernel {
  readonly name: string
  readonly origin?: Origin | undefined
  /**
   * Says that it is nothing but a product of matrices, which a device may have a better way for: y [m, n] = a [m, k] times b [k, n], plus
   * bias [n] if there is one, plus u [m, rank] times v [rank, n] if rank is not 0. All are f32. Buffers and uniforms have these names; the
   * uniforms transposeA and transposeB say whether a lies as [k, m], and b as [n, k] and v as [n, rank]. Any grid [x, y, 1] computes
   * all of it; one of more than 1 along z is a batch.
   */
  readonly product?: true | undefined
  /** in binding order: buffers count 0, 1, 2...; uniforms are packed in order into one struct of 4-byte fields */
  readonly params: readonly Param[]
  /** lanes of one workgroup */
  readonly workgroup: readonly [x: number, y: number, z: number]
  /** lanes of one subgroup if the kernel relies on subgroups, else 0 */
  readonly subgroup: number
  readonly shared: readonly SharedArray[]
  readonly body: Node
  /** makes more nodes for passes over this kernel */
  readonly interner: Interner
}

export function buffersOf(kernel: Kernel): BufferParam[] {
  return kernel.params.filter((param) => param.kind === 'buffer')
}

export function uniformsOf(kernel: Kernel): UniformParam[] {
  return kernel.params.filter((param) => param.kind === 'uniform')
}

export function lanesOf(kernel: Kernel): number {
  return kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]
}

export function sharedBytes(kernel: Kernel): number {
  return kernel.shared.reduce((sum, array) => sum + array.length * storageBytes(array.storage), 0)
}

/** The memory a load, store or atomic names: a buffer parameter or a shared array. */
export function memoryOf(kernel: Kernel, name: string): BufferParam | SharedArray | undefined {
  return (
    kernel.params.find((param): param is BufferParam => param.kind === 'buffer' && param.name === name) ??
    kernel.shared.find((array) => array.name === name)
  )
}

export function isShared(memory: BufferParam | SharedArray): memory is SharedArray {
  return !('kind' in memory)
}

/** True for a buffer that the kernel only reads: then its elements stay as they are while it runs. */
export function isReadOnly(memory: BufferParam | SharedArray): boolean {
  return !isShared(memory) && memory.role === 'read'
}

/** True if any node of the body satisfies `test`. */
export function uses(kernel: Kernel, test: (node: Node) => boolean): boolean {
  let found = false
  walk(kernel.body, (node) => {
    found ||= test(node)
  })
  return found
}

/** Values for the uniforms, packed as every target expects them: one 4-byte field each, in order of declaration. */
export function packUniforms(kernel: Kernel, values: Readonly<Record<string, number>>): Uint8Array<ArrayBuffer> {
  const uniforms = uniformsOf(kernel)
  const bytes = new Uint8Array(4 * uniforms.length)
  const view = new DataView(bytes.buffer)
  uniforms.forEach(({ name, dtype }, field) => {
    const value = values[name]
    if (value === undefined) throw new TypeError(`${kernel.name}: uniform ${name} has no value`)
    if (dtype === 'f32') view.setFloat32(4 * field, value, true)
    else if (dtype === 'i32') view.setInt32(4 * field, value, true)
    else view.setUint32(4 * field, value, true)
  })
  return bytes
}
