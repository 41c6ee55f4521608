// How vectors are made and taken apart in WebAssembly, and the ops on packed bytes and halves: all of them are SIMD, also
// when the operand is a single 32-bit word. Part of the table in spell.ts.

import { type DType, scalarOf, widthOf } from '../../base/dtype.ts'
import type { Node, NodeOf, NodeWith, SomeNode } from '../../ir/node.ts'
import { splatOf } from '../../ir/pass/constant.ts'
import type { FunctionBody } from './body.ts'
import { decodeHalf, encodeHalf } from './half.ts'
import { type Speaker, type Spelling, type Spellings, shuffleWords, splatConst } from './speaker.ts'

/** A bool becomes a mask: all bits or none. */
function sayLane(speaker: Speaker, node: Node): void {
  if (node.dtype !== 'bool') return speaker.say(node)
  speaker.f.i32Const(0)
  speaker.say(node)
  return void speaker.f.emit('i32.sub')
}

/** All lanes of a constant vector. */
function sayConstants(speaker: Speaker, node: SomeNode, values: readonly number[]): void {
  const four = [0, 1, 2, 3].map((lane) => values[lane % values.length] ?? 0)
  const scalar = scalarOf(node.dtype)
  if (scalar === 'f64') speaker.f.v128Const('f64x2', four.slice(0, 2))
  else if (scalar === 'f32') speaker.f.v128Const('f32x4', four)
  else speaker.f.v128Const('i32x4', scalar === 'bool' ? four.map((value) => -value) : four)
}

/** How lanes are put together and taken out, by what they are. */
const LANES = {
  f32: { splat: 'f32x4.splat', replace: 'f32x4.replace_lane', extract: 'f32x4.extract_lane' },
  f64: { splat: 'f64x2.splat', replace: 'f64x2.replace_lane', extract: 'f64x2.extract_lane' },
  word: { splat: 'i32x4.splat', replace: 'i32x4.replace_lane', extract: 'i32x4.extract_lane' },
} as const

export function lanesOf(dtype: DType): (typeof LANES)[keyof typeof LANES] {
  const scalar = scalarOf(dtype)
  return LANES[scalar === 'f32' || scalar === 'f64' ? scalar : 'word']
}

function splat(speaker: Speaker, node: NodeOf<'splat'>): void {
  const value = splatOf(node)
  if (value !== undefined) return sayConstants(speaker, node, [value])
  const [one] = node.src
  if (one.op === 'extract' && one.dtype !== 'bool' && one.dtype !== 'f64') {
    speaker.say(one.src[0])
    return repeatLane(speaker, one.arg)
  }
  sayLane(speaker, one)
  return void speaker.f.emit(lanesOf(node.dtype).splat)
}

/** One lane of the vector on the stack in all lanes: a shuffle, which never leaves the vector registers. */
function repeatLane(speaker: Speaker, lane: number): void {
  speaker.lend('v128', (all) => {
    speaker.f.localTee(all).localGet(all)
    shuffleWords(speaker.f, [lane, lane, lane, lane])
  })
}

function vec(speaker: Speaker, node: NodeOf<'vec'>): void {
  const values = node.src.map(splatOf)
  if (values.every((value) => value !== undefined)) return sayConstants(speaker, node, values)
  const lanes = lanesOf(node.dtype)
  return node.src.forEach((each, lane) => {
    sayLane(speaker, each)
    if (lane === 0) speaker.f.emit(lanes.splat)
    else speaker.f.emit(lanes.replace, lane)
  })
}

function extract(speaker: Speaker, node: NodeOf<'extract'>): void {
  speaker.say(node.src[0])
  takeLane(speaker, node, node.arg)
}

function takeLane({ f }: Speaker, { dtype }: SomeNode, lane: number): void {
  f.emit(lanesOf(dtype).extract, lane)
  if (dtype === 'bool') f.i32Const(1).emit('i32.and')
}

function slice(speaker: Speaker, node: NodeOf<'slice'>): void {
  const from = node.arg
  speaker.say(node.src[0])
  if (from === 0) return
  splatConst(speaker.f, 0)
  shuffleWords(speaker.f, [from, from + 1, 4, 4])
}

function join(speaker: Speaker, node: NodeWith<2>): void {
  speaker.say(node.src[0])
  speaker.say(node.src[1])
  shuffleWords(speaker.f, [0, 1, 4, 5])
}

function zip(speaker: Speaker, node: NodeOf<'zip'>): void {
  speaker.say(node.src[0])
  speaker.say(node.src[1])
  const first = (node.arg * widthOf(node.dtype)) / 2
  if (node.dtype === 'f64x2') shuffleWords(speaker.f, [2 * first, 2 * first + 1, 2 * first + 4, 2 * first + 5])
  else shuffleWords(speaker.f, [first, 4 + first, first + 1, 5 + first])
}

