// Loads, stores and atomics in WebAssembly. Memory may hold 8- and 16-bit integers and f16; registers hold 32 bits, or 64 of an f64, so
// loads widen and stores narrow. Where a memory begins is the emitter's business: the address is on the stack, less `offset`.

import { type DType, type Narrow, SCALAR_BYTES, type Scalar, type Storage, storageScalar, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { Node, NodeOf } from '../../ir/node.ts'
import type { AtomicKind } from '../../ir/op.ts'
import { splatOf } from '../../ir/pass/constant.ts'
import type { FunctionBody } from './body.ts'
import { decodeHalf, encodeHalf } from './half.ts'
import { type Speaker, splatConst } from './speaker.ts'

/** One access: what memory holds, how many elements of it move, how far past the address. */
export interface Access {
  readonly storage: Storage
  /** elements moved as one vector; 1 for a scalar */
  readonly width: number
  readonly offset: number
  /** every access to this memory is atomic */
  readonly atomic: boolean
}

/** An immediate offset stays below this, and every memory begins above it: so an index that wraps on its way stays right. */
export const LARGEST_OFFSET = 65536

/** How many elements an access moves, whether its memory is one of vectors or it takes several scalars at once. */
export function accessWidth(storage: Storage, width: number | undefined): number {
  return Math.max(widthOf(storage), width ?? 1)
}

/** Adds `index` elements of `bytes` to the address on the stack; returns what is left for the immediate offset. */
export function sayIndex(speaker: Speaker, index: Node, bytes: number): number {
  const { f } = speaker
  const [first, second] = index.op === 'add' ? index.src : []
  const known = splatOf(second ?? index)
  const fits = known !== undefined && known * bytes < LARGEST_OFFSET
  if (fits && second === undefined) return known * bytes
  speaker.say(fits ? (first ?? index) : index)
  if (bytes > 1) f.i32Const(Math.log2(bytes)).emit('i32.shl')
  f.emit('i32.add')
  return fits ? known * bytes : 0
}

type Held = Scalar | Narrow
const refuse = (what: string, { storage, width }: Access): IngotError =>
  new IngotError('unsupported', `WebAssembly cannot ${what} ${width} elements of ${storage} at once`, {
    op: 'emitWasm',
    hint: 'lower the kernel first',
  })

/** Takes the address and leaves the value, widened. */
export function load(speaker: Speaker, access: Access): void {
  const held = storageScalar(access.storage)
  if (access.width === 1) return loadOne(speaker, held, access)
  if (access.width === 4 && held !== 'f64') loadFour(speaker.f, held, access)
  else if (access.width === 2) loadTwo(speaker.f, held, access)
  else throw refuse('load', access)
  return held === 'f16' ? decodeHalf(speaker, true) : undefined
}

/** Takes the address and leaves one element in all lanes: in one step where the element is a word or two. */
export function loadSplat(speaker: Speaker, access: Access): void {
  const held = storageScalar(access.storage)
  if (held === 'f64') return void speaker.f.emit('v128.load64_splat', { offset: access.offset })
  if (SCALAR_BYTES[held] === 4 && !(access.atomic && speaker.features.threads)) {
    return void speaker.f.emit('v128.load32_splat', { offset: access.offset })
  }
  loadOne(speaker, held, access)
  speaker.f.emit(held === 'f32' || held === 'f16' ? 'f32x4.splat' : 'i32x4.splat')
}

function loadOne(speaker: Speaker, held: Held, { offset, atomic }: Access): void {
  const { f, features } = speaker
  const at = { offset }
  switch (held) {
    case 'f32':
      return void f.emit('f32.load', at)
    case 'f64':
      return void f.emit('f64.load', at)
    case 'i8':
      return void f.emit('i32.load8_s', at)
    case 'u8':
      return void f.emit('i32.load8_u', at)
    case 'i16':
      return void f.emit('i32.load16_s', at)
    case 'u16':
      return void f.emit('i32.load16_u', at)
    case 'f16':
      f.emit('i32.load16_u', at)
      return decodeHalf(speaker, false)
    default:
      return void f.emit(atomic && features.threads ? 'i32.atomic.load' : 'i32.load', at)
  }
}

function loadFour(f: FunctionBody, held: Held, { offset, storage }: Access): void {
  switch (held) {
    case 'i8':
      return void f.emit('v128.load32_zero', { offset, align: 1 }).emit('i16x8.extend_low_i8x16_s').emit('i32x4.extend_low_i16x8_s')
    case 'u8':
      return void f.emit('v128.load32_zero', { offset, align: 1 }).emit('i16x8.extend_low_i8x16_u').emit('i32x4.extend_low_i16x8_u')
    case 'i16':
      return void f.emit('v128.load16x4_s', { offset, align: 2 })
    case 'u16':
    case 'f16':
      return void f.emit('v128.load16x4_u', { offset, align: 2 })
    default:
      return void f.emit('v128.load', { offset, align: widthOf(storage) === 4 ? 16 : 4 })
  }
}

function loadTwo(f: FunctionBody, held: Held, { offset, storage }: Access): void {
  switch (held) {
    case 'f64':
      return void f.emit('v128.load', { offset, align: widthOf(storage) === 2 ? 16 : 8 })
    case 'i8':
      return void f
        .emit('i32.load16_u', { offset, align: 1 })
        .emit('i32x4.splat')
        .emit('i16x8.extend_low_i8x16_s')
        .emit('i32x4.extend_low_i16x8_s')
    case 'u8':
      return void f
        .emit('i32.load16_u', { offset, align: 1 })
        .emit('i32x4.splat')
        .emit('i16x8.extend_low_i8x16_u')
        .emit('i32x4.extend_low_i16x8_u')
    case 'i16':
      return void f.emit('v128.load32_zero', { offset, align: 2 }).emit('i32x4.extend_low_i16x8_s')
    case 'u16':
    case 'f16':
      return void f.emit('v128.load32_zero', { offset, align: 2 }).emit('i32x4.extend_low_i16x8_u')
    default:
      return void f.emit('v128.load64_zero', { offset, align: 4 })
  }
}

/** Takes the address and the value, narrowed on its way. */
export function store(speaker: Speaker, access: Access): void {
  const { f } = speaker
  const held = storageScalar(access.storage)
  if (access.width === 1) return storeOne(speaker, held, access)
  const { offset, width } = access
  const bytes = SCALAR_BYTES[held]
  if ((width !== 2 && width !== 4) || bytes * width > 16) throw refuse('store', access)
  if (held === 'f16') encodeHalf(speaker, true)
  if (bytes < 4) gatherLow(f, bytes)
  switch (bytes * width) {
    case 16:
      return void f.emit('v128.store', { offset, align: widthOf(access.storage) === width ? 16 : bytes })
    case 8:
      return void f.emit('v128.store64_lane', 0, { offset, align: Math.min(bytes, 4) })
    case 4:
      return void f.emit('v128.store32_lane', 0, { offset, align: bytes })
    default:
      return void f.emit('v128.store16_lane', 0, { offset, align: 1 })
  }
}

function storeOne(speaker: Speaker, held: Held, { offset, atomic }: Access): void {
  const { f, features } = speaker
  const at = { offset }
  switch (held) {
    case 'f32':
      return void f.emit('f32.store', at)
    case 'f64':
      return void f.emit('f64.store', at)
    case 'i8':
    case 'u8':
      return void f.emit('i32.store8', at)
    case 'i16':
    case 'u16':
      return void f.emit('i32.store16', at)
    case 'f16':
      encodeHalf(speaker, false)
      return void f.emit('i32.store16', at)
    default:
      return void f.emit(atomic && features.threads ? 'i32.atomic.store' : 'i32.store', at)
  }
}

/** The low one or two bytes of each 32-bit lane, side by side. */
function gatherLow(f: FunctionBody, bytes: number): void {
  splatConst(f, 0)
  f.emit(
    'i8x16.shuffle',
    Array.from({ length: 16 }, (_, at) => (at < 4 * bytes ? 4 * Math.floor(at / bytes) + (at % bytes) : 16)),
  )
}

const rmw = {
  add: 'i32.atomic.rmw.add',
  and: 'i32.atomic.rmw.and',
  or: 'i32.atomic.rmw.or',
  xor: 'i32.atomic.rmw.xor',
  exchange: 'i32.atomic.rmw.xchg',
} as const
const plain = { add: 'i32.add', and: 'i32.and', or: 'i32.or', xor: 'i32.xor' } as const

/** Takes the address, says the value itself, and leaves what was there before. */
export function atomic(speaker: Speaker, { dtype, src, arg: { kind } }: NodeOf<'atomic'>, { offset }: Access): void {
  const { f, features } = speaker
  const [, value] = src
  if (features.threads && kind !== 'min' && kind !== 'max') {
    speaker.say(value)
    f.emit(rmw[kind], { offset })
    return
  }
  speaker.lend('i32', (address) =>
    speaker.lend('i32', (given) =>
      speaker.lend('i32', (old) => {
        f.localSet(address)
        speaker.say(value)
        f.localSet(given)
        if (features.threads) {
          f.loop((again) => {
            f.localGet(address).localGet(address).emit('i32.atomic.load', { offset }).localTee(old)
            combine(f, kind, dtype, old, given)
            f.emit('i32.atomic.rmw.cmpxchg', { offset }).localGet(old).emit('i32.ne').brIf(again)
          })
          f.localGet(old)
        } else {
          f.localGet(address).localGet(address).emit('i32.load', { offset }).localSet(old)
          combine(f, kind, dtype, old, given)
          f.emit('i32.store', { offset }).localGet(old)
        }
      }),
    ),
  )
}

/** Leaves what memory holds afterwards. */
function combine(f: FunctionBody, kind: AtomicKind, dtype: DType, old: number, given: number): void {
  if (kind === 'exchange') return void f.localGet(given)
  f.localGet(old).localGet(given)
  if (kind !== 'min' && kind !== 'max') return void f.emit(plain[kind])
  const less = dtype === 'i32' ? 'i32.lt_s' : 'i32.lt_u'
  const more = dtype === 'i32' ? 'i32.gt_s' : 'i32.gt_u'
  return void f
    .localGet(old)
    .localGet(given)
    .emit(kind === 'min' ? less : more)
    .emit('select')
}
