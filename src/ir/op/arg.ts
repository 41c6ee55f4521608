// What a node says besides its operands: the kinds of arguments. A kind gives TypeScript the argument's type and tells the
// verifier what is wrong with one that is not of it. Which op takes which kind is said in the op's record (op.ts).

import { type Width, WIDTHS } from '../../base/dtype.ts'
import { INDICES, type IndexName } from './position.ts'

/** Any argument, before its kind is known: a constant, a name, a lane number, a table, named fields. */
export type Arg = null | number | boolean | string | readonly number[] | Readonly<{ [key: string]: number | boolean | string | undefined }>

export const ATOMICS = ['add', 'min', 'max', 'and', 'or', 'xor', 'exchange'] as const
export type AtomicKind = (typeof ATOMICS)[number]

/** Which elements of which memory a load or store moves. */
export type PlaceArg = {
  readonly mem: string
  /** elements to move as one vector; none: one element */
  readonly width?: Width
  /** a load's hint: memory so many bytes further on will be loaded soon (scope.ts) */
  readonly ahead?: number
}
export type TileArg = { readonly mem: string; readonly transposed?: boolean }
export type AtomicArg = { readonly mem: string; readonly kind: AtomicKind }
/** The id that a value or variable is known by, and what people call it. */
export type NameArg = { readonly id: number; readonly name: string }
export type LoopArg = NameArg & {
  /** a hint: unroll fully (true) or this many times */
  readonly unroll?: boolean | number
}

export interface ArgFault {
  readonly what: string
  readonly got?: unknown
  readonly wanted?: unknown
}

export interface ArgKind<A extends Arg> {
  /** What is wrong with an argument that is not of this kind. */
  readonly wrong: (arg: Arg) => ArgFault | undefined
  /** carries `A` for TypeScript; has no value */
  readonly type?: A
}

/** A kind that one test decides. */
const kind = <A extends Arg>(test: (arg: Arg) => boolean, what: string, wanted: string): ArgKind<A> => ({
  wrong: (arg) => (test(arg) ? undefined : { what, got: arg, wanted }),
})

/** The value of a named field; undefined if the argument has no such field. */
const field = (arg: Arg, name: string): unknown =>
  arg !== null && typeof arg === 'object' && name in arg ? Reflect.get(arg, name) : undefined
const isCount = (value: unknown): boolean => typeof value === 'number' && Number.isInteger(value) && value >= 0
const isOptional = (value: unknown, type: 'number' | 'boolean'): boolean => value === undefined || typeof value === type

function isNumbers(arg: Arg): arg is readonly number[] {
  return Array.isArray(arg) && arg.every((value) => typeof value === 'number')
}

/** The numbers of an argument that is a table. */
export function numbersOf(arg: Arg): readonly number[] {
  if (!isNumbers(arg)) throw new TypeError(`a table needs numbers, got ${JSON.stringify(arg)}`)
  return arg
}

export const NONE = kind<null>((arg) => arg === null, 'takes no argument', 'null')
export const CONSTANT = kind<number | boolean>(
  (arg) => typeof arg === 'number' || typeof arg === 'boolean',
  'a constant needs a value',
  'a number or a boolean',
)
export const INDEX = kind<IndexName>(
  (arg) => typeof arg === 'string' && Object.hasOwn(INDICES, arg),
  'unknown index',
  Object.keys(INDICES).join(', '),
)
export const UNIFORM = kind<string>((arg) => typeof arg === 'string', 'a uniform needs a name', 'text')
/** The id of a `let`, of a loop's variable or of a `var`. */
export const ID = kind<number>(isCount, 'needs an id', 'a whole number from 0')
export const LANE = kind<number>(isCount, 'needs the number of a lane', 'a whole number from 0')
export const HALF = kind<0 | 1>((arg) => arg === 0 || arg === 1, 'needs a half', '0 or 1')
export const TABLE = kind<readonly number[]>((arg) => isNumbers(arg) && arg.length > 0, 'a table needs numbers', 'at least one number')
export const BYTES = kind<readonly number[]>(
  (arg) => isNumbers(arg) && arg.length === 16 && arg.every((value) => Number.isInteger(value) && value >= -128 && value < 256),
  'bad table',
  '16 bytes',
)
export const BARRIER = kind<'workgroup' | 'subgroup'>(
  (arg) => arg === 'workgroup' || arg === 'subgroup',
  'unknown barrier',
  'workgroup or subgroup',
)
export const TILE = kind<TileArg>(
  (arg) => typeof field(arg, 'mem') === 'string' && isOptional(field(arg, 'transposed'), 'boolean'),
  'names no memory',
  'mem, transposed?',
)
export const NAME = kind<NameArg>((arg) => isCount(field(arg, 'id')) && typeof field(arg, 'name') === 'string', 'needs an id', 'id, name')
export const LOOP = kind<LoopArg>(
  (arg) => NAME.wrong(arg) === undefined && ['undefined', 'boolean', 'number'].includes(typeof field(arg, 'unroll')),
  'needs an id',
  'id, name, unroll?',
)
export const PLACE: ArgKind<PlaceArg> = {
  wrong: (arg) => {
    if (typeof field(arg, 'mem') !== 'string' || !isOptional(field(arg, 'ahead'), 'number')) {
      return { what: 'names no memory', got: arg, wanted: 'mem, width?, ahead?' }
    }
    const width = field(arg, 'width')
    return width === undefined || WIDTHS.some((each) => each === width)
      ? undefined
      : { what: 'bad width', got: width, wanted: WIDTHS.join(', ') }
  },
}
export const ATOMIC: ArgKind<AtomicArg> = {
  wrong: (arg) => {
    if (typeof field(arg, 'mem') !== 'string') return { what: 'names no memory', got: arg, wanted: 'mem, kind' }
    const name = field(arg, 'kind')
    return ATOMICS.some((each) => each === name) ? undefined : { what: 'unknown atomic', got: name, wanted: ATOMICS.join(', ') }
  },
}
