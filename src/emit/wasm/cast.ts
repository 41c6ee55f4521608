// Conversions between types in WebAssembly, and between masks of 64 bits, which comparisons of f64 give, and of 32. Part of the table in
// spell.ts.

import type { NodeWith } from '../../ir/node.ts'
import { type Bare, type Shape, type Speaker, refuse, shapeOf, splatConst } from './speaker.ts'

/** A mask of two lanes of 64 bits becomes one of words. */
export function narrowMask({ f }: Speaker): void {
  f.v128Const(
    'i8x16',
    [0, 8, 0, 8].flatMap((byte) => [byte, byte + 1, byte + 2, byte + 3]),
  ).emit('i8x16.swizzle')
}

/** The words of a mask become two lanes of 64 bits. */
export function widenMask({ f }: Speaker): void {
  f.emit('i64x2.extend_low_i32x4_s')
}

const FLOAT_ONE = 0x3f800000
const casts: Partial<Record<`${Shape}>${Shape}`, readonly Bare[]>> = {
  'f32>i32': ['i32.trunc_sat_f32_s'],
  'f32>u32': ['i32.trunc_sat_f32_u'],
  'i32>f32': ['f32.convert_i32_s'],
  'u32>f32': ['f32.convert_i32_u'],
  'f32x>i32x': ['i32x4.trunc_sat_f32x4_s'],
  'f32x>u32x': ['i32x4.trunc_sat_f32x4_u'],
  'i32x>f32x': ['f32x4.convert_i32x4_s'],
  'u32x>f32x': ['f32x4.convert_i32x4_u'],
  'i32>u32': [],
  'u32>i32': [],
  'i32x>u32x': [],
  'u32x>i32x': [],
  'bool>i32': [],
  'bool>u32': [],
  'bool>f32': ['f32.convert_i32_u'],
  'f64>i32': ['i32.trunc_sat_f64_s'],
  'f64>u32': ['i32.trunc_sat_f64_u'],
  'f64>f32': ['f32.demote_f64'],
  'i32>f64': ['f64.convert_i32_s'],
  'u32>f64': ['f64.convert_i32_u'],
  'f32>f64': ['f64.promote_f32'],
  'bool>f64': ['f64.convert_i32_u'],
  'f64x>i32x': ['i32x4.trunc_sat_f64x2_s_zero'],
  'f64x>u32x': ['i32x4.trunc_sat_f64x2_u_zero'],
  'f64x>f32x': ['f32x4.demote_f64x2_zero'],
  'i32x>f64x': ['f64x2.convert_low_i32x4_s'],
  'u32x>f64x': ['f64x2.convert_low_i32x4_u'],
  'f32x>f64x': ['f64x2.promote_low_f32x4'],
}

export function cast(speaker: Speaker, node: NodeWith<1>): void {
  const { f } = speaker
  const from = shapeOf(node.src[0].dtype)
  const to = shapeOf(node.dtype)
  speaker.say(node.src[0])
  const names = from === to ? [] : casts[`${from}>${to}`]
  if (names !== undefined) for (const name of names) f.emit(name)
  else if (from === 'boolx' && to === 'f64x') {
    widenMask(speaker)
    f.v128Const('f64x2', [1, 1]).emit('v128.and')
  } else if (from === 'boolx') {
    splatConst(f, to === 'f32x' ? FLOAT_ONE : 1)
    f.emit('v128.and')
  } else if (to === 'bool') {
    if (from === 'f32') f.f32Const(0).emit('f32.ne')
    else if (from === 'f64') f.f64Const(0).emit('f64.ne')
    else f.i32Const(0).emit('i32.ne')
  } else if (to === 'boolx') {
    splatConst(f, 0)
    f.emit(from === 'f32x' ? 'f32x4.ne' : from === 'f64x' ? 'f64x2.ne' : 'i32x4.ne')
    if (from === 'f64x') narrowMask(speaker)
  } else refuse(node)
}
