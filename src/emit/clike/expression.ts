// Expressions as text with the least parentheses. `level` says how tightly the outermost operator binds. The rules are
// stricter than C's: shifts and bitwise operators take only unary operands, as WGSL demands and as C compilers advise.

import { widthOf } from '../../base/dtype.ts'
import type { Node, NodeOf, NodeWith, OneNode, SomeNode } from '../../ir/node.ts'
import type { ArgOf, OpName } from '../../ir/op.ts'

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

/** A function of the program's own, by the lines that define it. */
export type Helper = () => readonly string[]

/** What a spelling may ask of the emitter. */
export interface Speaker {
  /** An operand as text. */
  say(node: Node, manner?: Manner): Text
  /** Notes that the program needs a function of this name; the same name always stands for the same lines. */
  need(name: string, helper: Helper): void
  /** The name of a constant array at program scope. */
  table(node: NodeOf<'table' | 'lookup16'>): string
}
/** How an op is said that has at least `N` operands. */
export type Spelling<N extends number = 1> = (node: NodeWith<N>, speaker: Speaker) => Text
/** The ops that a language has, and how it says each. */
export type Spellings = { readonly [O in OpName]?: (node: OneNode<O>, speaker: Speaker) => Text }

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
export function pair({ src: [a, b] }: NodeWith<2>, speaker: Speaker, manner: Manner = {}): [Text, Text] {
  const bare = (other: Node): boolean => other.op !== 'const' && widthOf(other.dtype) === 1
  return [speaker.say(a, { ...manner, bare: bare(b) }), speaker.say(b, { ...manner, bare: bare(a) })]
}

/** The operands of an operator that spreads a scalar over a vector by itself. */
export function spread(node: NodeWith<2>, speaker: Speaker, manner: Manner = {}): [Text, Text] {
  const [a, b] = node.src
  const scalar = (operand: Node, other: Node): Text | undefined =>
    operand.op === 'splat' && other.op !== 'splat' ? speaker.say(operand.src[0], manner) : undefined
  const [left, right] = pair(node, speaker, manner)
  return [scalar(a, b) ?? left, scalar(b, a) ?? right]
}

/** How an operator takes its operands: `pair` or `spread`. */
export type Operands = typeof pair

export const infix =
  (operator: string, level: number, operands: Operands = pair): Spelling<2> =>
  (node, speaker) => {
    const [left, right] = operands(node, speaker, level <= LEVEL.bitAnd && level >= LEVEL.bitOr ? { hex: true } : {})
    return binary(left, operator, right, level)
  }

export const prefix =
  (operator: string): Spelling =>
  ({ src: [operand] }, speaker) =>
    unary(operator + within(speaker.say(operand), LEVEL.unary + 1))

/** `a, b, c` */
export const list = ({ src }: SomeNode, speaker: Speaker): string => src.map((operand) => speaker.say(operand).text).join(', ')

/** `name(operands)` */
export const call =
  (name: string) =>
  (node: SomeNode, speaker: Speaker): Text =>
    atom(`${name}(${list(node, speaker)})`)

/** `name(operand, arg)` for ops whose argument is a number known now. */
export const callWithArg =
  (name: string, suffix = '') =>
  ({ src: [operand], arg }: NodeWith<1> & { readonly arg: ArgOf<'subBroadcast'> }, speaker: Speaker): Text =>
    atom(`${name}(${speaker.say(operand).text}, ${arg}${suffix})`)

export function choose(condition: Text, yes: Text, no: Text): Text {
  return {
    text: `${within(condition, LEVEL.or)} ? ${within(yes, LEVEL.choose + 1)} : ${within(no, LEVEL.choose)}`,
    level: LEVEL.choose,
  }
}

/** Names of a vector's elements. */
export const COMPONENTS = ['x', 'y', 'z', 'w'] as const
