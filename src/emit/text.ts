// Expressions as text with the least parentheses. `level` says how tightly the outermost operator binds. The rules are
// stricter than C's: shifts and bitwise operators take only unary operands, as WGSL demands and as C compilers advise.

import { widthOf } from '../base/dtype.ts'
import type { Node } from '../ir/node.ts'

export const LEVEL = {
  atom: 20,
  unary: 15,
  mul: 13,
  add: 12,
  shift: 11,
  compare: 10,
  bitAnd: 8,
  bitXor: 7,
  bitOr: 6,
  and: 5,
  or: 4,
  choose: 3,
} as const

export interface Text {
  readonly text: string
  readonly level: number
}

/** How a constant is written. */
export interface Manner {
  /** an integer may drop its suffix, since its neighbour gives the type */
  readonly bare?: boolean
  /** it is a pattern of bits */
  readonly hex?: boolean
}
export const BARE: Manner = { bare: true }

/** What a spelling may ask of the emitter. */
export interface Speaker {
  /** An operand as text. */
  say(node: Node, manner?: Manner): Text
  /** Notes that the program needs a helper function, a directive or the like; the dialect knows what the key means. */
  need(key: string): void
  /** The name of a constant array at program scope. */
  table(node: Node): string
}
export type Spelling = (node: Node, speaker: Speaker) => Text

export const atom = (text: string): Text => ({ text, level: LEVEL.atom })
export const unary = (text: string): Text => ({ text, level: LEVEL.unary })

/** The text, in parentheses unless it binds at least as tightly as `level`. */
export function within({ text, level: own }: Text, level: number): string {
  return own >= level ? text : `(${text})`
}

const operandLevels: Readonly<Record<number, readonly [left: number, right: number]>> = {
  [LEVEL.mul]: [LEVEL.mul, LEVEL.unary],
  [LEVEL.add]: [LEVEL.add, LEVEL.mul],
  [LEVEL.shift]: [LEVEL.unary, LEVEL.unary],
  [LEVEL.compare]: [LEVEL.add, LEVEL.add],
  [LEVEL.bitAnd]: [LEVEL.unary, LEVEL.unary],
  [LEVEL.bitXor]: [LEVEL.unary, LEVEL.unary],
  [LEVEL.bitOr]: [LEVEL.unary, LEVEL.unary],
  [LEVEL.and]: [LEVEL.compare, LEVEL.compare],
  [LEVEL.or]: [LEVEL.compare, LEVEL.compare],
}

/** `left operator right`; the left operand may be the same operator again. */
export function binary(left: Text, operator: string, right: Text, level: number): Text {
  const [leftLevel, rightLevel] = operandLevels[level] ?? [LEVEL.atom, LEVEL.atom]
  const first = left.level === level && level !== LEVEL.shift && level !== LEVEL.compare ? left.text : within(left, leftLevel)
  return { text: `${first} ${operator} ${within(right, rightLevel)}`, level }
}

/** Two operands of one operator. Only one of two integer constants may be bare: the other operand must carry the type. */
export function pair(node: Node, speaker: Speaker, manner: Manner = {}): [Text, Text] {
  const [a, b] = node.src as [Node, Node]
  const bare = (other: Node): boolean => other.op !== 'const' && widthOf(other.dtype) === 1
  return [speaker.say(a, { ...manner, bare: bare(b) }), speaker.say(b, { ...manner, bare: bare(a) })]
}

/** The operands of an operator that spreads a scalar over a vector by itself. */
export function spread(node: Node, speaker: Speaker, manner: Manner = {}): [Text, Text] {
  const [a, b] = node.src as [Node, Node]
  const scalar = (operand: Node, other: Node): Text | undefined =>
    operand.op === 'splat' && other.op !== 'splat' ? speaker.say(operand.src[0] as Node, manner) : undefined
  const [left, right] = pair(node, speaker, manner)
  return [scalar(a, b) ?? left, scalar(b, a) ?? right]
}

type Operands = (node: Node, speaker: Speaker, manner?: Manner) => [Text, Text]

export const infix =
  (operator: string, level: number, operands: Operands = pair): Spelling =>
  (node, speaker) => {
    const [left, right] = operands(node, speaker, level <= LEVEL.bitAnd && level >= LEVEL.bitOr ? { hex: true } : {})
    return binary(left, operator, right, level)
  }

export const prefix =
  (operator: string): Spelling =>
  (node, speaker) =>
    unary(operator + within(speaker.say(node.src[0] as Node), LEVEL.unary + 1))

/** `name(operands)` */
export const call =
  (name: string): Spelling =>
  (node, speaker) =>
    atom(`${name}(${node.src.map((operand) => speaker.say(operand).text).join(', ')})`)

/** `name(operand, arg)` for ops whose argument is a number known now. */
export const callWithArg =
  (name: string, suffix = ''): Spelling =>
  (node, speaker) =>
    atom(`${name}(${speaker.say(node.src[0] as Node).text}, ${String(node.arg)}${suffix})`)

export function choose(condition: Text, yes: Text, no: Text): Text {
  return {
    text: `${within(condition, LEVEL.or)} ? ${within(yes, LEVEL.choose + 1)} : ${within(no, LEVEL.choose)}`,
    level: LEVEL.choose,
  }
}

export const AXES = ['x', 'y', 'z', 'w'] as const