/** From the first lane to the last, like the language: sums of floats depend on the order. */
function hsum(speaker: Speaker, node: NodeWith<1>): void {
  const { f } = speaker
  const whole = node.src[0]
  speaker.lend('v128', (all) => {
    speaker.say(whole)
    f.localSet(all)
    for (let lane = 0; lane < widthOf(whole.dtype); lane++) {
      f.localGet(all)
      takeLane(speaker, node, lane)
      if (lane > 0) f.emit(node.dtype === 'f32' || node.dtype === 'f64' ? `${node.dtype}.add` : 'i32.add')
    }
  })
}

function hmax(speaker: Speaker, node: NodeWith<1>): void {
  const { f } = speaker
  const whole = node.src[0]
  const isDouble = node.dtype === 'f64'
  const max = isDouble ? 'f64x2.pmax' : node.dtype === 'f32' ? 'f32x4.pmax' : node.dtype === 'i32' ? 'i32x4.max_s' : 'i32x4.max_u'
  speaker.lend('v128', (all) => {
    speaker.say(whole)
    f.localSet(all)
    f.localGet(all)
    for (let lane = 1; lane < widthOf(whole.dtype); lane++) {
      f.localGet(all).localGet(all)
      shuffleWords(f, isDouble ? [2, 3, 2, 3] : [lane, lane, lane, lane])
      f.emit(max)
    }
    takeLane(speaker, node, 0)
  })
}

/** An operand of one or more packed words as a vector. */
function sayWords(speaker: Speaker, node: Node): void {
  speaker.say(node)
  if (widthOf(node.dtype) === 1) speaker.f.emit('i32x4.splat')
}

/** The result of an op that was computed as a vector. */
function giveWords({ f }: Speaker, { dtype }: SomeNode): void {
  if (widthOf(dtype) === 1) f.emit('i32x4.extract_lane', 0)
}

/** Places of bytes that `swizzle` makes zero. */
const ZERO = 128

/** Four bytes of a vector's lane, each `times` in a 32-bit lane with zeros above. */
function sayLaneBytes(speaker: Speaker, { src, arg }: NodeOf<'extract'>, times: 1 | 2): void {
  speaker.say(src[0])
  const first = 4 * arg
  const places = [0, 1, 2, 3].flatMap((byte) => [first + byte, ZERO, times === 2 ? first + byte : ZERO, ZERO])
  speaker.f.v128Const('i8x16', places).emit('i8x16.swizzle')
}

/** A value of 16 bits in both halves of its lane. */
export function sayTwice(speaker: Speaker, node: Node): void {
  const { f } = speaker
  const bytes = node.op === 'bitcast' ? node.src[0] : node
  if (bytes.op === 'unpackU8' && bytes.src[0].op === 'extract') return sayLaneBytes(speaker, bytes.src[0], 2)
  const byte = byteOf(bytes)
  if (byte === undefined) {
    return speaker.lend('v128', (one) => {
      speaker.say(node)
      f.localTee(one).i32Const(16).emit('i32x4.shl').localGet(one)
      splatConst(f, 0x0000ffff)
      f.emit('v128.and').emit('v128.or')
    })
  }
  const { of, at, signed } = byte
  speaker.say(of)
  // a signed byte goes to the top of its half, and comes back with its sign
  const pair = (lane: number): number[] => (signed ? [ZERO, 4 * lane + at] : [4 * lane + at, ZERO])
  const places = [0, 1, 2, 3].flatMap((lane) => [...pair(lane), ...pair(lane)])
  f.v128Const('i8x16', places).emit('i8x16.swizzle')
  return signed ? void f.i32Const(8).emit('i16x8.shr_s') : undefined
}

/** A value that is byte `at` of each lane of a vector, if it is written as one. */
function byteOf(node: Node): { of: Node; at: number; signed: boolean } | undefined {
  const [value, count] = node.src
  if (value === undefined || count === undefined) return undefined
  if (node.op === 'and' && splatOf(count) === 255) {
    if (value.op !== 'shr') return { of: value, at: 0, signed: false }
    const bits = splatOf(value.src[1])
    return bits === undefined || bits % 8 !== 0 ? undefined : { of: value.src[0], at: bits / 8, signed: false }
  }
  if (node.op !== 'shr' || scalarOf(node.dtype) !== 'i32' || splatOf(count) !== 24) return undefined
  const word = value.op === 'bitcast' ? value.src[0] : value
  const bits = word.op === 'shl' ? splatOf(word.src[1]) : undefined
  return word.op === 'shl' && bits !== undefined && bits % 8 === 0
    ? { of: word.src[0], at: 3 - bits / 8, signed: true }
    : { of: word, at: 3, signed: true }
}

