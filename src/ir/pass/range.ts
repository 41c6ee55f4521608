// How large an unsigned integer can be, and conditions that this decides. Lanes are counted by the workgroup's size, so what addresses
// workgroup memory by them is often known to be inside. Part of simplify.

import { widthOf } from '../../base/dtype.ts'
import { type Kernel, lanesOf, memoryOf } from '../kernel.ts'
import type { Node, NodeOf } from '../node.ts'
import { opRecord } from '../op.ts'
import { trailingZeros } from './algebra.ts'
import { constantOf } from './constant.ts'
import { builderFor, copy, finish, rebuilder } from './rewrite.ts'

const MOST = 2 ** 32 - 1

/** Comparisons of unsigned integers that always come out the same become that. */
export function decideRanges(kernel: Kernel): Kernel {
  const ranges = new Ranges(kernel)
  const builder = builderFor(kernel)
  const expression = rebuilder(builder, (node) => {
    const decided = ranges.decide(node)
    if (decided !== undefined) return builder.constant(decided, 'bool')
    const shifted = ranges.shiftedSum(node)
    if (shifted === undefined) return undefined
    const { sum, plus, places } = shifted
    return builder.make('add', 'u32', [
      builder.make('shr', 'u32', [expression(sum), builder.constant(places, 'u32')]),
      builder.constant(plus / 2 ** places, 'u32'),
    ])
  })
  const statement = (node: Node): void => {
    ranges.enter(node)
    copy(builder, node, expression, statement)
  }
  kernel.body.src.forEach(statement)
  return finish(builder, kernel)
}

class Ranges {
  readonly #kernel: Kernel
  /** what names stand for */
  readonly #named = new Map<number, Node>()
  readonly #counters = new Map<number, number>()
  readonly #known = new Map<Node, number>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Notes what a statement names. */
  enter(node: Node): void {
    if (node.op === 'let') this.#named.set(node.arg.id, node.src[0])
    if (node.op === 'for') this.#counters.set(node.arg.id, Math.max(0, this.most(node.src[1]) - 1))
  }

  decide({ op, dtype, src: [a, b] }: Node): boolean | undefined {
    if (dtype !== 'bool' || a === undefined || b === undefined || a.dtype !== 'u32') return undefined
    switch (op) {
      case 'lt':
        return this.#isLess(a, b)
      case 'ge':
        return not(this.#isLess(a, b))
      case 'gt':
        return this.#isLess(b, a)
      case 'le':
        return not(this.#isLess(b, a))
      case 'eq':
        return this.#isAligned(a, b) ? true : undefined
      default:
        return undefined
    }
  }

  /** `a < b`, if that is known. */
  #isLess(a: Node, b: Node): boolean | undefined {
    if (this.most(a) < (constantOf(b) ?? 0)) return true
    if (this.most(b) <= (constantOf(a) ?? 0)) return false
    // a sum that does not wrap is no less than its parts
    const sum = this.#resolve(a)
    const [x, y] = sum.op === 'add' ? sum.src : []
    return x !== undefined && y !== undefined && (x === b || y === b) && this.most(x) + this.most(y) <= MOST ? false : undefined
  }

  /** The parts of `(x + plus) >> places` that may as well be shifted alone: an index then has the constant at its end. */
  shiftedSum({ op, dtype, src: [a, b] }: Node): { readonly sum: Node; readonly plus: number; readonly places: number } | undefined {
    const places = op === 'shr' && dtype === 'u32' && b !== undefined ? constantOf(b) : undefined
    const sum = a === undefined || places === undefined ? undefined : this.#resolve(a)
    if (sum?.op !== 'add' || places === undefined || places > 31) return undefined
    const plus = constantOf(sum.src[1])
    const fits = plus !== undefined && plus % 2 ** places === 0 && this.most(sum.src[0]) + plus <= MOST
    return fits ? { sum: sum.src[0], plus, places } : undefined
  }

  /** `x & 3 == 0` of a multiple of 4. */
  #isAligned(a: Node, b: Node): boolean {
    const part = this.#resolve(a)
    const mask = part.op === 'and' ? constantOf(part.src[1]) : undefined
    return constantOf(b) === 0 && mask !== undefined && part.op === 'and' && 2 ** this.#zeros(part.src[0]) > mask
  }

  #zeros(node: Node): number {
    const known = (local: NodeOf<'local'>): number => {
      const value = this.#named.get(local.arg)
      return value === undefined || value === local ? 0 : this.#zeros(value)
    }
    return node.op === 'local' ? known(node) : trailingZeros(node, known)
  }

  #resolve(node: Node): Node {
    const value = node.op === 'local' ? this.#named.get(node.arg) : undefined
    return value === undefined || opRecord(value.op).kind !== 'pure' ? node : this.#resolve(value)
  }

  /** The largest that a value can be. */
  most(node: Node): number {
    let most = this.#known.get(node)
    if (most === undefined) this.#known.set(node, (most = this.#most(node)))
    return most
  }

  #most(node: Node): number {
    if (widthOf(node.dtype) > 1) return MOST
    if (node.dtype === 'bool') return 1
    if (node.dtype !== 'u32') return MOST
    const [a = MOST, b = MOST, c = MOST] = node.op === 'load' ? [] : node.src.map((each) => this.most(each))
    const fits = (value: number): number => (value <= MOST ? value : MOST)
    const count = node.src[1] === undefined ? undefined : constantOf(node.src[1])
    switch (node.op) {
      case 'const':
        return Number(node.arg)
      case 'local': {
        const value = this.#named.get(node.arg)
        return value === undefined ? (this.#counters.get(node.arg) ?? MOST) : this.most(value)
      }
      case 'index':
        return this.#mostOfIndex(node)
      case 'load':
        return this.#mostInMemory(node.arg.mem)
      case 'add':
        return fits(a + b)
      case 'mul':
        return fits(a * b)
      case 'shl':
        return count === undefined ? MOST : fits(a * 2 ** (count & 31))
      case 'shr':
        return count === undefined ? a : Math.floor(a / 2 ** (count & 31))
      case 'and':
      case 'min':
        return Math.min(a, b)
      case 'or':
      case 'xor':
        return 2 ** Math.ceil(Math.log2(Math.max(a, b) + 1)) - 1
      case 'max':
        return Math.max(a, b)
      case 'rem':
        return count === undefined || count === 0 ? a : Math.min(a, count - 1)
      case 'div':
        return count === undefined || count === 0 ? a : Math.floor(a / count)
      case 'select':
        return Math.max(b, c)
      case 'cast':
        return node.src[0].dtype === 'bool' ? 1 : MOST
      default:
        return MOST
    }
  }

  #mostOfIndex({ arg }: NodeOf<'index'>): number {
    const {
      workgroup: [x, y, z],
    } = this.#kernel
    switch (arg) {
      case 'lane':
        return lanesOf(this.#kernel) - 1
      case 'lane.x':
        return x - 1
      case 'lane.y':
        return y - 1
      case 'lane.z':
        return z - 1
      default:
        return MOST
    }
  }

  #mostInMemory(mem: string): number {
    const storage = memoryOf(this.#kernel, mem)?.storage
    return storage === 'u8' ? 2 ** 8 - 1 : storage === 'u16' ? 2 ** 16 - 1 : MOST
  }
}

function not(value: boolean | undefined): boolean | undefined {
  return value === undefined ? undefined : !value
}
