// Tensors in lists and objects: what functions that are differentiated or compiled take and give.

import { Tensor } from './tensor.ts'

/** A tensor, lists and objects of them, or anything else, which stays as it is. */
export type Tree = unknown

/** The tensors of a tree, in order, and how to make the same tree of others. */
export interface Flat {
  readonly tensors: readonly Tensor[]
  /** what the tree is but for its tensors, as text */
  readonly form: string
}

export function flatten(tree: Tree): Flat {
  const tensors: Tensor[] = []
  const form = describe(tree, tensors)
  return { tensors, form }
}

/** The tensors of a tree alone. */
export function tensorsIn(tree: Tree): readonly Tensor[] {
  return tree instanceof Tensor ? [tree] : flatten(tree).tensors
}

/** The same tree with each tensor replaced. */
export function mapTree<T>(tree: T, replace: (tensor: Tensor) => unknown): T {
  return mapAny(tree, replace) as T // the same but for its tensors
}

function mapAny(tree: Tree, replace: (tensor: Tensor) => unknown): unknown {
  if (tree instanceof Tensor) return replace(tree)
  if (Array.isArray(tree)) return tree.map((each: unknown) => mapAny(each, replace))
  if (isPlainObject(tree)) return Object.fromEntries(Object.entries(tree).map(([key, each]) => [key, mapAny(each, replace)]))
  return tree
}

function describe(tree: Tree, tensors: Tensor[]): string {
  if (tree instanceof Tensor) {
    tensors.push(tree)
    return `${tree.dtype}[${tree.shape.join()}]`
  }
  if (Array.isArray(tree)) return `[${tree.map((each: unknown) => describe(each, tensors)).join(';')}]`
  if (isPlainObject(tree))
    return `{${Object.entries(tree)
      .map(([key, each]) => `${JSON.stringify(key)}:${describe(each, tensors)}`)
      .join(';')}}`
  return typeof tree === 'object' || typeof tree === 'function' ? `${typeof tree}#${identityOf(tree)}` : `${typeof tree}:${String(tree)}`
}

const identities = new WeakMap<object, number>()
let known = 0

/** Objects that are no trees are told apart by which they are. */
function identityOf(value: object | null): number {
  if (value === null) return 0
  const id = identities.get(value) ?? ++known
  identities.set(value, id)
  return id
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null)
}
