// f16 in software: from the 16 bits to f32 and back, for one value or four at once with the same steps.
// Exact to f32 for every f16; rounds to nearest even on the way back, and every NaN becomes 0x7e00. Knows no memory.

import type { FunctionBody } from './body.ts'
import type { ValType } from './opcode.ts'
import { type Speaker, splatConst } from './speaker.ts'

/** Integer steps on one i32 or on the four lanes of a v128. */
class Bits {
  readonly f: FunctionBody
  readonly type: ValType
  readonly #four: boolean

  constructor(f: FunctionBody, four: boolean) {
    this.f = f
    this.type = four ? 'v128' : 'i32'
    this.#four = four
  }

  bits(value: number): this {
    if (this.#four) splatConst(this.f, value)
    else this.f.i32Const(value)
    return this
  }
  get(local: number): this {
    this.f.localGet(local)
    return this
  }
  tee(local: number): this {
    this.f.localTee(local)
    return this
  }
  and(value: number): this {
    this.bits(value).f.emit(this.#four ? 'v128.and' : 'i32.and')
    return this
  }
  or(): this {
    this.f.emit(this.#four ? 'v128.or' : 'i32.or')
    return this
  }
  add(): this {
    this.f.emit(this.#four ? 'i32x4.add' : 'i32.add')
    return this
  }
  shl(count: number): this {
    this.f.i32Const(count).emit(this.#four ? 'i32x4.shl' : 'i32.shl')
    return this
  }
  shr(count: number): this {
    this.f.i32Const(count).emit(this.#four ? 'i32x4.shr_u' : 'i32.shr_u')
    return this
  }
  /** Compares numbers below 2^31. */
  gt(): this {
    this.f.emit(this.#four ? 'i32x4.gt_s' : 'i32.gt_s')
    return this
  }
  /** Takes a, b and a condition. */
  choose(): this {
    this.f.emit(this.#four ? 'v128.bitselect' : 'select')
    return this
  }
  mulFloat(bits: number): this {
    return this.#float(bits, true)
  }
  addFloat(bits: number): this {
    return this.#float(bits, false)
  }
  toFloat(): this {
    if (!this.#four) this.f.emit('f32.reinterpret_i32')
    return this
  }
  toBits(): this {
    if (!this.#four) this.f.emit('i32.reinterpret_f32')
    return this
  }

  #float(bits: number, multiply: boolean): this {
    this.toFloat().bits(bits).toFloat()
    this.f.emit(this.#four ? (multiply ? 'f32x4.mul' : 'f32x4.add') : multiply ? 'f32.mul' : 'f32.add')
    return this.toBits()
  }
}

const TWO_TO_112 = 0x77800000
const HALF = 0x3f000000
const INFINITY = 0x7f800000

/** 16 bits on the stack, in an i32 or in four lanes, become f32. */
export function decodeHalf(speaker: Speaker, four: boolean): void {
  const s = new Bits(speaker.f, four)
  speaker.lend(s.type, (all) =>
    speaker.lend(s.type, (size) => {
      // The exponent moves to its new place and is 112 too small, also for subnormals, which are exact f32 subnormals here.
      s.tee(all).and(0x7fff).tee(size).shl(13).mulFloat(TWO_TO_112)
      s.bits(INFINITY).bits(0).get(size).bits(0x7bff).gt().choose().or()
      s.get(all).and(0x8000).shl(16).or().toFloat()
    }),
  )
}

/** An f32, or four, become 16 bits in an i32 or in four lanes. */
export function encodeHalf(speaker: Speaker, four: boolean): void {
  const s = new Bits(speaker.f, four)
  speaker.lend(s.type, (all) =>
    speaker.lend(s.type, (size) => {
      s.toBits().tee(all).and(0x7fffffff)
      speaker.f.localSet(size)
      // Below 2^-14: adding 0.5 leaves the multiples of 2^-24, rounded, in the low bits.
      s.get(size).addFloat(HALF).bits(-HALF).add()
      // Else: exponent less 112, and the 13 lost bits rounded to even.
      s.get(size)
        .bits(0xfff - (112 << 23))
        .add()
        .get(size)
        .shr(13)
        .and(1)
        .add()
        .shr(13)
      s.bits(0x38800000).get(size).gt().choose()
      speaker.lend(s.type, (result) => {
        speaker.f.localSet(result)
        s.bits(0x7c00).get(result).get(size).bits(0x477fffff).gt().choose()
        s.get(all).shr(16).and(0x8000).or()
        speaker.f.localSet(result)
        s.bits(0x7e00).get(result).get(size).bits(INFINITY).gt().choose()
      })
    }),
  )
}
