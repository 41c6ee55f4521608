// A kernel as closures: each node becomes a step over registers that are allocated here, once. A pure value is computed once,
// in the outermost place where its operands exist (before the dispatch, before the workgroup, before a loop), unless it can
// fail: then where it is used. Effects run exactly where they stand.

import type { DType } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, isShared } from '../kernel.ts'
import type { Node } from '../node.ts'
import { type IndexName, opRecord } from '../op.ts'
import { type Exit, branch, count, leave, repeat, sequence } from './control.ts'
import { elementwise } from './elementwise.ts'
import { roundHalf } from './half.ts'
import { Memory, atomic, load, store } from './memory.ts'
import { Clock, Shadow } from './shadow.ts'
import { type Cells, State, type Step } from './state.ts'
import { subgroupStep, tileStep } from './subgroup.ts'
import { canFail, vectorStep } from './vector.ts'

export interface Program {
  readonly state: State
  readonly clock: Clock
  readonly memories: ReadonlyMap<string, Memory>
  /** what depends on the uniforms and the grid only */
  readonly prepare: Step
  readonly run: Step
}

/** A value known from some place on: in which scope, in which registers. */
interface Known {
  readonly cells: Cells
  readonly depth: number
}
interface Scope {
  readonly steps: Step[]
  readonly exits: Set<number>
  readonly known: Node[]
}

const DISPATCH = 0
const WORKGROUP = 1

export function compile(kernel: Kernel, check: boolean): Program {
  return new Compiler(kernel, check).compile()
}

class Compiler {
  readonly #kernel: Kernel
  readonly #state: State
  readonly #clock: Clock
  readonly #memories = new Map<string, Memory>()
  readonly #scopes: Scope[] = []
  readonly #known = new Map<Node, Known>()
  readonly #locals = new Map<number, Known>()
  readonly #variables = new Map<number, Cells>()
  readonly #impure = new Map<Node, boolean>()
  /** Values of effects inside the statement being compiled. */
  #fresh = new Map<Node, Known>()

  constructor(kernel: Kernel, check: boolean) {
    this.#kernel = kernel
    this.#state = new State(kernel)
    this.#clock = new Clock(this.#state.subgroups)
    for (const memory of [...kernel.params, ...kernel.shared]) {
      if ('kind' in memory && memory.kind === 'uniform') continue
      const { name, storage } = memory
      // Nobody writes a buffer that is only read, so nothing can race with its readers.
      const watched = check && (isShared(memory) || memory.role !== 'read')
      const made = new Memory(name, storage, watched ? new Shadow(this.#state, this.#clock, name, isShared(memory)) : undefined)
      if (isShared(memory)) made.allocate(memory.length)
      this.#memories.set(name, made)
    }
  }

  compile(): Program {
    this.#open()
    this.#open()
    const run = this.#block(this.#kernel.body, undefined, WORKGROUP)
    const prepare = this.#close(undefined)
    return { state: this.#state, clock: this.#clock, memories: this.#memories, prepare, run }
  }

  #open(): number {
    this.#scopes.push({ steps: [], exits: new Set(), known: [] })
    return this.#scopes.length - 1
  }

  #close(exit: Exit | undefined): Step {
    const { steps, exits, known } = this.#scopes.pop()!
    for (const node of known) this.#known.delete(node)
    return sequence(steps, exits, exit, this.#state)
  }

  get #depth(): number {
    return this.#scopes.length - 1
  }
  #emit(step: Step, depth = this.#depth): void {
    this.#scopes[depth]!.steps.push(step)
  }

