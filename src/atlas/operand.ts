// What an instruction can have as operands: a table of kinds, which says for each how it is checked, written as text and as bytes. An
// instruction's record lists its operands (instruction/), and its text, its bytes, its checks and its builder follow.

import { type AtlasType, ALL_TYPES, bitsOf, fit, fromBits, isAtlasType, isIntegerType, toBits } from './type.ts'
import { CLASSES, PAGES } from './class.ts'
import type { ByteReader, ByteWriter } from './byte.ts'
import type { Cursor } from './cursor.ts'

export const REGISTERS = 256
export const PREDICATES = 16
/** Registers that every lane finds set. */
export const PRESET = {
  laneX: { register: 252, type: 'u32' },
  blockX: { register: 253, type: 'u32' },
  blockDimX: { register: 254, type: 'u32' },
  globalLane: { register: 255, type: 'u64' },
} as const satisfies Record<string, { readonly register: number; readonly type: AtlasType }>

export const CONDITIONS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'ltu', 'leu', 'gtu', 'geu'] as const
/** A comparison; those that end in u take integers as unsigned. */
export type Condition = (typeof CONDITIONS)[number]
export const SCOPES = ['thread', 'block', 'device', 'system'] as const
/** Who sees what comes before a fence. */
export type Scope = (typeof SCOPES)[number]

/**
 * A place in memory. `buffer`: so many bytes into a buffer. `phi`: a place of the boundary pool. `indirect`: a register holds the buffer's
 * handle (in shared memory, which has none: the offset), to which bytes are added. `computed`: handle and offset are in registers.
 */
export type Address =
  | { readonly kind: 'buffer'; readonly handle: bigint; readonly offset: bigint }
  | { readonly kind: 'phi'; readonly class: number; readonly page: number; readonly byte: number }
  | { readonly kind: 'indirect'; readonly base: number; readonly offset: number }
  | { readonly kind: 'computed'; readonly handle: number; readonly offset: number }

/** A type, or the name of the operand that says it. */
export type TypeOf = AtlasType | 'ty' | 'srcTy' | 'dstTy'

interface Specs {
  readonly type: { readonly kind: 'type'; readonly name: string; readonly types: readonly AtlasType[] }
  readonly condition: { readonly kind: 'condition'; readonly name: string }
  readonly scope: { readonly kind: 'scope'; readonly name: string }
  readonly register: { readonly kind: 'register'; readonly name: string; readonly role: 'in' | 'out' | 'both'; readonly type: TypeOf }
  /** the first of consecutive registers; operand `count` says how many */
  readonly registers: { readonly kind: 'registers'; readonly name: string; readonly type: TypeOf }
  readonly predicate: { readonly kind: 'predicate'; readonly name: string; readonly role: 'in' | 'out'; readonly optional?: true }
  readonly label: { readonly kind: 'label'; readonly name: string }
  readonly address: { readonly kind: 'address'; readonly name: string; readonly space: 'global' | 'shared' }
  readonly number: { readonly kind: 'number'; readonly name: string; readonly bits: 8 | 16 | 32; readonly least?: number }
  readonly long: { readonly kind: 'long'; readonly name: string; readonly most?: bigint }
  readonly float: { readonly kind: 'float'; readonly name: string }
  /** the bit pattern of a value of operand `ty` */
  readonly bits: { readonly kind: 'bits'; readonly name: string }
}
export type OperandKind = keyof Specs
export type OperandSpec = Specs[OperandKind]

/** What an instruction has for an operand of each kind. */
export interface OperandValues {
  readonly type: AtlasType
  readonly condition: Condition
  readonly scope: Scope
  readonly register: number
  readonly registers: number
  /** null where an optional one is absent */
  readonly predicate: number | null
  readonly label: string
  readonly address: Address
  readonly number: number
  readonly long: bigint
  readonly float: number
  readonly bits: bigint
}
export type OperandValue = OperandValues[OperandKind]

/** Operands that were read before, by name. */
export type Known = Readonly<Record<string, OperandValue>>

