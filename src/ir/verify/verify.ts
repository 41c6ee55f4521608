// The rules of a kernel that TypeScript cannot see, checked when it is written and between passes. What it accepts, every
// target can run; what it refuses is named with kernel, node, got, wanted and a hint. Does not know targets or limits of
// devices. The rules of a node alone are in node.ts beside it; here: scopes, order, effects, control flow.

import type { DType } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, type NodeOf, blocksOf, convergenceOf, valuesOf } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Level } from '../op/position.ts'
import { printNode } from '../print.ts'
import { type Fault, faultOf, subgroupFault } from './node.ts'
import { type Uniformity, analyseUniformity } from './uniform.ts'

const MAX_LANES = 1024
const UNIFORMS: readonly DType[] = ['f32', 'i32', 'u32']

export interface VerifyOptions {
  /** Allows effects inside expressions, which passes put there; a kernel as written binds each by a `let`. */
  readonly inlined?: boolean
}

/** Throws `bad-kernel` if the kernel breaks a rule of the language. */
export function verify(kernel: Kernel, options: VerifyOptions = {}): void {
  verifyHead(kernel)
  new Verifier(kernel, options.inlined === true).run()
  verifyControl(kernel)
}

function refuse(kernel: Kernel, node: Node | undefined, { what, ...facts }: Fault): never {
  const op = node === undefined ? kernel.name : `${kernel.name}: ${printNode(node, kernel)}`
  throw new IngotError('bad-kernel', what, { op, ...facts })
}

function verifyHead(kernel: Kernel): void {
  const { workgroup, subgroup, shared, params, body } = kernel
  if (workgroup.some((size) => !Number.isInteger(size) || size < 1) || lanesOf(kernel) > MAX_LANES) {
    refuse(kernel, undefined, {
      what: 'bad workgroup',
      got: workgroup,
      wanted: `sizes from 1, together at most ${MAX_LANES} lanes`,
    })
  }
  if (subgroup !== 0 && ![2, 4, 8, 16, 32, 64, 128].includes(subgroup)) {
    refuse(kernel, undefined, { what: 'bad subgroup', got: subgroup, wanted: 'a power of two from 2 to 128, or 0' })
  }
  const names = [...params, ...shared].map(({ name }) => name)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) refuse(kernel, undefined, { what: 'name is used twice', got: twice })
  for (const param of params) {
    // a field of four bytes; JavaScript may ask for anything
    const wrong = param.kind === 'uniform' && !UNIFORMS.includes(param.dtype)
    if (wrong) refuse(kernel, undefined, { what: 'a uniform is f32, i32 or u32', got: param.dtype })
  }
  for (const { name, length } of shared) {
    if (!Number.isInteger(length) || length < 1)
      refuse(kernel, undefined, {
        what: `bad length of ${name}`,
        got: length,
        wanted: 'a whole number from 1',
      })
  }
  if (body.op !== 'block') refuse(kernel, body, { what: 'the body must be a block', got: body.op })
}

/** Where a `breakIf` may stand: directly in a loop (or in its ifs), and that loop counts them. */
interface Loop {
  breaks: number
}

class Verifier {
  readonly #kernel: Kernel
  readonly #inlined: boolean
  readonly #locals = new Map<number, DType>()
  readonly #variables = new Map<number, DType>()
  readonly #declared = new Set<number>()
  /** Pure nodes found good in a scope that is still open. */
  readonly #good = new Set<Node>()
  /** Undoes what the open scopes brought, innermost last. */
  readonly #trail: (() => void)[] = []

  constructor(kernel: Kernel, inlined: boolean) {
    this.#kernel = kernel
    this.#inlined = inlined
  }

  run(): void {
    this.#block(this.#kernel.body, undefined)
  }

  #refuse(node: Node, fault: Fault): never {
    return refuse(this.#kernel, node, fault)
  }

  #block(block: Node, loop: Loop | undefined, enter?: () => void): void {
    const outside = this.#trail.length
    enter?.()
    for (const node of block.src) this.#statement(node, loop)
    for (const forget of this.#trail.splice(outside)) forget()
  }