const unpack8 =
  (signed: boolean): Spelling =>
  (speaker, node) => {
    const [word] = node.src
    if (!signed && word.op === 'extract') return sayLaneBytes(speaker, word, 1)
    sayWords(speaker, word)
    if (signed) speaker.f.emit('i16x8.extend_low_i8x16_s').emit('i32x4.extend_low_i16x8_s')
    else speaker.f.emit('i16x8.extend_low_i8x16_u').emit('i32x4.extend_low_i16x8_u')
  }

const LOW_BYTES = Array.from({ length: 16 }, (_, at) => 4 * (at % 4))

function packI8(speaker: Speaker, node: NodeWith<1>): void {
  speaker.say(node.src[0])
  splatConst(speaker.f, 0)
  speaker.f.emit('i8x16.shuffle', LOW_BYTES).emit('i32x4.extract_lane', 0)
}

function unpackF16(speaker: Speaker, node: NodeWith<1>): void {
  sayWords(speaker, node.src[0])
  speaker.f.emit('i32x4.extend_low_i16x8_u')
  decodeHalf(speaker, true)
}

function packF16(speaker: Speaker, node: NodeWith<1>): void {
  speaker.say(node.src[0])
  encodeHalf(speaker, true)
  splatConst(speaker.f, 0)
  speaker.f.emit('i16x8.narrow_i32x4_u').emit('i32x4.extract_lane', 0)
}

function lookup16(speaker: Speaker, node: NodeOf<'lookup16'>): void {
  speaker.f.v128Const('i8x16', node.arg)
  sayWords(speaker, node.src[0])
  speaker.f.emit('i8x16.swizzle')
  giveWords(speaker, node)
}

type Sign = 'i8' | 'u8'

/** Even and odd bytes widened to 16 bits where they are; the pairs that dot_i16x8 adds then are halves of one word's four. */
function sayBytes(speaker: Speaker, local: number, sign: Sign, odd: boolean): void {
  const { f } = speaker
  f.localGet(local)
  if (sign === 'u8') {
    if (odd) f.i32Const(8).emit('i16x8.shr_u')
    else {
      splatConst(f, 0x00ff00ff)
      f.emit('v128.and')
    }
    return
  }
  if (!odd) f.i32Const(8).emit('i16x8.shl')
  f.i32Const(8).emit('i16x8.shr_s')
}

const dot =
  (sign: Sign): Spelling<3> =>
  (speaker, node) => {
    const { f } = speaker
    const [quants, others, sum] = node.src
    // One lane of a vector for all: its bytes are widened first, once for all of its lanes.
    const lane = others.op === 'splat' && others.src[0].op === 'extract' ? others.src[0] : undefined
    speaker.lend('v128', (a) =>
      speaker.lend('v128', (b) => {
        sayWords(speaker, sum)
        sayWords(speaker, quants)
        f.localSet(a)
        sayWords(speaker, lane === undefined ? others : lane.src[0])
        f.localSet(b)
        for (const odd of [false, true]) {
          sayBytes(speaker, a, sign, odd)
          sayBytes(speaker, b, 'i8', odd)
          if (lane !== undefined) repeatLane(speaker, lane.arg)
          f.emit('i32x4.dot_i16x8_s').emit('i32x4.add')
        }
        giveWords(speaker, node)
      }),
    )
  }

/** Relaxed SIMD has this very product, signed operand first. Its sum in one step is wrong in some engines (features.ts). */
const dotU7: Spelling<3> = (speaker, node) => {
  const { f, features } = speaker
  if (!features.relaxed) return dot('u8')(speaker, node)
  sayWords(speaker, node.src[1])
  sayWords(speaker, node.src[0])
  if (!features.relaxedDot) f.emit('i16x8.relaxed_dot_i8x16_i7x16_s').emit('i32x4.extadd_pairwise_i16x8_s')
  sayWords(speaker, node.src[2])
  f.emit(features.relaxedDot ? 'i32x4.relaxed_dot_i8x16_i7x16_add_s' : 'i32x4.add')
  return giveWords(speaker, node)
}

/** The two sums of 16 bits in each lane become one of 32. A product with ones, since V8 makes `extadd_pairwise` of three instructions. */
export function addPairs(f: FunctionBody): void {
  splatConst(f, 0x00010001)
  f.emit('i32x4.dot_i16x8_s')
}

export const vectorSpellings = {
  splat,
  vec,
  extract,
  slice,
  join,
  zip,
  hsum,
  hmax,
  unpackU8: unpack8(false),
  unpackI8: unpack8(true),
  packI8,
  unpackF16,
  packF16,
  lookup16,
  dotI8: dot('i8'),
  dotU8I8: dot('u8'),
  dotU7I8: dotU7,
} as const satisfies Spellings
