// Dot products of bytes summed in 16 bits: x64 multiplies and adds pairs of bytes into 16 bits in one instruction, and going on to 32
// bits takes two more. Where the bits of the quants say that several products fit 16 bits, they are added there first. This file finds
// out how many fit, and which variables can hold such pairs of sums through a whole loop. It emits nothing.

import { widthOf } from '../../base/dtype.ts'
import { type Node, walk } from '../../ir/node.ts'
import { OPS } from '../../ir/op.ts'
import { constantOf, operand } from './speaker.ts'

const LARGEST = 2 ** 15 - 1
/** size of the smallest signed byte */
const BYTE = 128
const ALL = 0xffffffff

/** Products that end in `sum`, first the one that is added first. */
export function chainOf(node: Node): { dots: readonly Node[]; sum: Node } {
  const dots: Node[] = []
  let sum = node
  for (; sum.op === 'dotU7I8'; sum = operand(sum, 2)) dots.unshift(sum)
  return { dots, sum }
}

/** What is done to a variable. */
interface Story {
  /** block in which it starts, at zero */
  readonly home: Node
  /** the one loop whose body adds to it, and the largest size the sums come to */
  loop: Node | undefined
  size: number
}

const idOf = (arg: Node['arg']): number => (arg as { id: number }).id

function roundsOf({ op, src }: Node): number | undefined {
  const [from, to, step] = op === 'for' ? src.slice(0, 3).map(constantOf) : []
  return from === undefined || to === undefined || step === undefined ? undefined : Math.ceil((to - from) / step)
}

export class Pairs {
  readonly #lets = new Map<number, Node>()
  readonly #stories = new Map<number, Story>()

  constructor(body: Node) {
    walk(body, ({ op, arg, src }) => {
      if (op === 'let' && src[0] !== undefined) this.#lets.set(idOf(arg), src[0])
    })
    this.#follow(body, [])
  }

  /** The variable holds two sums of 16 bits in each lane. */
  has(id: number): boolean {
    const { loop, size } = this.#stories.get(id) ?? { size: Infinity }
    return loop !== undefined && size <= LARGEST
  }

  /** Cuts a chain into runs that fit 16 bits each. */
  runs(dots: readonly Node[]): Node[][] {
    const runs: Node[][] = []
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

  /** A sum times something that fits 16 bits: the pairs can be multiplied as they are. */
  productOf({ op, src: [a, b] }: Node): { pairs: number; factor: Node } | undefined {
    if (op !== 'mul' || a === undefined || b === undefined) return undefined
    const [sum, factor] = a.op === 'get' ? [a, b] : [b, a]
    const fits = sum.op === 'get' && this.has(Number(sum.arg)) && this.#bitsOf(factor) <= LARGEST
    return fits ? { pairs: Number(sum.arg), factor: this.#unnamed(factor) } : undefined
  }

  /** What a name stands for, where it may as well be said again: engines compute it once. */
  #unnamed(node: Node): Node {
    const value = node.op === 'local' ? this.#lets.get(Number(node.arg)) : undefined
    let pure = value !== undefined
    if (value !== undefined)
      walk(value, ({ op }) => {
        pure &&= OPS[op].kind === 'pure'
      })
    return value !== undefined && pure ? value : node
  }

  /** `loops` are the loops around the block with the blocks they stand in, outermost first. */
  #follow(block: Node, loops: readonly { readonly loop: Node; readonly within: Node }[]): void {
    for (const statement of block.src) {
      const { op, arg, src } = statement
      const expressions = src.filter((each) => each.op !== 'block')
      const [value] = expressions
      if (op === 'var' && value !== undefined && widthOf(value.dtype) > 1 && constantOf(value) === 0) {
        this.#stories.set(idOf(arg), { home: block, loop: undefined, size: 0 })
      }
      if (op === 'set') this.#add(Number(arg), chainOf(operand(statement, 0)), loops.at(-1))
      const read = op === 'set' ? chainOf(operand(statement, 0)).dots.flatMap((dot) => dot.src.slice(0, 2)) : expressions
      for (const each of read)
        walk(each, (node) => {
          if (node.op === 'get') this.#read(Number(node.arg), loops)
        })
      for (const inner of src) if (inner.op === 'block') this.#follow(inner, [...loops, { loop: statement, within: block }])
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
  #sizeOf(dot: Node): number {
    const bits = this.#bitsOf(operand(dot, 0))
    const byte = (at: number): number => Math.min(127, (bits >>> (8 * at)) & 255)
    return BYTE * Math.max(byte(0) + byte(1), byte(2) + byte(3))
  }

  /** Bits that can be set in any lane. */
  #bitsOf(node: Node): number {
    const known = constantOf(node)
    if (known !== undefined) return known >>> 0
    const [a, b] = node.src
    if (node.op === 'local') {
      const value = this.#lets.get(Number(node.arg))
      return value === undefined ? ALL : this.#bitsOf(value)
    }
    if (node.op === 'unpackU8') return 255
    if (node.op === 'bitcast' && a !== undefined) return this.#bitsOf(a)
    if (a === undefined || b === undefined || node.src.length !== 2 || !node.dtype.startsWith('u32')) return ALL
    const count = constantOf(b)
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
