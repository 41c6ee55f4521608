// Reads the numbers of a command line. What is not a number, or out of range, is refused while the line is parsed, before any work.

import { InvalidArgumentError } from 'commander'

export interface Limits {
  readonly least?: number
  readonly most?: number
  /** greater than this; the number itself is out of range */
  readonly above?: number
}

const WHOLE = /^[+-]?\d+$/
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i

export function whole(limits: Limits = {}): (text: string) => number {
  return reader(WHOLE, 'a whole number', limits, Number.isSafeInteger)
}

export function decimal(limits: Limits = {}): (text: string) => number {
  return reader(DECIMAL, 'a number', limits, Number.isFinite)
}

/** `1,2,3` (spaces are allowed): token ids. */
export function tokenList(text: string): number[] {
  const read = whole({ least: 0, most: 0xffffffff })
  const parts = text.trim().split(/\s*,\s*|\s+/)
  if (text.trim() === '') throw new InvalidArgumentError('It must be token ids with commas between them.')
  return parts.map(read)
}

function reader(form: RegExp, what: string, limits: Limits, fits: (value: number) => boolean): (text: string) => number {
  const { least = -Infinity, most = Infinity, above = -Infinity } = limits
  return (text) => {
    const value = Number(text)
    if (form.test(text) && fits(value) && value >= least && value <= most && value > above) return value
    throw new InvalidArgumentError(`It must be ${what}${describe(limits)}.`)
  }
}

function describe({ least, most, above }: Limits): string {
  const from = above !== undefined ? ` above ${above}` : least !== undefined ? ` from ${least}` : ''
  return `${from}${most === undefined ? '' : ` to ${most}`}`
}
