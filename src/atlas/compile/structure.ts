// Jumps as loops and branches. A kernel has no goto: where control goes on somewhere else than at the next statement, a flag says so, and
// what lies between is skipped. Most jumps need none: the end of a branch that goes on behind it, the end of a loop's body that goes on at
// its start. A graph with loops that are entered in the middle has no such form: then one loop runs whichever block is next.
//
// Every flag is false unless control is on its way to that block, and at most one is true.

import { IngotError } from '../../base/error.ts'
import type { Builder } from '../../ir/build.ts'
import type { Node } from '../../ir/node.ts'
import type { Block, End } from './graph.ts'
import { type Shape, shapeOf } from './shape.ts'

/** Where a lane ends; no block has this number. */
const END = -1

/** Writes the statements of a block; gives the condition of its branch. */
export type WriteBlock = (block: Block) => Node | undefined

export interface Structured {
  readonly body: readonly Node[]
  /** false: all jumps go through one loop */
  readonly isNested: boolean
  /** jumps that needed a flag */
  readonly flags: number
}

/** All blocks as statements. */
export function structure(builder: Builder, blocks: readonly Block[], write: WriteBlock): Structured {
  const shape = shapeOf(blocks)
  if (!shape.isReducible) return { body: dispatch(builder, blocks, write), isNested: false, flags: 0 }
  const writer = new Nesting(builder, blocks, shape, write)
  const body = builder.block(() => writer.node(0, END))
  return { body: [...writer.declarations(), ...body.src], isNested: true, flags: writer.flags }
}

class Nesting {
  readonly #builder: Builder
  readonly #blocks: readonly Block[]
  readonly #shape: Shape
  readonly #write: WriteBlock
  readonly #flags = new Map<number, number>()

  constructor(builder: Builder, blocks: readonly Block[], shape: Shape, write: WriteBlock) {
    this.#builder = builder
    this.#blocks = blocks
    this.#shape = shape
    this.#write = write
  }

  get flags(): number {
    return this.#flags.size
  }

  declarations(): readonly Node[] {
    const no = this.#builder.constant(false, 'bool')
    return [...this.#flags].map(([to, id]) => this.#builder.make('var', 'void', [no], { id, name: nameOf(to) }))
  }

  /** A block and all that follows it up to `next`, where control goes on. Gives the blocks that it may be on its way to instead. */
  node(id: number, next: number): Set<number> {
    const core = (then: number): Set<number> => (this.#shape.isLoop(id) ? this.#loop(id) : this.#part(id, then))
    return this.#sequence(core, this.#shape.exitsOf(id), next)
  }

  #loop(id: number): Set<number> {
    let leaving = new Set<number>()
    this.#builder.loop(() => {
      leaving = this.#part(id, id)
      this.#arrive(id, leaving)
      if (leaving.size === 0) throw new IngotError('bad-program', 'a loop that never ends', { op: 'atlas' })
      this.#builder.add('breakIf', [this.#any(leaving)])
    })
    return leaving
  }

  #part(id: number, next: number): Set<number> {
    return this.#sequence((then) => this.#straight(id, then), this.#shape.joinsOf(id), next)
  }

  /** `first`, then the named blocks one after the other, each if control gets there. */
  #sequence(first: (next: number) => Set<number>, named: readonly number[], next: number): Set<number> {
    const stops = [...named, next]
    let going = first(stops[0] ?? next)
    named.forEach((id, at) => {
      this.#arrive(id, going)
      const then = stops[at + 1] ?? next
      let more = new Set<number>()
      if (going.size === 0) more = this.node(id, then)
      else
        this.#builder.if(this.#builder.apply('not', [this.#any(going)]), () => {
          more = this.node(id, then)
        })
      going = new Set([...going, ...more])
    })
    this.#arrive(next, going)
    return going
  }

  /** The statements of one block, and its jumps. */
  #straight(id: number, next: number): Set<number> {
    const block = this.#blocks[id]
    if (block === undefined) throw new TypeError(`no block ${id}`)
    const condition = this.#write(block)
    const { end } = block
    if (end.kind === 'end') return this.#go(id, END, next)
    if (end.kind === 'go' || condition === undefined) return this.#go(id, firstOf(end), next)
    return this.#branch(id, condition, end, next)
  }

  #branch(id: number, condition: Node, { yes, no }: End & { kind: 'branch' }, next: number): Set<number> {
    const builder = this.#builder
    const opposite = (): Node => builder.apply('not', [condition])
    // to the next statement or, by a flag, elsewhere: the condition is the flag
    if (no === next && this.#isByFlag(id, yes)) return this.#flag(yes, condition)
    if (yes === next && this.#isByFlag(id, no)) return this.#flag(no, opposite())
    let going = new Set<number>()
    const then = builder.block(() => {
      going = this.#go(id, yes, next)
    })
    const otherwise = builder.block(() => {
      going = new Set([...going, ...this.#go(id, no, next)])
    })
    if (then.src.length === 0 && otherwise.src.length === 0) return going
    if (then.src.length === 0) builder.add('if', [opposite(), otherwise])
    else builder.add('if', otherwise.src.length === 0 ? [condition, then] : [condition, then, otherwise])
    return going
  }

  #isByFlag(from: number, to: number): boolean {
    return to === END || this.#shape.isNamed(to) || this.#shape.isBack(from, to)
  }

  #go(from: number, to: number, next: number): Set<number> {
    if (to === next) return new Set()
    return this.#isByFlag(from, to) ? this.#flag(to, this.#builder.constant(true, 'bool')) : this.node(to, next)
  }

  #flag(to: number, value: Node): Set<number> {
    this.#builder.set(this.#flagOf(to), value)
    return new Set([to])
  }

  #flagOf(to: number): number {
    const known = this.#flags.get(to)
    if (known !== undefined) return known
    const id = this.#builder.freshId()
    this.#flags.set(to, id)
    return id
  }

  /** Control is where it was on its way to. */
  #arrive(at: number, going: Set<number>): void {
    if (!going.delete(at)) return
    this.#builder.set(this.#flagOf(at), this.#builder.constant(false, 'bool'))
  }

  #any(going: ReadonlySet<number>): Node {
    const flags = [...going].map((to) => this.#builder.get(nameOf(to), this.#flagOf(to), 'bool'))
    return flags.reduce((a, b) => this.#builder.apply('or', [a, b]))
  }
}

function nameOf(to: number): string {
  return to === END ? 'toEnd' : `to${to}`
}

function firstOf(end: End): number {
  if (end.kind === 'end') return END
  return end.kind === 'go' ? end.to : end.yes
}

/** One loop that runs the block whose number a variable holds. */
function dispatch(builder: Builder, blocks: readonly Block[], write: WriteBlock): readonly Node[] {
  const number = (id: number): Node => builder.constant(id === END ? blocks.length : id, 'u32')
  return builder.block(() => {
    const next = builder.variable('next', number(0))
    builder.loop(() => {
      const at = builder.get('next', next, 'u32')
      builder.add('breakIf', [builder.apply('eq', [at, number(END)])])
      for (const block of blocks) {
        builder.if(builder.apply('eq', [at, number(block.id)]), () => {
          const condition = write(block)
          const { end } = block
          const to = number(firstOf(end))
          builder.set(
            next,
            end.kind !== 'branch' || condition === undefined ? to : builder.apply('select', [condition, to, number(end.no)]),
          )
        })
      }
    })
  }).src
}
