// What an expression costs, as far as it decides whether it deserves a name or a place outside of a loop.

import { isInteger } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import type { OpName } from '../op.ts'
import { splatOf } from './constant.ts'

const FREE: ReadonlySet<OpName> = new Set(['const', 'index', 'uniform', 'local'])
const SLOW: ReadonlySet<OpName> = new Set([
  'div',
  'rem',
  'sqrt',
  'rsqrt',
  'exp',
  'exp2',
  'log',
  'log2',
  'sin',
  'cos',
  'tan',
  'asin',
  'acos',
  'atan',
  'tanh',
  'pow',
])

/** Not worth a name even if written twice: leaves, an element of one, `i + 1`. */
export function isTrivial(node: Node): boolean {
  if (FREE.has(node.op)) return true
  const [a, b] = node.src
  if (a === undefined) return false
  switch (node.op) {
    case 'splat':
    case 'extract':
    case 'bitcast':
      return isTrivial(a)
    case 'cast':
      return a.op === 'const'
    case 'add':
    case 'sub':
      return isInteger(node.dtype) && FREE.has(a.op) && b !== undefined && splatOf(b) !== undefined
    default:
      return false
  }
}

/** Worth computing before a loop: more than one cheap step with a constant. */
export function isWorthHoisting(node: Node): boolean {
  if (isTrivial(node)) return false
  if (SLOW.has(node.op) || node.op === 'vec') return true
  const [a, b] = node.src
  if (node.op === 'splat') return a !== undefined && isWorthHoisting(a)
  const small = a !== undefined && isTrivial(a) && (b === undefined || splatOf(b) !== undefined)
  return !small
}
