// Dot products of bytes summed in 16 bits: x64 multiplies and adds pairs of bytes into 16 bits in one instruction, and going on to 32
// bits takes two more. Where the bits of the quants say that several products fit 16 bits, they are added there first. This file finds
// out how many fit. It emits nothing (sum.ts does).

import { scalarOf, widthOf } from '../../base/dtype.ts'
import { type Node, type NodeOf, walk } from '../../ir/node.ts'
import { splatOf } from '../../ir/pass/constant.ts'

const LARGEST = 2 ** 15 - 1
/** size of the smallest signed byte */
const BYTE = 128
const ALL = 0xffffffff

export type Dot = NodeOf<'dotU7I8'>

/** Products that end in `sum`, first the one that is added first. */
export function chainOf(node: Node): { dots: readonly Dot[]; sum: Node } {
  const dots: Dot[] = []
  let sum = node
  for (; sum.op === 'dotU7I8'; sum = sum.src[2]) dots.unshift(sum)
  return { dots, sum }
}

/** A chain of products, cut into runs, times a number of 16 bits. */
export interface Product {
  readonly runs: readonly (readonly Dot[])[]
  readonly factor: Node
}

export class Pairs {
  readonly #lets = new Map<number, Node>()
  readonly #factors = new Set<number>()
  /** some variable is set to a sum that is to be computed at once */
  readonly hasPinned: boolean

  constructor(body: Node) {
    let hasPinned = false
    walk(body, (node) => {
      if (node.op === 'let') this.#lets.set(node.arg.id, node.src[0])
      if (node.op === 'set') hasPinned ||= this.isPinned(node.src[0])
    })
    walk(body, (node) => {
      const { factor } = this.productOf(node) ?? {}
      if (factor?.op === 'local') this.#factors.add(factor.arg)
    })
    this.hasPinned = hasPinned
  }

  /** A name is a factor of some product. */
  isFactor(id: number): boolean {
    return this.#factors.has(id)
  }

  /** Cuts a chain into runs that fit 16 bits each. */
  runs(dots: readonly Dot[]): Dot[][] {
    const runs: Dot[][] = []
    let left = 0
    for (const dot of dots) {
      const size = this.#sizeOf(dot)
      if (size > left) {
        runs.push([])
        left = LARGEST
      }
      left -= size
      runs.at(-1)?.push(dot)
    }
    return runs
  }

  /** A chain times something that fits 16 bits: pairs can be multiplied as they are. */
  productOf({ op, src: [a, b] }: Node): Product | undefined {
    if (op !== 'mul' || a === undefined || b === undefined || widthOf(a.dtype) === 1) return undefined
    const [left, factor] = a.op === 'dotU7I8' ? [a, b] : [b, a]
    const { dots, sum } = chainOf(left)
    return dots.length > 0 && splatOf(sum) === 0 && this.#fits(factor) ? { runs: this.runs(dots), factor } : undefined
  }

  /** Some term of a sum is such a product of a chain. */
  isSumOfProducts(node: Node): boolean {
    return scalarOf(node.dtype) === 'i32' && widthOf(node.dtype) > 1 && this.termsOf(node).products.length > 0
  }

  /** What has products of bytes is to be computed where it stands (emit.ts). */
  isPinned(node: Node): boolean {
    if (widthOf(node.dtype) === 1) return false
    let found = false
    walk(node, ({ op }) => {
      found ||= op === 'dotU7I8' || op === 'dotU8I8' || op === 'dotI8'
    })
    return found
  }

  /** The terms of a sum of integers. */
  termsOf(node: Node): { products: Product[]; others: Node[] } {
    if (node.op === 'add') {
      const terms = node.src.map((term) => this.termsOf(term))
      return { products: terms.flatMap(({ products }) => products), others: terms.flatMap(({ others }) => others) }
    }
    const product = this.productOf(node)
    return product === undefined ? { products: [], others: [node] } : { products: [product], others: [] }
  }

  /** A number of 16 bits with its sign. */
  #fits(node: Node): boolean {
    const value = this.#named(node)
    if (value.op === 'shr' && scalarOf(value.dtype) === 'i32') return (splatOf(value.src[1]) ?? 0) >= 16
    return this.#bitsOf(node) <= LARGEST
  }

  /** What a name stands for. */
  #named(node: Node): Node {
    return (node.op === 'local' ? this.#lets.get(node.arg) : undefined) ?? node
  }

  /** Largest size of a sum of two products. */
  #sizeOf({ src }: Dot): number {
    const quants = this.#named(src[0])
    if (quants.op === 'lookup16') return 2 * BYTE * Math.max(...quants.arg)
    const bits = this.#bitsOf(quants)
    const byte = (at: number): number => Math.min(127, (bits >>> (8 * at)) & 255)
    return BYTE * Math.max(byte(0) + byte(1), byte(2) + byte(3))
  }

  /** Bits that can be set in any lane. */
  #bitsOf(node: Node): number {
    const known = splatOf(node)
    if (known !== undefined) return known >>> 0
    const [a, b] = node.src
    if (node.op === 'local') return node === this.#named(node) ? ALL : this.#bitsOf(this.#named(node))
    if (node.op === 'unpackU8') return 255
    if (node.op === 'bitcast' && a !== undefined) return this.#bitsOf(a)
    if (a === undefined || b === undefined || node.src.length !== 2 || scalarOf(node.dtype) !== 'u32') return ALL
    const count = splatOf(b)
    switch (node.op) {
      case 'and':
        return (this.#bitsOf(a) & this.#bitsOf(b)) >>> 0
      case 'or':
      case 'xor':
        return (this.#bitsOf(a) | this.#bitsOf(b)) >>> 0
      case 'shl':
        return count === undefined ? ALL : (this.#bitsOf(a) << (count & 31)) >>> 0
      case 'shr':
        return count === undefined ? ALL : this.#bitsOf(a) >>> (count & 31)
      default:
        return ALL
    }
  }
}
