// Dot products of bytes summed in 16 bits: x64 multiplies and adds pairs of bytes into 16 bits in one instruction, and going on to 32
// bits takes two more. Where the bits of the quants say that several products fit 16 bits, they are added there first. This file finds
// out how many fit, and which variables can hold such pairs of sums through a whole loop. It emits nothing.

import { scalarOf, widthOf } from '../../base/dtype.ts'
import { type Node, type NodeOf, blocksOf, valuesOf, walk } from '../../ir/node.ts'
import { opRecord } from '../../ir/op.ts'
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

/** A sum times a number of 16 bits: that of a variable of pairs, or runs of a chain. */
export interface Product {
  readonly sum: number | readonly Dot[][]
  readonly factor: Node
}
export type Chain = Product & { readonly sum: readonly Dot[][] }

/** What is done to a variable. */
interface Story {
  /** block in which it starts, at zero */
  readonly home: Node
  /** the one loop whose body adds to it, and the largest size the sums come to */
  loop: Node | undefined
  size: number
}

function roundsOf({ op, src }: Node): number | undefined {
  const [from, to, step] = op === 'for' ? src.slice(0, 3).map(splatOf) : []
  return from === undefined || to === undefined || step === undefined ? undefined : Math.ceil((to - from) / step)
}

export class Pairs {
  readonly #lets = new Map<number, Node>()
  readonly #stories = new Map<number, Story>()
  /** some variable is set to a sum that is to be computed at once */
  hasPinned = false

  constructor(body: Node) {
    walk(body, ({ op, arg, src }) => {
      if (op === 'let') this.#lets.set(arg.id, src[0])
    })
    this.#follow(body, [])
    walk(body, (node) => {
      if (node.op === 'set') this.hasPinned ||= this.isPinned(node.src[0])
    })
  }

  /** The variable holds two sums of 16 bits in each lane. */
  has(id: number): boolean {
    const { loop, size } = this.#stories.get(id) ?? { size: Infinity }
    return loop !== undefined && size <= LARGEST
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

  /** A sum times something that fits 16 bits: pairs can be multiplied as they are, those of a variable or each run of a chain. */
  productOf({ op, src: [a, b] }: Node): Product | undefined {
    if (op !== 'mul' || a === undefined || b === undefined) return undefined
    const [left, factor] = a.op === 'get' || a.op === 'dotU7I8' ? [a, b] : [b, a]
    if (!this.#fits(factor) || widthOf(factor.dtype) === 1) return undefined
    if (left.op === 'get') return this.has(left.arg) ? { sum: left.arg, factor: this.#unnamed(factor) } : undefined
    const { dots, sum } = chainOf(left)
    return dots.length > 0 && splatOf(sum) === 0 ? { sum: this.runs(dots), factor: this.#unnamed(factor) } : undefined
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
  termsOf(node: Node): { products: Chain[]; others: Node[] } {
    if (node.op === 'add') {
      const [a, b] = node.src.map((term) => this.termsOf(term))
      return { products: [...(a?.products ?? []), ...(b?.products ?? [])], others: [...(a?.others ?? []), ...(b?.others ?? [])] }
    }
    const product = this.productOf(node)
    return product !== undefined && typeof product.sum !== 'number'
      ? { products: [{ ...product, sum: product.sum }], others: [] }
      : { products: [], others: [node] }
  }

  /** A number of 16 bits with its sign. */
  #fits(node: Node): boolean {
    const value = node.op === 'local' ? this.#lets.get(node.arg) : node
    if (value?.op === 'shr' && scalarOf(value.dtype) === 'i32') return (splatOf(value.src[1]) ?? 0) >= 16
    return this.#bitsOf(node) <= LARGEST
  }

  /** What a name stands for, where it may as well be said again: engines compute it once. */
  #unnamed(node: Node): Node {
    const value = node.op === 'local' ? this.#lets.get(node.arg) : undefined
    let pure = value !== undefined
    if (value !== undefined)
      walk(value, ({ op }) => {
        pure &&= opRecord(op).kind === 'pure'
      })
    return value !== undefined && pure ? value : node
  }

  /** `loops` are the loops around the block with the blocks they stand in, outermost first. */
  #follow(block: Node, loops: readonly { readonly loop: Node; readonly within: Node }[]): void {
    for (const statement of block.src) {
      const { op, arg, src } = statement
      if (op === 'var' && widthOf(src[0].dtype) > 1 && splatOf(src[0]) === 0) {
        this.#stories.set(arg.id, { home: block, loop: undefined, size: 0 })
      }
      if (op === 'set') this.#add(arg, chainOf(src[0]), loops.at(-1))
      const read = op === 'set' ? chainOf(src[0]).dots.flatMap((dot) => [dot.src[0], dot.src[1]]) : valuesOf(statement)
      for (const each of read)
        walk(each, (node) => {
          if (node.op === 'get') this.#read(node.arg, loops)
        })
      for (const inner of blocksOf(statement)) this.#follow(inner, [...loops, { loop: statement, within: block }])
    }
  }

  /** Only a loop of known length in the variable's own block will do. */
  #add(id: number, { dots, sum }: ReturnType<typeof chainOf>, place: { readonly loop: Node; readonly within: Node } | undefined): void {
    const story = this.#stories.get(id)
    if (story === undefined) return
    const rounds = place === undefined ? undefined : roundsOf(place.loop)
    const fits =
      dots.length > 0 && sum.op === 'get' && sum.arg === id && place?.within === story.home && (story.loop ?? place.loop) === place.loop
    story.loop = place?.loop
    story.size += fits && rounds !== undefined ? rounds * dots.reduce((all, dot) => all + this.#sizeOf(dot), 0) : Infinity
  }

  /** Sums are read after the loop, not in it. */
  #read(id: number, loops: readonly { readonly loop: Node; readonly within: Node }[]): void {
    const story = this.#stories.get(id)
    if (story !== undefined && loops.some(({ within }) => within === story.home)) story.size = Infinity
  }

  /** Largest size of a sum of two products. */
  #sizeOf({ src: [quants] }: Dot): number {
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
    if (node.op === 'local') {
      const value = this.#lets.get(node.arg)
      return value === undefined ? ALL : this.#bitsOf(value)
    }
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
