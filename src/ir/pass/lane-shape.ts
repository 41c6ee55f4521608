// How values differ between lanes that run side by side: `width` lanes, of which the first has a number that is a multiple of the width. A
// value that is the same for all of them, or grows by a constant from lane to lane, is known from the first lane's alone; of a comparison
// of such values it is enough to look at both ends. Decides nothing about memory; lane-vector.ts writes what is found here.
//
// Optimistic: nothing is known of a name until something is assigned to it, and what is known only gets less.

import { isFloat, isInteger, scalarOf, storageBytes, widthOf } from '../../base/dtype.ts'
import { type Kernel, memoryOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf } from '../node.ts'
import { type OpName, opRecord } from '../op.ts'
import { indexRecord } from '../op/position.ts'
import { splatOf } from './constant.ts'
import type { Phase, PhaseTree } from './phase.ts'
import { leaves } from './variable.ts'

export interface Shape {
  /**
   * by how much an integer grows from lane to lane, wrapping; 0: the same for all lanes, whatever its type. `ends`: a condition of which the
   * first and the last lane tell whether it may hold for some lanes, and whether it surely does for all. Undefined: anything.
   */
  readonly by: number | 'ends' | undefined
  /** low bits of the first lane's integer that are zero */
  readonly zeros: number
}

const ANY: Shape = { by: undefined, zeros: 0 }
const ENDS: Shape = { by: 'ends', zeros: 0 }
const SAME: Shape = { by: 0, zeros: 0 }

export class Shapes {
  readonly width: number
  readonly #kernel: Kernel
  /** variables of which what they begin with is read */
  readonly #begun: ReadonlySet<number>
  readonly #ids = new Map<number, Shape>()
  readonly #nodes = new Map<Node, Shape | undefined>()
  /** how many conditions that lanes may decide differently stand around a declaration */
  readonly #depths = new Map<number, number>()
  /** loops that lanes may leave at different times */
  readonly #torn = new Set<Node>()
  /** the masked phase that a variable is declared in */
  readonly #homes = new Map<number, Phase>()
  #phase: Phase | undefined
  #changed = false

  constructor(kernel: Kernel, width: number, trees: readonly PhaseTree[], begun: ReadonlySet<number>) {
    this.#kernel = kernel
    this.width = width
    this.#begun = begun
    do {
      this.#changed = false
      this.#trees(trees)
    } while (this.#changed)
  }

  of(node: Node): Shape {
    return this.#of(node) ?? SAME
  }

  ofId(id: number): Shape {
    return this.#ids.get(id) ?? SAME
  }

  isSame(node: Node): boolean {
    return this.of(node).by === 0
  }

  /** By how many elements places in a memory grow from lane to lane. */
  strideIn(mem: string, place: Node): Shape['by'] {
    const { by } = this.of(place)
    if (by !== undefined || place.op !== 'shr') return by
    // counted in bytes: an offset that wraps on its way follows one at the end of 4 GB, where no memory of a kernel reaches
    const [offset, count] = [this.of(place.src[0]), splatOf(place.src[1])]
    const storage = memoryOf(this.#kernel, mem)?.storage
    const bytes = storage === undefined ? 0 : storageBytes(storage)
    return count !== undefined && bytes === 2 ** count && offset.by === bytes && offset.zeros >= count ? 1 : by
  }

  /** True if lanes may leave a loop at different times, or count differently. */
  isTorn(loop: NodeOf<'for' | 'loop'>): boolean {
    return loop.op === 'loop' ? this.#torn.has(loop) : loop.src.slice(0, 3).some((bound) => !this.isSame(bound))
  }

  // ---- statements

  #trees(trees: readonly PhaseTree[]): void {
    for (const tree of trees) {
      if (tree.kind === 'phase') this.#run(tree)
      if (tree.kind === 'once') this.#block(tree.statements, 0, undefined)
      if (tree.kind === 'if') this.#trees([...tree.yes, ...tree.no])
      if (tree.kind === 'loop') this.#trees(tree.head)
      if (tree.kind === 'for')
        this.#raise(
          tree.arg.id,
          counterShape(tree.bounds, (node) => this.#of(node)),
        )
      if (tree.kind === 'for' || tree.kind === 'loop' || tree.kind === 'around') this.#trees(tree.body)
    }
  }

  /** Lanes that a mask leaves out keep what they have. */
  #run(phase: Phase): void {
    this.#phase = phase.mask === undefined ? undefined : phase
    this.#block(phase.statements, 0, undefined)
    this.#phase = undefined
  }

