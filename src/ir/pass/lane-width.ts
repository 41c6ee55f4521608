// How many lanes run side by side. More of them share what is computed once, and hide how long an operation takes; but every value that
// differs between lanes takes a register for each four of them (or as many as the target's vectors have), and lanes of different rows of
// a tile have fewer loads in common.

import { type Kernel, lanesOf } from '../kernel.ts'
import { type Node, blocksOf, walk } from '../node.ts'
import { Shapes } from './lane-shape.ts'
import { isAssignment } from './lane-vector.ts'
import type { PhaseTree } from './phase.ts'

/** Registers that variables may take, of the sixteen that most CPUs have. */
const REGISTERS = 12
/** Values of a phase without variables that are worth running sixteen lanes for. */
const FEW = 8

/** Undefined where lanes run one by one. */
export function chooseShapes(
  kernel: Kernel,
  targetWidth: number,
  trees: readonly PhaseTree[],
  begun: ReadonlySet<number>,
): Shapes | undefined {
  const [least, ...more] = [4, 8, 16]
    .filter((width) => width <= lanesOf(kernel))
    .map((width) => ({ shapes: new Shapes(kernel, width, trees, begun), width }))
  if (least === undefined) return undefined
  const statements = phasesOf(trees).flatMap((phase) => [...phase])
  let best = least.shapes
  for (const { shapes, width } of more) {
    const { variables, values, uneven } = countsOf(statements, shapes)
    const room = variables === 0 ? values <= FEW || width <= targetWidth * 2 : variables * (width / targetWidth) <= REGISTERS
    if (room && uneven <= countsOf(statements, least.shapes).uneven) best = shapes
  }
  return best
}

function phasesOf(trees: readonly PhaseTree[]): (readonly Node[])[] {
  return trees.flatMap((tree) => {
    switch (tree.kind) {
      case 'phase':
        return tree.lead ? [] : [tree.statements]
      case 'if':
        return [...phasesOf(tree.yes), ...phasesOf(tree.no)]
      case 'for':
      case 'around':
        return phasesOf(tree.body)
      case 'loop':
        return [...phasesOf(tree.head), ...phasesOf(tree.body)]
      default:
        return []
    }
  })
}

interface Counts {
  /** that differ between lanes and are set in the usual course of things */
  readonly variables: number
  /** other names that differ between lanes */
  readonly values: number
  /** accesses at places that do not follow each other, and loops that lanes leave at different times */
  readonly uneven: number
}

function countsOf(statements: readonly Node[], shapes: Shapes): Counts {
  const variables = new Set<number>()
  const values = new Set<number>()
  let uneven = 0
  const visit = (node: Node): void => {
    if (node.op === 'set' && shapes.ofId(node.arg).by === undefined) variables.add(node.arg)
    if (node.op === 'let' && node.src[0].op === 'load' && shapes.ofId(node.arg.id).by === undefined) values.add(node.arg.id)
    const access = node.op === 'let' ? node.src[0] : node
    if (access.op === 'load' || access.op === 'store') {
      const by = shapes.strideIn(access.arg.mem, access.src[0])
      if (by !== 0 && by !== 1) uneven++
    }
    if ((node.op === 'for' || node.op === 'loop') && shapes.isTorn(node)) uneven++
    const isRare = node.op === 'if' && blocksOf(node).every(({ src }) => src.every(isAssignment))
    if (!isRare) for (const { src } of blocksOf(node)) src.forEach(visit)
  }
  statements.forEach(visit)
  return { variables: variables.size, values: values.size, uneven }
}

/** True if nothing in a phase is gained by lanes side by side: all of its work is in statements that they run one by one. */
export function isWorthwhile(statements: readonly Node[], shapes: Shapes): boolean {
  let together = 0
  let apart = 0
  const visit = (node: Node): void => {
    const isTorn = (node.op === 'for' || node.op === 'loop') && shapes.isTorn(node)
    if (isTorn) walk(node, ({ op }) => (op === 'let' || op === 'set' || op === 'store' ? apart++ : undefined))
    else {
      if (node.op === 'let' || node.op === 'set' || node.op === 'store') together++
      for (const { src } of blocksOf(node)) src.forEach(visit)
    }
  }
  statements.forEach(visit)
  return together > apart
}