  /** `depth` is given for a scope that is open already. */
  #block(block: Node, exit: Exit | undefined, depth = this.#open()): Step {
    for (const node of block.src) {
      this.#fresh = new Map()
      this.#statement(node, exit)
      if (exit !== undefined && mayLeave(node)) this.#scopes[depth]!.exits.add(this.#scopes[depth]!.steps.length - 1)
    }
    return this.#close(exit)
  }

  #statement(node: Node, exit: Exit | undefined): void {
    const state = this.#state
    const operands = node.src.filter(({ op }) => op !== 'block')
    const src = operands.map((operand) => this.#value(operand).cells)
    const [a, b] = src
    switch (node.op) {
      case 'let':
        return void this.#locals.set((node.arg as { id: number }).id, this.#value(node.src[0]!))
      case 'var': {
        const cells = state.register(node.src[0]!.dtype)
        this.#variables.set((node.arg as { id: number }).id, cells)
        return this.#emit(() => cells.set(a!))
      }
      case 'set':
        return this.#emit(assign(this.#variables.get(node.arg as number)!, a!, node.src[0]!.dtype, state))
      case 'store':
        return this.#emit(store(node, a!, b!, this.#memory(node), state, this.#clock))
      case 'tileStore':
        return this.#emit(tileStep(node, a!, src, this.#memory(node), state, this.#clock))
      case 'if': {
        const then = this.#block(node.src[1]!, exit)
        const otherwise = node.src[2] === undefined ? undefined : this.#block(node.src[2], exit)
        return this.#emit(branch(a!, then, otherwise, state))
      }
      case 'for': {
        const variable = new Uint32Array(state.lanes)
        const depth = this.#open()
        this.#locals.set((node.arg as { id: number }).id, { cells: variable, depth })
        return this.#emit(count(variable, src, this.#block(node.src[3]!, undefined, depth), state))
      }
      case 'loop': {
        const inner: Exit = { left: new Uint8Array(state.lanes), count: 0 }
        return this.#emit(repeat(this.#block(node.src[0]!, inner), inner, state))
      }
      case 'breakIf':
        return this.#emit(leave(a!, exit!))
      case 'barrier':
        return this.#emit(this.#barrier(node.arg === 'workgroup'))
      default:
        throw new IngotError('bad-kernel', `${node.op} is no statement`, { op: this.#kernel.name })
    }
  }

  #barrier(workgroup: boolean): Step {
    const state = this.#state
    const clock = this.#clock
    if (!workgroup) {
      return (mask) => {
        const active = state.wholeSubgroups(mask, 'subgroup barrier')
        for (let group = 0; group < state.subgroups; group++) if (active[group] !== 0) clock.passSubgroupBarrier(group)
      }
    }
    return (mask) => {
      if (mask.count !== state.lanes) {
        const missing = state.all.lanes.find((lane) => !mask.lanes.subarray(0, mask.count).includes(lane))
        state.fault('bad-kernel', 'divergent barrier: not all lanes of the workgroup are here', missing, {
          got: `${mask.count} lanes`,
          wanted: state.lanes,
        })
      }
      clock.passBarrier()
    }
  }

  #memory(node: Node): Memory {
    const { mem } = node.arg as { mem: string }
    const memory = this.#memories.get(mem)
    if (memory === undefined) throw new IngotError('bad-kernel', 'no such memory', { op: this.#kernel.name, got: mem })
    return memory
  }

  /** The registers of an expression, with the steps that fill them put in place. */
  #value(node: Node): Known {
    const ready = node.op === 'local' ? this.#locals.get(node.arg as number) : (this.#known.get(node) ?? this.#fresh.get(node))
    if (ready !== undefined) return ready
    const src = node.src.map((operand) => this.#value(operand))
    const impure = this.#isImpure(node)
    const depth = impure || canFail(node) ? this.#depth : src.reduce((deepest, one) => Math.max(deepest, one.depth), leafDepth(node))
    const known = {
      cells: this.#compute(
        node,
        src.map(({ cells }) => cells),
        depth,
      ),
      depth,
    }
    if (impure) {
      this.#fresh.set(node, known)
    } else {
      this.#known.set(node, known)
      this.#scopes[depth]!.known.push(node)
    }
    return known
  }

  /** True if the value depends on when it is computed, itself or through its operands. */
  #isImpure(node: Node): boolean {
    let impure = this.#impure.get(node)
    if (impure === undefined) {
      impure = opRecord(node.op).kind === 'effect' || node.src.some((operand) => this.#isImpure(operand))
      this.#impure.set(node, impure)
    }
    return impure
  }

  #compute(node: Node, src: readonly Cells[], depth: number): Cells {
    const state = this.#state
    if (node.op === 'bitcast') return reinterpret(src[0]!, state.register(node.dtype))
    const out = state.register(node.dtype)
    const leaf = this.#leaf(node, out)
    const step = leaf ?? vectorStep(node, out, src, state) ?? elementwise(node, out, src) ?? this.#effect(node, out, src)
    this.#emit(step, depth)
    return out
  }

  #leaf(node: Node, out: Cells): Step | undefined {
    const state = this.#state
    switch (node.op) {
      case 'const': {
        const value = Number(node.arg)
        out.fill(node.dtype === 'f16' ? roundHalf(value) : value)
        return () => undefined
      }
      case 'uniform':
        return () => {
          out.fill(state.uniforms.get(node.arg as string)!)
        }
      case 'index':
        return position(node.arg as IndexName, out, state)
      default:
        return undefined
    }
  }

  #effect(node: Node, out: Cells, src: readonly Cells[]): Step {
    const state = this.#state
    switch (node.op) {
      case 'load':
        return load(node, out, src[0]!, this.#memory(node), state)
      case 'atomic':
        return atomic(node, out, src, this.#memory(node), state)
      case 'get': {
        const cells = this.#variables.get(node.arg as number)
        if (cells === undefined)
          throw new IngotError('bad-kernel', 'no such variable', {
            op: this.#kernel.name,
            got: node.arg,
          })
        return () => out.set(cells)
      }
      case 'tileLoad':
        return tileStep(node, out, src, this.#memory(node), state, this.#clock)
      case 'tileFill':
      case 'tileMma':
        return tileStep(node, out, src, undefined, state, this.#clock)
      default: {
        const step = subgroupStep(node, out, src, state)
        if (step === undefined) throw new IngotError('bad-kernel', `${node.op} is no value`, { op: this.#kernel.name })
        return step
      }
    }
  }
}

/** True if running the statement can make lanes leave the loop it stands in. */
function mayLeave(node: Node): boolean {
  return node.op === 'breakIf' || (node.op === 'if' && node.src.some((block) => block.op === 'block' && block.src.some(mayLeave)))
}

function leafDepth({ op, arg }: Node): number {
  return op === 'index' && String(arg).startsWith('workgroup.') ? WORKGROUP : DISPATCH
}

function position(name: IndexName, out: Cells, state: State): Step {
  const [x, y] = state.kernel.workgroup
  const axis = 'xyz'.indexOf(name.slice(-1))
  if (name.startsWith('workgroup.'))
    return () => {
      out.fill(state.workgroup[axis]!)
    }
  if (name.startsWith('grid.'))
    return () => {
      out.fill(state.grid[axis]!)
    }
  const of: Partial<Record<IndexName, (lane: number) => number>> = {
    'lane.x': (lane) => lane % x,
    'lane.y': (lane) => Math.floor(lane / x) % y,
    'lane.z': (lane) => Math.floor(lane / (x * y)),
    lane: (lane) => lane,
    subgroup: (lane) => Math.floor(lane / state.subgroup),
    sublane: (lane) => lane % state.subgroup,
  }
  for (let lane = 0; lane < out.length; lane++) out[lane] = of[name]!(lane)
  return () => undefined
}

/** The same bytes seen as another type: no step needed, since a register changes only where its value is computed anew. */
function reinterpret(cells: Cells, like: Cells): Cells {
  if (like instanceof Float32Array) return new Float32Array(cells.buffer)
  return like instanceof Int32Array ? new Int32Array(cells.buffer) : new Uint32Array(cells.buffer)
}

function assign(variable: Cells, value: Cells, dtype: DType, state: State): Step {
  const width = variable.length / state.lanes
  const isTile = dtype.endsWith('t')
  return (mask) => {
    if (mask.count === state.lanes) return void variable.set(value)
    if (isTile) {
      const active = state.wholeSubgroups(mask, 'set of a tile')
      for (let cell = 0; cell < variable.length; cell++) if (active[cell >> 6] !== 0) variable[cell] = value[cell]!
      return undefined
    }
    for (let at = 0; at < mask.count; at++) {
      const first = mask.lanes[at]! * width
      for (let e = 0; e < width; e++) variable[first + e] = value[first + e]!
    }
    return undefined
  }
}