  #block(statements: readonly Node[], depth: number, loop: Node | undefined): void {
    for (const node of statements) this.#statement(node, depth, loop)
  }

  #statement(node: Node, depth: number, loop: Node | undefined): void {
    switch (node.op) {
      case 'let':
        return this.#raise(node.arg.id, this.#ofEffect(node.src[0]))
      case 'var':
        this.#depths.set(node.arg.id, depth)
        if (this.#phase !== undefined) this.#homes.set(node.arg.id, this.#phase)
        return this.#begun.has(node.arg.id) ? this.#raise(node.arg.id, this.#of(node.src[0])) : undefined
      case 'set':
        return this.#raise(node.arg, this.#isPartly(node.arg, depth) ? ANY : this.#of(node.src[0]))
      case 'if': {
        const inner = this.#isSplit(node.src[0]) ? depth + 1 : depth
        if (loop !== undefined && inner > depth && leaves(node)) this.#tear(loop)
        return blocksOf(node).forEach(({ src }) => this.#block(src, inner, loop))
      }
      case 'for': {
        const bounds = node.src.slice(0, 3)
        const isSplit = bounds.some((bound) => this.#isSplit(bound))
        this.#raise(node.arg.id, isSplit ? ANY : counterShape(bounds, (bound) => this.#of(bound)))
        return this.#block(node.src[3].src, isSplit ? depth + 1 : depth, undefined)
      }
      case 'loop':
        return this.#block(node.src[0].src, this.#torn.has(node) ? depth + 1 : depth, node)
      case 'breakIf':
        return loop !== undefined && this.#isSplit(node.src[0]) ? this.#tear(loop) : undefined
      default:
        return undefined
    }
  }

  /** True if only some of the lanes that have a variable may set it here. */
  #isPartly(id: number, depth: number): boolean {
    return depth > (this.#depths.get(id) ?? 0) || (this.#phase !== undefined && this.#homes.get(id) !== this.#phase)
  }

  #isSplit(node: Node): boolean {
    const shape = this.#of(node)
    return shape !== undefined && shape.by !== 0
  }

  #tear(loop: Node): void {
    if (this.#torn.has(loop)) return
    this.#torn.add(loop)
    this.#changed = true
  }

  #raise(id: number, shape: Shape | undefined): void {
    if (shape === undefined) return
    const before = this.#ids.get(id)
    const after = join(before ?? shape, shape)
    if (before !== undefined && before.by === after.by && before.zeros === after.zeros) return
    this.#ids.set(id, after)
    this.#nodes.clear()
    this.#changed = true
  }

  // ---- values; undefined: nothing is known yet

  #ofEffect(value: Node): Shape | undefined {
    switch (value.op) {
      case 'get':
        return this.#ids.get(value.arg)
      case 'load': {
        const index = this.#of(value.src[0])
        const isShared = memoryOf(this.#kernel, value.arg.mem)?.atomic === true
        // who may write there besides is a race
        return index === undefined ? undefined : index.by === 0 && !isShared ? SAME : ANY
      }
      default:
        return opRecord(value.op).kind === 'pure' ? this.#of(value) : ANY
    }
  }

  #of(node: Node): Shape | undefined {
    if (this.#nodes.has(node)) return this.#nodes.get(node)
    const shape = this.#compute(node)
    this.#nodes.set(node, shape)
    return shape
  }

  #compute(node: Node): Shape | undefined {
    switch (node.op) {
      case 'local':
        return this.#ids.get(node.arg)
      case 'index':
        return this.#ofIndex(node)
      case 'const':
        return { by: 0, zeros: isInteger(node.dtype) ? trailing(Number(node.arg)) : 0 }
      default: {
        const shapes = node.src.map((each) => this.#of(each))
        return shapes.every((shape) => shape !== undefined) ? this.#combine(node, shapes) : undefined
      }
    }
  }

  /** Of the indices of lanes only `lane` is left; the others were written in terms of it. */
  #ofIndex({ arg }: NodeOf<'index'>): Shape {
    if (arg === 'lane') return { by: 1, zeros: Math.log2(this.width) }
    return indexRecord(arg).uniform === 'workgroup' ? SAME : ANY
  }

  #combine(node: Node, shapes: readonly Shape[]): Shape {
    const [a = SAME, b = SAME] = shapes
    const areSame = shapes.every(({ by }) => by === 0)
    const other = areSame ? SAME : ANY
    if (scalarOf(node.dtype) === 'bool') return widthOf(node.dtype) > 1 ? other : this.#condition(node, shapes, other)
    if (!isInteger(node.dtype) || widthOf(node.dtype) > 1) return other
    switch (node.op) {
      case 'add':
        return typeof a.by === 'number' && typeof b.by === 'number' ? grow(a.by + b.by, Math.min(a.zeros, b.zeros)) : ANY
      case 'sub':
        return typeof a.by === 'number' && typeof b.by === 'number' ? grow(a.by - b.by, Math.min(a.zeros, b.zeros)) : ANY
      case 'mul': {
        const factor = splatOf(node.src[1])
        if (areSame) return grow(0, a.zeros + b.zeros)
        return factor !== undefined && typeof a.by === 'number' ? grow(Math.imul(a.by, factor), a.zeros + b.zeros) : ANY
      }
      case 'shl': {
        const count = splatOf(node.src[1])
        if (count === undefined || typeof a.by !== 'number') return other
        return grow(a.by << (count & 31), a.zeros + (count & 31))
      }
      case 'shr':
        return this.#shift(a, splatOf(node.src[1]), scalarOf(node.dtype) === 'u32') ?? other
      case 'and':
        return this.#mask(a, splatOf(node.src[1])) ?? (areSame ? grow(0, Math.max(a.zeros, b.zeros)) : ANY)
      case 'or':
        return areSame ? grow(0, Math.min(a.zeros, b.zeros)) : ANY
      case 'select':
        return a.by === 0 && shapes[2] !== undefined ? join(b, shapes[2]) : ANY
      case 'cast':
      case 'bitcast': {
        const from = node.src[0].dtype
        return isInteger(from) ? a : other
      }
      default:
        return other
    }
  }

  /** True if the bits above the zeros of the first lane's value are those of all lanes. */
  #isCalm({ by, zeros }: Shape): boolean {
    return typeof by === 'number' && by >= 0 && by * (this.width - 1) < 2 ** Math.min(zeros, 31)
  }

  #shift(a: Shape, count: number | undefined, isUnsigned: boolean): Shape | undefined {
    if (count === undefined || typeof a.by !== 'number' || !this.#isCalm(a)) return undefined
    const places = count & 31
    if (!isUnsigned && a.by !== 0) return undefined
    const zeros = Math.max(0, a.zeros - places)
    if (a.zeros < places || a.by * (this.width - 1) < 2 ** places) return { by: 0, zeros }
    return a.by % 2 ** places === 0 ? { by: a.by / 2 ** places, zeros } : undefined
  }

  #mask(a: Shape, mask: number | undefined): Shape | undefined {
    if (mask === undefined || typeof a.by !== 'number' || !this.#isCalm(a)) return undefined
    const zeros = Math.max(a.zeros, trailing(mask))
    // the bits in which lanes may differ
    const low = 2 ** Math.min(a.zeros, 32) - 1
    const kept = (mask & low) >>> 0
    if (a.by === 0 || kept === 0) return { by: 0, zeros }
    return kept === low ? { by: a.by, zeros: a.zeros } : undefined
  }

  #condition({ op, src }: Node, shapes: readonly Shape[], other: Shape): Shape {
    if (other.by === 0) return SAME
    const [a = SAME, b = SAME, c = SAME] = shapes
    const isKnown = (shape: Shape): boolean => shape.by === 0 || shape.by === 'ends'
    switch (op) {
      case 'lt':
      case 'le':
      case 'gt':
      case 'ge':
      case 'eq':
      case 'ne': {
        const [first] = src
        if (first === undefined || isFloat(first.dtype) || !this.#isCalm(a) || !this.#isCalm(b)) return ANY
        if (a.by === b.by || isCoarse(op, a, b)) return SAME
        return op === 'eq' || op === 'ne' ? ANY : ENDS
      }
      case 'not':
        return a
      case 'and':
      case 'or':
        return isKnown(a) && isKnown(b) ? ENDS : ANY
      case 'select':
        return a.by === 0 && isKnown(b) && isKnown(c) ? ENDS : ANY
      default:
        return ANY
    }
  }
}

/** True if lanes differ only in bits below those that decide: `x < y` where all that differs of x are bits that y has not. */
function isCoarse(op: OpName, a: Shape, b: Shape): boolean {
  if (op === 'lt' || op === 'ge') return b.by === 0 && b.zeros >= a.zeros
  return (op === 'gt' || op === 'le') && a.by === 0 && a.zeros >= b.zeros
}

function counterShape([from, , step]: readonly Node[], of: (node: Node) => Shape | undefined): Shape {
  const zeros = (node: Node | undefined): number => (node === undefined ? 0 : (of(node)?.zeros ?? 0))
  return { by: 0, zeros: Math.min(zeros(from), zeros(step)) }
}

function grow(by: number, zeros: number): Shape {
  return { by: by | 0, zeros: Math.min(zeros, 32) }
}

function join(a: Shape, b: Shape): Shape {
  return a.by === b.by && a.by !== 'ends' ? { by: a.by, zeros: Math.min(a.zeros, b.zeros) } : ANY
}

function trailing(value: number): number {
  return value === 0 ? 32 : 31 - Math.clz32(value & -value)
}
