// The lazy graph: a tensor node says which operation gives it, from which nodes. Nothing is computed until a plan is built.
// Plain data; shapes are row-major, the last axis contiguous.

import type { BufferHandle } from '../device/device.ts'
import { type CacheType, cacheBytes } from '../kernel/attention/cache-type.ts'
import type { GgmlType } from '../quant/type.ts'

/** Types of computed tensors. Weights may have any format; they are leaves. */
export const ELEMENT_TYPES = ['f32', 'f16', 'u32'] as const
export type ElementType = (typeof ELEMENT_TYPES)[number]
/** Caches may be held in bytes as well, which only cacheWrite and attention understand. */
export type StoredType = ElementType | CacheType

export interface TensorNode {
  readonly op: string
  readonly shape: readonly number[]
  readonly type: StoredType
  readonly src: readonly TensorNode[]
  readonly attrs: object
  /** for people: shown by `ingot compare` and in errors */
  label?: string
}

/** A leaf whose bytes lie in a buffer that outlives the plan: weights, caches, inputs. */
export interface LeafAttrs {
  readonly buffer: BufferHandle
  /** byte offset in the buffer; a multiple of the device's alignment */
  readonly offset: number
  readonly format: GgmlType
  /**
   * packed: rows side by side for int8 dot products (quant/packed/packed.ts); only linear layers can use it.
   * cache: as attention has it (kernel/attention/cache-type.ts)
   */
  readonly layout: 'file' | 'packed' | 'cache'
}

export function leafOf(node: TensorNode): LeafAttrs | undefined {
  return node.op === 'leaf' ? (node.attrs as LeafAttrs) : undefined
}

export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1)
}

export function bytesOf(node: TensorNode): number {
  return node.type === 'u32' ? 4 * sizeOf(node.shape) : cacheBytes(node.type, sizeOf(node.shape))
}