  #statement(node: Node, loop: Loop | undefined): void {
    if (opRecord(node.op).kind !== 'statement' || node.op === 'block') {
      this.#refuse(node, { what: 'a block lists statements', got: node.op, hint: 'bind values with let' })
    }
    const fault = faultOf(node, this.#kernel)
    if (fault !== undefined) this.#refuse(node, fault)
    for (const child of valuesOf(node)) this.#operand(child, node)
    switch (node.op) {
      case 'let':
        return this.#declare(node, this.#locals, node.src[0].dtype)
      case 'var':
        return this.#declare(node, this.#variables, node.src[0].dtype)
      case 'set':
        return this.#sameType(node, this.#variables.get(node.arg), node.src[0].dtype)
      case 'if':
        for (const branch of blocksOf(node)) this.#block(branch, loop)
        return undefined
      case 'for':
        return this.#block(node.src[3], undefined, () => this.#declare(node, this.#locals, 'u32'))
      case 'loop': {
        const inner: Loop = { breaks: 0 }
        this.#block(node.src[0], inner)
        return inner.breaks > 0 ? undefined : this.#refuse(node, { what: 'a loop without breakIf never ends' })
      }
      case 'breakIf':
        if (loop === undefined)
          this.#refuse(node, {
            what: 'breakIf outside of a loop',
            hint: 'it may stand in a loop and its ifs, not in a for inside it',
          })
        loop.breaks++
        return undefined
      default:
        return undefined
    }
  }

  #declare(node: NodeOf<'let' | 'var' | 'for'>, scope: Map<number, DType>, dtype: DType): void {
    const { id } = node.arg
    if (this.#declared.has(id))
      this.#refuse(node, {
        what: 'id is declared twice',
        got: id,
        hint: 'copies of a block need new ids',
      })
    this.#declared.add(id)
    scope.set(id, dtype)
    this.#trail.push(() => scope.delete(id))
  }

  #sameType(node: Node, declared: DType | undefined, dtype: DType): void {
    if (declared === undefined) {
      this.#refuse(node, {
        what: 'not declared here',
        got: `id ${String(node.arg)}`,
        hint: 'a value can be used after its let, inside the same block',
      })
    }
    if (declared !== dtype) this.#refuse(node, { what: 'wrong type', got: dtype, wanted: declared })
  }

  /** An operand of a statement: only a `let` may be given an effect. */
  #operand(node: Node, parent: Node): void {
    const { kind } = opRecord(node.op)
    if (kind !== 'effect') return this.#expression(node)
    if (parent.op !== 'let' && !this.#inlined)
      this.#refuse(parent, {
        what: `${node.op} must be bound by a let`,
        hint: 'its value depends on when it is computed',
      })
    return this.#node(node)
  }

  #expression(node: Node): void {
    if (this.#good.has(node)) return
    const { kind } = opRecord(node.op)
    if (kind === 'statement') this.#refuse(node, { what: 'a statement is no value', got: node.op })
    if (kind === 'effect' && !this.#inlined)
      this.#refuse(node, {
        what: `${node.op} must be bound by a let`,
        hint: 'its value depends on when it is computed',
      })
    this.#node(node)
    this.#good.add(node)
    this.#trail.push(() => this.#good.delete(node))
  }

  #node(node: Node): void {
    for (const child of node.src) this.#expression(child)
    const fault = faultOf(node, this.#kernel)
    if (fault !== undefined) this.#refuse(node, fault)
    if (node.op === 'local') this.#sameType(node, this.#locals.get(node.arg), node.dtype)
    if (node.op === 'get') this.#sameType(node, this.#variables.get(node.arg), node.dtype)
  }
}

/** Barriers, subgroup and tile operations need all their lanes to come by together. */
function verifyControl(kernel: Kernel): void {
  const uniformity = analyseUniformity(kernel)
  const known = new Map<Node, readonly Node[]>()
  uniformity.eachStatement((statement, control) => {
    for (const node of [statement, ...valuesOf(statement).flatMap((value) => convergentIn(value, known))]) {
      const together = convergenceOf(node)
      if (together === 'workgroup') verifyBarrier(kernel, node, control)
      if (together === 'subgroup') verifyTogether(kernel, node, control, uniformity)
    }
  })
}

function verifyBarrier(kernel: Kernel, barrier: Node, control: Level): void {
  if (control === 'workgroup') return
  refuse(kernel, barrier, {
    what: 'a barrier that some lanes may not reach',
    got: `control flow uniform per ${control}`,
    wanted: 'uniform per workgroup',
    hint: 'move it out of conditions and loops that depend on the lane or on written memory',
  })
}

function verifyTogether(kernel: Kernel, node: Node, control: Level, uniformity: Uniformity): void {
  const fault = subgroupFault(kernel)
  if (fault !== undefined) refuse(kernel, node, fault)
  if (control === 'lane') {
    refuse(kernel, node, {
      what: `${node.op} that some lanes of a subgroup may not reach`,
      got: 'control flow that differs by lane',
      wanted: 'uniform per subgroup',
      hint: 'compute it for all lanes and select afterwards',
    })
  }
  if (node.op !== 'tileLoad' && node.op !== 'tileStore') return
  const [index, row] = node.src
  if ([index, row].some((operand) => uniformity.of(operand) === 'lane')) {
    refuse(kernel, node, {
      what: 'a tile needs one place for the whole subgroup',
      got: 'an index that differs by lane',
      wanted: 'uniform per subgroup',
    })
  }
}

/** The operations inside an expression that lanes must come by together. */
function convergentIn(node: Node, known: Map<Node, readonly Node[]>): readonly Node[] {
  const before = known.get(node)
  if (before !== undefined) return before
  const found = new Set(node.src.flatMap((child) => convergentIn(child, known)))
  if (convergenceOf(node) !== undefined) found.add(node)
  const list = [...found]
  known.set(node, list)
  return list
}