interface Kind<K extends OperandKind> {
  /** where it is in the text: part of the name, after a dot, or in the list */
  readonly place: 'name' | 'suffix' | 'list'
  /** What is wrong with a value, which may be anything. */
  wrong(value: unknown, spec: Specs[K], known: Known): string | undefined
  print(value: OperandValues[K], known: Known): string
  parse(cursor: Cursor, spec: Specs[K], known: Known): OperandValues[K]
  encode(to: ByteWriter, value: OperandValues[K]): void
  decode(from: ByteReader, known: Known): OperandValues[K]
}

const LONGEST = 2n ** 64n - 1n
const isWhole = (value: unknown, low: number, high: number): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high
const isLong = (value: unknown): value is bigint => typeof value === 'bigint' && value >= 0n && value <= LONGEST
/** Anything in words; not everything has a text. */
export const shown = (value: unknown): string => (typeof value === 'object' && value !== null ? 'an object' : String(value))
const unless = (right: boolean, complaint: string): string | undefined => (right ? undefined : complaint)
const oneOf = <const T extends string>(names: readonly T[], what: string) => ({
  wrong: (value: unknown) =>
    unless(
      names.some((name) => name === value),
      `unknown ${what} ${shown(value)}, wanted ${names.join(', ')}`,
    ),
  print: (value: T) => value,
  parse: (cursor: Cursor) => cursor.oneOf(names, what),
  encode: (to: ByteWriter, value: T) => to.u8(names.indexOf(value)),
  decode: (from: ByteReader) => from.oneOf(names, what),
})
const registerText = {
  print: (value: number) => `r${value}`,
  parse: (cursor: Cursor) => cursor.numbered('r', REGISTERS - 1, 'register'),
  encode: (to: ByteWriter, value: number) => to.u8(value),
  decode: (from: ByteReader) => from.u8(),
}
const isRegister = (value: unknown): boolean => isWhole(value, 0, REGISTERS - 1)

export const LABEL = /^[A-Za-z_][A-Za-z0-9_.]*$/

/** The type that a spec names, given the operands before it. */
export function typeOf(type: TypeOf, known: Known): AtlasType {
  if (type !== 'ty' && type !== 'srcTy' && type !== 'dstTy') return type
  const stated = known[type]
  return typeof stated === 'string' && isAtlasType(stated) ? stated : 'u8'
}

