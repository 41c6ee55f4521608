// A kernel as closures: each node becomes a step over registers that are allocated here, once. A pure value is computed once,
// in the outermost place where its operands exist (before the dispatch, before the workgroup, before a loop), unless it can
// fail: then where it is used. Effects run exactly where they stand.

import { type DType, isTile, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { roundHalf } from '../../base/half.ts'
import { type Kernel, isReadOnly, isShared } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf } from '../node.ts'
import { type IndexName, opRecord } from '../op.ts'
import { AXES, indexRecord } from '../op/position.ts'
import { type Exit, branch, count, leave, repeat, sequence } from './control.ts'
import { canFail, elementwise } from './elementwise.ts'
import { copyLanes } from './loop.ts'
import { Memory, atomic, load, store } from './memory.ts'
import { Clock, Shadow } from './shadow.ts'
import { type Cells, State, type Action } from './state.ts'
import { subgroupAction, tileFill, tileLoad, tileMma, tileStore } from './subgroup.ts'
import { vectorStep } from './vector.ts'

export interface Program {
  readonly state: State
  readonly clock: Clock
  readonly memories: ReadonlyMap<string, Memory>
  /** what depends on the uniforms and the grid only */
  readonly prepare: Action
  readonly run: Action
}

/** A value known from some place on: in which scope, in which registers. */
interface Known {
  readonly cells: Cells
  readonly depth: number
}
interface Scope {
  /** how many scopes are around it */
  readonly depth: number
  readonly steps: Action[]
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
      const watched = check && !isReadOnly(memory)
      const made = new Memory(name, storage, watched ? new Shadow(this.#state, this.#clock, name, isShared(memory)) : undefined)
      if (isShared(memory)) made.allocate(memory.length)
      this.#memories.set(name, made)
    }
  }

  compile(): Program {
    const outer = this.#open()
    const body = this.#open()
    const run = this.#block(this.#kernel.body, undefined, body)
    const prepare = this.#close(outer, undefined)
    return { state: this.#state, clock: this.#clock, memories: this.#memories, prepare, run }
  }

  #open(): Scope {
    const scope: Scope = { depth: this.#scopes.length, steps: [], exits: new Set(), known: [] }
    this.#scopes.push(scope)
    return scope
  }

  /** Ends the innermost scope. */
  #close({ steps, exits, known }: Scope, exit: Exit | undefined): Action {
    this.#scopes.pop()
    for (const node of known) this.#known.delete(node)
    return sequence(steps, exits, exit, this.#state)
  }

  /** An open scope, by default the innermost. */
  #scope(depth = this.#scopes.length - 1): Scope {
    const scope = this.#scopes[depth]
    if (scope === undefined) throw new RangeError(`${this.#scopes.length} scopes are open, none at depth ${depth}`)
    return scope
  }

