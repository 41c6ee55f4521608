// The cases of the WebNN conformance suite as its file has them, and their numbers.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ElementType } from '../../src/base/element.ts'
import { dataFolder } from './folder.ts'

export interface Descriptor {
  readonly shape: readonly number[]
  readonly dataType: string
}
export interface Operand {
  readonly data: unknown
  readonly descriptor: Descriptor
}
export interface Operator {
  readonly name: string
  readonly arguments: readonly Readonly<Record<string, unknown>>[] | Readonly<Record<string, unknown>>
  readonly outputs: string | readonly string[]
}
export interface WebnnCase {
  readonly name: string
  readonly graph: {
    readonly inputs: Readonly<Record<string, Operand>>
    readonly operators: readonly Operator[]
    readonly expectedOutputs: Readonly<Record<string, Operand>>
  }
}

const path = join(dataFolder, 'conformance', 'webnn-cases.json')

/** Cases by operation; none where the data folder is not there. */
export const webnnCases: ReadonlyMap<string, readonly WebnnCase[]> = new Map(
  existsSync(path) ? Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Record<string, WebnnCase[]>) : [],
)

/** What Ingot holds the elements of each type in. Integers of four bits are held in bytes. */
export const TYPES: Readonly<Record<string, ElementType>> = {
  float32: 'f32',
  float16: 'f16',
  int64: 'i64',
  uint64: 'i64',
  int32: 'i32',
  uint32: 'u32',
  int8: 'i8',
  uint8: 'u8',
  int4: 'i8',
  uint4: 'u8',
}

/** Numbers that JSON has no word for are objects: `{ "$num": "Infinity" }`, `{ "$bigint": "5" }`; some are texts. */
export function numberOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return Number(value)
  const { $num, $bigint } = value as { $num?: string; $bigint?: string }
  return Number($num ?? $bigint)
}

/** The numbers of an operand; one number may stand for all. */
export function numbersOf({ data, descriptor: { shape } }: Operand): number[] {
  const size = shape.reduce((product, each) => product * each, 1)
  if (Array.isArray(data)) return data.map(numberOf)
  return Array.from({ length: size }, () => numberOf(data))
}

/** Arguments by name, in one object. */
export function argumentsOf({ arguments: list }: Operator): Readonly<Record<string, unknown>> {
  return Array.isArray(list) ? (Object.assign({}, ...list) as Record<string, unknown>) : (list as Record<string, unknown>)
}
