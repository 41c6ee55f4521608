// What an expression costs, as far as it decides whether it deserves a name or a place outside of a loop.

import { isInteger } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import { isLeaf, opRecord } from '../op.ts'
import { splatOf } from './constant.ts'

/** Not worth a name even if written twice: leaves, an element of one, `i + 1`. */
export function isTrivial(node: Node): boolean {
  switch (node.op) {
    case 'splat':
    case 'extract':
    case 'bitcast':
      return isTrivial(node.src[0])
    case 'cast':
      return node.src[0].op === 'const'
    case 'add':
    case 'sub':
      return isInteger(node.dtype) && isLeaf(node.src[0].op) && splatOf(node.src[1]) !== undefined
    default:
      return isLeaf(node.op)
  }
}

/** Worth computing before a loop: more than one cheap step with a constant. */
export function isWorthHoisting(node: Node): boolean {
  if (isTrivial(node)) return false
  if (opRecord(node.op).slow === true || node.op === 'vec') return true
  if (node.op === 'splat') return isWorthHoisting(node.src[0])
  const [a, b] = node.src
  const small = a !== undefined && isTrivial(a) && (b === undefined || splatOf(b) !== undefined)
  return !small
}