  #emit(step: Action): void {
    this.#scope().steps.push(step)
  }

  #block(block: Node, exit: Exit | undefined, scope = this.#open()): Action {
    for (const node of block.src) {
      this.#fresh = new Map()
      this.#statement(node, exit)
      if (exit !== undefined && mayLeave(node)) scope.exits.add(scope.steps.length - 1)
    }
    return this.#close(scope, exit)
  }

  #statement(node: Node, exit: Exit | undefined): void {
    const state = this.#state
    const cells = (operand: Node): Cells => this.#value(operand).cells
    switch (node.op) {
      case 'let':
        return void this.#locals.set(node.arg.id, this.#value(node.src[0]))
      case 'var': {
        const [variable, value] = [state.register(node.src[0].dtype), cells(node.src[0])]
        this.#variables.set(node.arg.id, variable)
        return this.#emit(() => variable.set(value))
      }
      case 'set':
        return this.#emit(assign(this.#variable(node.arg), cells(node.src[0]), node.src[0].dtype, state))
      case 'store': {
        const [index, value] = node.src
        return this.#emit(store(node, cells(index), cells(value), this.#memory(node.arg.mem), state, this.#clock))
      }
      case 'tileStore': {
        const [index, row, tile] = node.src
        const memory = this.#memory(node.arg.mem)
        return this.#emit(tileStore(node, cells(index), cells(row), cells(tile), memory, state, this.#clock))
      }
      case 'if': {
        const [condition, then, otherwise] = node.src
        const test = cells(condition)
        const yes = this.#block(then, exit)
        return this.#emit(branch(test, yes, otherwise === undefined ? undefined : this.#block(otherwise, exit), state))
      }
      case 'for':
        return this.#for(node)
      case 'loop': {
        const inner: Exit = { left: new Uint8Array(state.lanes), count: 0 }
        return this.#emit(repeat(this.#block(node.src[0], inner), inner, state))
      }
      case 'breakIf':
        if (exit === undefined) throw new IngotError('bad-kernel', 'breakIf outside of a loop', { op: this.#kernel.name })
        return this.#emit(leave(cells(node.src[0]), exit))
      case 'barrier':
        return this.#emit(this.#barrier(node.arg === 'workgroup'))
      default:
        throw new IngotError('bad-kernel', `${node.op} is no statement`, { op: this.#kernel.name })
    }
  }

  #for({ src: [from, to, step, body], arg }: NodeOf<'for'>): void {
    const [first, end, by] = [this.#value(from).cells, this.#value(to).cells, this.#value(step).cells]
    const variable = new Uint32Array(this.#state.lanes)
    const scope = this.#open()
    this.#locals.set(arg.id, { cells: variable, depth: scope.depth })
    const round = this.#block(body, undefined, scope)
    this.#emit(count(variable, first, end, by, round, this.#state))
  }

  #barrier(workgroup: boolean): Action {
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

  #memory(mem: string): Memory {
    const memory = this.#memories.get(mem)
    if (memory === undefined) throw new IngotError('bad-kernel', 'no such memory', { op: this.#kernel.name, got: mem })
    return memory
  }

  #variable(id: number): Cells {
    const cells = this.#variables.get(id)
    if (cells === undefined) throw new IngotError('bad-kernel', 'no such variable', { op: this.#kernel.name, got: id })
    return cells
  }

  /** The registers of an expression, with the steps that fill them put in place. */
  #value(node: Node): Known {
    const ready = node.op === 'local' ? this.#locals.get(node.arg) : (this.#known.get(node) ?? this.#fresh.get(node))
    if (ready !== undefined) return ready
    const src = node.src.map((operand) => this.#value(operand))
    const impure = this.#isImpure(node)
    const scope = this.#scope(impure || canFail(node) ? undefined : Math.max(leafDepth(node), ...src.map(({ depth }) => depth)))
    const cells = this.#compute(
      node,
      src.map((each) => each.cells),
      scope,
    )
    const known = { cells, depth: scope.depth }
    if (impure) {
      this.#fresh.set(node, known)
    } else {
      this.#known.set(node, known)
      scope.known.push(node)
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

  #compute(node: Node, src: readonly Cells[], scope: Scope): Cells {
    const state = this.#state
    const [first] = src
    if (node.op === 'bitcast' && first !== undefined) return reinterpret(first, state.register(node.dtype))
    const out = state.register(node.dtype)
    const step = this.#leaf(node, out) ?? vectorStep(node, out, src) ?? elementwise(node, out, src, state) ?? this.#effect(node, out, src)
    if (step !== NOTHING) scope.steps.push(step)
    return out
  }

  #leaf(node: Node, out: Cells): Action | undefined {
    const state = this.#state
    switch (node.op) {
      case 'const': {
        const value = Number(node.arg)
        out.fill(node.dtype === 'f16' ? roundHalf(value) : value)
        return NOTHING
      }
      case 'uniform':
        return () => {
          out.fill(state.uniforms.get(node.arg) ?? NaN) // every uniform has a value: interpret.ts sees to it
        }
      case 'index':
        return position(node.arg, out, state)
      default:
        return undefined
    }
  }

  #effect(node: Node, out: Cells, src: readonly Cells[]): Action {
    const state = this.#state
    const [a = out, b = out, c = out] = src // the verifier has counted the operands
    switch (node.op) {
      case 'load':
        return load(node, out, a, this.#memory(node.arg.mem), state)
      case 'atomic':
        return atomic(node, out, a, b, this.#memory(node.arg.mem), state)
      case 'get': {
        const cells = this.#variable(node.arg)
        return () => out.set(cells)
      }
      case 'tileLoad':
        return tileLoad(node, out, a, b, this.#memory(node.arg.mem), state)
      case 'tileFill':
        return tileFill(out, a, state)
      case 'tileMma':
        return tileMma(out, a, b, c, state)
      default: {
        const step = subgroupAction(node, out, src, state)
        if (step === undefined) throw new IngotError('bad-kernel', `${node.op} is no value`, { op: this.#kernel.name })
        return step
      }
    }
  }
}

const NOTHING: Action = () => undefined

/** True if running the statement can make lanes leave the loop it stands in. */
function mayLeave(node: Node): boolean {
  return node.op === 'breakIf' || (opRecord(node.op).blocks === 'branches' && blocksOf(node).some(({ src }) => src.some(mayLeave)))
}

/** Where the value of a leaf is known: that of the grid and of uniforms before the first workgroup. */
function leafDepth(node: Node): number {
  return node.op === 'index' && indexRecord(node.arg).of === 'workgroup' ? WORKGROUP : DISPATCH
}

function position(name: IndexName, out: Cells, state: State): Action {
  const { of, axis = 'x' } = indexRecord(name)
  if (of === 'workgroup' || of === 'grid') {
    const at = AXES.indexOf(axis)
    return () => {
      out.fill(state[of][at] ?? 0)
    }
  }
  for (let lane = 0; lane < out.length; lane++) out[lane] = numberOf(name, lane, state)
  return NOTHING
}

/** What the lane with this number in its workgroup finds as an index. */
function numberOf(name: IndexName, lane: number, { kernel, subgroup }: State): number {
  const [x, y] = kernel.workgroup
  switch (name) {
    case 'lane.x':
      return lane % x
    case 'lane.y':
      return Math.floor(lane / x) % y
    case 'lane.z':
      return Math.floor(lane / (x * y))
    case 'subgroup':
      return Math.floor(lane / subgroup)
    case 'sublane':
      return lane % subgroup
    default:
      return lane
  }
}

/** The same bytes seen as another type: no step needed, since a register changes only where its value is computed anew. */
function reinterpret(cells: Cells, like: Cells): Cells {
  if (like instanceof Float32Array) return new Float32Array(cells.buffer)
  return like instanceof Int32Array ? new Int32Array(cells.buffer) : new Uint32Array(cells.buffer)
}

/** Sets a variable for the lanes that are there. */
function assign(variable: Cells, value: Cells, dtype: DType, state: State): Action {
  if (!isTile(dtype)) return copyLanes(variable, value, widthOf(dtype))
  return (mask) => {
    for (const [group, count] of state.wholeSubgroups(mask, 'set of a tile').entries()) {
      if (count !== 0) variable.set(value.subarray(64 * group, 64 * group + 64), 64 * group)
    }
  }
}