export const KINDS: { readonly [K in OperandKind]: Kind<K> } = {
  type: {
    place: 'suffix',
    ...oneOf(ALL_TYPES, 'type'),
    wrong: (value, { types }) =>
      unless(
        types.some((type) => type === value),
        `no such type ${shown(value)}, wanted ${types.join(', ')}`,
      ),
    parse: (cursor, { types }) => cursor.oneOf(types, 'type'),
  },
  condition: {
    place: 'name',
    ...oneOf(CONDITIONS, 'condition'),
    wrong: (value, _spec, { ty }) => {
      const unknown = oneOf(CONDITIONS, 'condition').wrong(value)
      const isUnsigned = typeof value === 'string' && value.endsWith('u')
      const isFloat = typeof ty === 'string' && isAtlasType(ty) && !isIntegerType(ty)
      return unknown ?? unless(!isUnsigned || !isFloat, `${shown(value)} compares integers, not ${shown(ty)}`)
    },
  },
  scope: { place: 'suffix', ...oneOf(SCOPES, 'scope') },
  register: {
    place: 'list',
    ...registerText,
    wrong: (value) => unless(isRegister(value), `no register ${shown(value)}, wanted r0 to r${REGISTERS - 1}`),
  },
  registers: {
    place: 'list',
    ...registerText,
    wrong: (value, _spec, { count }) =>
      unless(
        isWhole(value, 0, REGISTERS - 1) && value + Number(count) <= REGISTERS,
        `no ${shown(count)} registers from ${shown(value)} on, wanted r0 to r${REGISTERS - 1}`,
      ),
  },
  predicate: {
    place: 'list',
    wrong: (value, { optional }) =>
      unless(
        (optional === true && value === null) || isWhole(value, 0, PREDICATES - 1),
        `no predicate ${shown(value)}, wanted p0 to p${PREDICATES - 1}`,
      ),
    print: (value) => `p${value}`,
    parse: (cursor) => cursor.numbered('p', PREDICATES - 1, 'predicate'),
    encode: (to, value) => to.u8(value ?? 255),
    decode: (from) => {
      const value = from.u8()
      return value === 255 ? null : value
    },
  },
  label: {
    place: 'list',
    wrong: (value) => unless(typeof value === 'string' && LABEL.test(value), `no label ${shown(value)}`),
    print: (value) => `@${value}`,
    parse: (cursor) => cursor.label(),
    encode: (to, value) => to.text(value),
    decode: (from) => from.text(),
  },
  address: {
    place: 'list',
    wrong: wrongAddress,
    print: printAddress,
    parse: parseAddress,
    encode: encodeAddress,
    decode: decodeAddress,
  },
  number: {
    place: 'list',
    wrong: (value, { bits, least = 0 }) =>
      unless(isWhole(value, least, 2 ** bits - 1), `no such number ${shown(value)}, wanted ${least} to ${2 ** bits - 1}`),
    print: String,
    parse: (cursor, { bits }) => Number(cursor.integer(0n, 2n ** BigInt(bits) - 1n)),
    encode: (to, value) => to.u32(value),
    decode: (from) => from.u32(),
  },
  long: {
    place: 'list',
    wrong: (value, { most = LONGEST }) => unless(isLong(value) && value <= most, `no such number ${shown(value)}, wanted 0 to ${most}`),
    print: String,
    parse: (cursor, { most = LONGEST }) => cursor.integer(0n, most),
    encode: (to, value) => to.u64(value),
    decode: (from) => from.u64(),
  },
  float: {
    place: 'list',
    wrong: (value) => unless(typeof value === 'number' && Number.isFinite(value), `no finite number ${shown(value)}`),
    print: (value) => (Object.is(value, -0) ? '-0' : String(value)),
    parse: (cursor) => cursor.float(),
    encode: (to, value) => to.u64(toBits('f64', value)),
    decode: (from) => Number(fromBits('f64', from.u64())),
  },
  bits: {
    place: 'list',
    wrong: (value, _spec, known) => {
      const type = typeOf('ty', known)
      return unless(isLong(value) && value < 1n << BigInt(bitsOf(type)), `${shown(value)} is no bit pattern of ${type}`)
    },
    print: (bits, known) => printBits(typeOf('ty', known), bits),
    parse: (cursor, _spec, known) => parseBits(cursor, typeOf('ty', known)),
    encode: (to, value) => to.u64(value),
    decode: (from) => from.u64(),
  },
}

/** The kind of a spec, for whoever has a value of it. TypeScript cannot follow that one spec belongs to one kind. */
export function kindOf(spec: OperandSpec): Kind<OperandKind> {
  return KINDS[spec.kind]
}

/** A value of the type if its text gives the same bits again, else the bits. */
function printBits(type: AtlasType, bits: bigint): string {
  const value = fromBits(type, bits)
  const text = Object.is(value, -0) ? '-0' : String(value)
  const isPlain = typeof value === 'bigint' || (Number.isFinite(value) && toBits(type, value) === bits)
  return isPlain ? text : `0x${bits.toString(16)}`
}

function parseBits(cursor: Cursor, type: AtlasType): bigint {
  const bits = 1n << BigInt(bitsOf(type))
  if (cursor.isHexadecimal()) return cursor.integer(0n, bits - 1n)
  if (isIntegerType(type)) return toBits(type, cursor.integer(-bits / 2n, bits - 1n))
  return toBits(type, fit(type, cursor.float()))
}

