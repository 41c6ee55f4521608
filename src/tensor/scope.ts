// Scopes: what is made inside is given back at the end, but for the result. Which scope a tensor is made in is known through awaits where
// the engine can follow them (Node); elsewhere a scope covers what is made before its first await.

import { checkArgument, isFunction } from '../base/argument.ts'
import { Tensor } from './tensor.ts'
import { type Member, runInside } from './scope-store.ts'
import { tensorsIn } from './tree.ts'

/**
 * Runs a function and computes the tensors that it gives; the memory of all others that it made is free then, at once. The result may be a
 * tensor, or lists and objects of them.
 */
export async function scope<R>(f: () => R | Promise<R>): Promise<R> {
  checkArgument('scope', 'what runs inside', f, 'a function', isFunction)
  const made = new Set<Member>()
  const result = await runInside(made, f)
  const tensors = tensorsIn(result)
  for (const tensor of tensors) made.delete(tensor)
  const leaves: Tensor[] = []
  for (const member of made) {
    if (!(member instanceof Tensor) || !member.isWanted) continue
    // What is not computed yet need not be kept when the result is.
    if (member.node.op === 'leaf') leaves.push(member)
    else member[Symbol.dispose]()
  }
  try {
    await Promise.all(tensors.map((tensor) => tensor.realize()))
  } finally {
    const used = new Set(tensors.flatMap(({ node }) => (node.op === 'leaf' ? [node.attrs.storage] : [])))
    for (const tensor of leaves) if (tensor.node.op === 'leaf' && !used.has(tensor.node.attrs.storage)) tensor[Symbol.dispose]()
  }
  return result
}
