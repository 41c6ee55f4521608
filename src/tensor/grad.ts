// Gradients of functions of tensors: `grad(f)` is a function that gives how f changes with its first argument, or with those that are
// named. Arguments may be tensors, or lists and objects of them; the gradient has the same form.

import { differentiate } from './gradient.ts'
import { makeNode } from './make-node.ts'
import { checkList, checkWhole, fail, optionsOf } from './operand.ts'
import { Tensor, checkTensors } from './tensor.ts'
import { flatten, mapTree } from './tree.ts'

/** Arguments by number: one, or a list of them. */
export type Chosen = number | readonly number[]

/** What `grad` is told. */
export interface GradOptions<C extends Chosen = Chosen> {
  /** the argument, or arguments, that the gradient is for (default: the first) */
  readonly argument?: C
}
/** Gradients have the form of the arguments they are for: of a list of arguments, a list. */
export type GradientOf<A extends readonly unknown[], C extends Chosen> = C extends number
  ? A[C]
  : { -readonly [I in keyof C]: C[I] extends number ? A[C[I]] : never }

/** How a tensor changes with others: for each the gradient of the sum of `y`'s elements times `cotangent`'s, by default of `y` itself. */
export function gradients(y: Tensor, tensors: readonly Tensor[], cotangent?: Tensor): Tensor[] {
  checkTensors('gradients', tensors)
  checkTensors('gradients', cotangent === undefined ? [y] : [y, cotangent])
  const nodes = differentiate(
    y.node,
    tensors.map(({ node }) => node),
    cotangent?.node,
  )
  return nodes.map((node, i) => Tensor.of(node, tensors[i]?.device))
}

/** A function that gives the gradient of `f`, which gives a tensor of one element. */
export function grad<A extends readonly unknown[], const C extends Chosen = 0>(
  f: (...args: A) => Tensor,
  options?: GradOptions<C>,
): (...args: A) => GradientOf<A, C> {
  const both = valueAndGrad(f, options)
  return (...args) => both(...args)[1]
}

/** A function that gives the value of `f` and its gradient, computed together. */
export function valueAndGrad<A extends readonly unknown[], const C extends Chosen = 0>(
  f: (...args: A) => Tensor,
  options: GradOptions<C> = {},
): (...args: A) => [value: Tensor, gradient: GradientOf<A, C>] {
  const argument: Chosen = optionsOf('grad', options).argument ?? 0
  if (typeof f !== 'function') fail('grad', 'no function', typeof f, 'a function of tensors')
  const chosen = typeof argument === 'number' ? [argument] : argument
  checkList('grad', 'what names arguments', chosen)
  for (const at of chosen) checkWhole('grad', 'the number of an argument', at, 0)
  return (...args) => {
    for (const at of chosen)
      if (flatten(args[at]).tensors.length === 0) fail('grad', `argument ${at} holds no tensors`, args.length, 'tensors')
    // Each has a name of its own here, so that what else f reads of the same tensors does not count.
    const own = args.map((arg: unknown, at) => (chosen.includes(at) ? mapTree(arg, renamed) : arg))
    const value = f(...(own as unknown as A)) // the same but for which tensors they are
    if (!(value instanceof Tensor)) return fail('grad', 'the function gives no tensor', typeof value, 'a tensor of one element')
    const sources = chosen.map((at) => own[at])
    const found = gradients(value, flatten(sources).tensors)
    let next = 0
    const trees = sources.map((source) => mapTree(source, () => found[next++]))
    const form = typeof argument === 'number' ? trees[0] : trees
    return [value, form as GradientOf<A, C>] // as `argument` says
  }
}

/**
 * A function with the same values whose inner results are not kept for its gradient but computed again: less memory for more time. What f
 * reads beside its arguments is kept.
 */
export function checkpoint<A extends readonly unknown[]>(f: (...args: A) => Tensor): (...args: A) => Tensor {
  if (typeof f !== 'function') fail('checkpoint', 'no function', typeof f, 'a function of tensors')
  return (...args) => {
    const { tensors } = flatten(args)
    const result = f(...args)
    checkTensors('checkpoint', [result])
    return Tensor.of(makeNode('checkpoint', [result.node, ...tensors.map(({ node }) => node)], {}), result.device)
  }
}

/** The same tensor under another name. */
function renamed(tensor: Tensor): Tensor {
  return tensor.reshape(...tensor.shape)
}
