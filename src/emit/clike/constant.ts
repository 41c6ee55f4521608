// Constants: what value an operand certainly has, and how a value is written. Digits are literal.ts's part.

import type { Scalar } from '../../base/dtype.ts'
import type { Node } from '../../ir/node.ts'
import { splatOf } from '../../ir/pass/constant.ts'
import type { ConstantWords } from './dialect.ts'
import { type Manner, type Speaker, type Text, atom, unary } from './expression.ts'
import { doubleDigits, floatDigits, halfDigits, hex } from './literal.ts'

/** The constant that an operand certainly is, alone or in every element. */
export function constantOf(node: Node): number | undefined {
  const scalar = node.op === 'splat' ? node.src[0] : node
  // infinities in tables are not folded
  if (scalar.op === 'table' && scalar.src[0].op === 'const') return scalar.arg[Number(scalar.src[0].arg)]
  return splatOf(scalar)
}

/** A constant as text. Only a speaker can be asked for the functions that some languages need for infinities. */
export function constantText(
  words: ConstantWords,
  value: number | boolean,
  scalar: Scalar,
  { bare, hex: pattern }: Manner = {},
  speaker?: Speaker,
): Text {
  const number = Number(value)
  if (scalar === 'bool') return atom(number === 0 ? 'false' : 'true')
  if (scalar === 'f32' || scalar === 'f16' || scalar === 'f64') return signed(floatText(words, number, scalar, speaker))
  if (number === -(2 ** 31)) return atom(words.smallest)
  if (number < 0) return unary(String(number))
  const digits = (pattern === true && number > 9) || number >= 2 ** 24 ? hex(number) : String(number)
  return atom(scalar === 'u32' && (bare !== true || number >= words.bareBelow) ? `${digits}u` : digits)
}

type Float = 'f32' | 'f16' | 'f64'
const DIGITS: Readonly<Record<Float, (value: number) => string | undefined>> = { f32: floatDigits, f16: halfDigits, f64: doubleDigits }
const SUFFIX: Readonly<Record<Float, string>> = { f32: 'f', f16: 'h', f64: '' }

function floatText({ endless, helper }: ConstantWords, number: number, scalar: Float, speaker: Speaker | undefined): string {
  const digits = Number.isFinite(number) ? DIGITS[scalar](number) : undefined
  if (digits !== undefined) return digits + SUFFIX[scalar]
  const [plus, minus, nan] = endless[scalar] ?? endless.f32
  const what = Number.isNaN(number) ? 'nan' : 'inf'
  if (helper !== undefined) speaker?.need(what, helper(what))
  return what === 'nan' ? nan : number < 0 ? minus : plus
}

function signed(text: string): Text {
  return text.startsWith('-') ? unary(text) : atom(text)
}