function wrongAddress(value: unknown, { space }: Specs['address']): string | undefined {
  if (!isAddress(value)) return `no address ${shown(value)}`
  switch (value.kind) {
    case 'buffer':
      if (!isLong(value.handle) || !isLong(value.offset)) return 'handle and offset of a buffer are u64'
      return unless(space === 'global' || value.handle === 0n, `shared memory has no buffer ${shown(value.handle)}, wanted buf0`)
    case 'phi':
      if (space === 'shared') return 'the boundary pool is no shared memory'
      return unless(
        isWhole(value.class, 0, CLASSES - 1) && isWhole(value.page, 0, PAGES - 1) && isWhole(value.byte, 0, 255),
        `no place (${[value.class, value.page, value.byte].map(shown).join(', ')}) in the boundary pool: ` +
          `${CLASSES} classes, ${PAGES} pages, 256 bytes`,
      )
    case 'indirect':
      return unless(
        isRegister(value.base) && isWhole(value.offset, -(2 ** 31), 2 ** 31 - 1),
        `no address r${shown(value.base)} + ${shown(value.offset)}, wanted a register and an i32`,
      )
    case 'computed':
      if (space === 'shared') return 'shared memory has no handles: one register is enough'
      return unless(isRegister(value.handle) && isRegister(value.offset), `no registers r${shown(value.handle)} + r${shown(value.offset)}`)
  }
}

function isAddress(value: unknown): value is Address {
  const kind = typeof value === 'object' && value !== null && 'kind' in value ? value.kind : undefined
  return kind === 'buffer' || kind === 'phi' || kind === 'indirect' || kind === 'computed'
}

function printAddress(address: Address): string {
  switch (address.kind) {
    case 'buffer':
      return `[buf${address.handle} + ${address.offset}]`
    case 'phi':
      return `[phi(${address.class}, ${address.page}, ${address.byte})]`
    case 'indirect':
      return `[r${address.base} ${address.offset < 0 ? '-' : '+'} ${Math.abs(address.offset)}]`
    case 'computed':
      return `[r${address.handle} + r${address.offset}]`
  }
}

function parseAddress(cursor: Cursor): Address {
  cursor.expect('[')
  const address = parsePlace(cursor)
  cursor.expect(']')
  return address
}

function parsePlace(cursor: Cursor): Address {
  if (cursor.accept('phi') || cursor.accept('Φ')) {
    cursor.expect('(')
    const index = Number(cursor.integer(0n, BigInt(CLASSES - 1)))
    cursor.expect(',')
    const page = Number(cursor.integer(0n, BigInt(PAGES - 1)))
    cursor.expect(',')
    const byte = Number(cursor.integer(0n, 255n))
    cursor.expect(')')
    return { kind: 'phi', class: index, page, byte }
  }
  if (cursor.accept('buf')) {
    const handle = cursor.integer(0n, LONGEST)
    return { kind: 'buffer', handle, offset: cursor.accept('+') ? cursor.integer(0n, LONGEST) : 0n }
  }
  const base = cursor.numbered('r', REGISTERS - 1, 'register')
  if (cursor.accept('-')) return { kind: 'indirect', base, offset: -Number(cursor.integer(0n, 2n ** 31n)) }
  if (!cursor.accept('+')) return { kind: 'indirect', base, offset: 0 }
  if (cursor.peek('r')) return { kind: 'computed', handle: base, offset: cursor.numbered('r', REGISTERS - 1, 'register') }
  return { kind: 'indirect', base, offset: Number(cursor.integer(0n, 2n ** 31n - 1n)) }
}

const ADDRESS_KINDS = ['buffer', 'phi', 'indirect', 'computed'] as const satisfies readonly Address['kind'][]

function encodeAddress(to: ByteWriter, address: Address): void {
  to.u8(ADDRESS_KINDS.indexOf(address.kind))
  switch (address.kind) {
    case 'buffer':
      to.u64(address.handle)
      return to.u64(address.offset)
    case 'phi':
      to.u8(address.class)
      to.u8(address.page)
      return to.u8(address.byte)
    case 'indirect':
      to.u8(address.base)
      return to.u32(address.offset >>> 0)
    case 'computed':
      to.u8(address.handle)
      return to.u8(address.offset)
  }
}

function decodeAddress(from: ByteReader): Address {
  const kind = from.oneOf(ADDRESS_KINDS, 'address')
  switch (kind) {
    case 'buffer':
      return { kind, handle: from.u64(), offset: from.u64() }
    case 'phi':
      return { kind, class: from.u8(), page: from.u8(), byte: from.u8() }
    case 'indirect':
      return { kind, base: from.u8(), offset: from.u32() | 0 }
    case 'computed':
      return { kind, handle: from.u8(), offset: from.u8() }
  }
}
