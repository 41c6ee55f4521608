// What callers pass, held against what was asked for. TypeScript says the same where it is used; JavaScript, JSON and casts come here.
// Knows kinds of values; each caller knows what it wants.

import { IngotError } from './error.ts'

/** Throws `bad-argument` unless the value is of the kind that `holds` knows. `what` names it, `wanted` says what it should be. */
export function checkArgument(op: string, what: string, value: unknown, wanted: string, holds: (value: unknown) => boolean): void {
  if (holds(value)) return
  throw new IngotError('bad-argument', `${what} is of the wrong kind`, { op, got: describeKind(value), wanted })
}

/** The same for an option, which may be left out. */
export function checkOption(op: string, what: string, value: unknown, wanted: string, holds: (value: unknown) => boolean): void {
  if (value !== undefined) checkArgument(op, what, value, wanted, holds)
}

/** Options are an object: `null` is none. */
export function checkOptions(op: string, value: unknown): void {
  checkArgument(op, 'options', value, 'an object', isObject)
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
export function isFunction(value: unknown): boolean {
  return typeof value === 'function'
}
export function isBoolean(value: unknown): boolean {
  return typeof value === 'boolean'
}
export function isString(value: unknown): value is string {
  return typeof value === 'string'
}
/** Signals of another realm count, too. */
export function isSignal(value: unknown): boolean {
  return isObject(value) && 'aborted' in value && hasMethods(value, ['addEventListener', 'throwIfAborted'])
}
/** An array, or one of numbers in memory. */
export function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))
}
export function hasMethods(value: unknown, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => typeof (value as Readonly<Record<string, unknown>>)[name] === 'function')
}

/** `null`, `a list`, `the number 5`: what a value is, in a word or two. */
export function describeKind(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (isList(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`
  return typeof value === 'string' ? 'a text' : `the ${typeof value} ${String(value)}`
}
