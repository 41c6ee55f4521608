// Every WebAssembly instruction the assembler can say, by its text name: one table, grouped by shape.
// Covers the MVP, sign extension, saturating truncation, bulk memory, SIMD, relaxed SIMD and threads.
// Knows nothing of modules, kernels or the IR. Invariant: a row is all that encoding, checking and printing need,
// so a new instruction is one entry here.

export type ValType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128'

/** What follows an opcode in the code, as data. */
export type Immediate =
  | 'none'
  | 'zero' // `width` reserved zero bytes (memory or table 0)
  | 'segment' // a data or element segment, then `width` zero bytes
  | 'mem' // alignment and offset
  | 'lane'
  | 'memlane'
  | 'shuffle' // 16 lane numbers
  | 'local'
  | 'global'
  | 'func'
  | 'indirect' // a type, then table 0
  | 'label'
  | 'labels'
  | 'block' // a result type
  | 'const.i32'
  | 'const.i64'
  | 'const.f32'
  | 'const.f64'
  | 'const.v128'

export interface Opcode<I extends Immediate = Immediate> {
  readonly name: string
  /** 0xfc (bulk, saturating), 0xfd (SIMD) or 0xfe (threads); then `code` is a LEB128 number */
  readonly prefix?: number
  readonly code: number
  readonly immediate: I
  readonly pops: readonly ValType[]
  readonly pushes: readonly ValType[]
  /** true when pops and pushes depend on the immediate or the stack, and the table cannot say them */
  readonly special: boolean
  /** mem, memlane: bytes touched; lane: number of lanes; zero, segment: number of zero bytes */
  readonly width: number
}

type Codes = Readonly<Record<string, number>>
type Rows<I extends Immediate, C extends Codes> = { readonly [N in keyof C & string]: Opcode<I> }

/** A signature `ii:f` takes two i32 and gives an f32; i i32, l i64, f f32, d f64, v v128. */
const letters: Readonly<Record<string, ValType>> = { i: 'i32', l: 'i64', f: 'f32', d: 'f64', v: 'v128' }
const spell = (side = ''): ValType[] => Array.from(side).flatMap((letter) => letters[letter] ?? [])

function rows<I extends Immediate, const C extends Codes>(
  prefix: number | undefined,
  immediate: I,
  signature: string,
  width: number,
  codes: C,
): Rows<I, C> {
  const [taken, given] = signature.split(':')
  const shape = { immediate, pops: spell(taken), pushes: spell(given), special: signature === '*', width }
  const start = prefix === undefined ? {} : { prefix }
  const entries = Object.entries(codes).map(([name, code]) => [name, { name, ...start, code, ...shape }])
  return Object.fromEntries(entries) as Rows<I, C>
}

const MISC = 0xfc
const SIMD = 0xfd
const THREADS = 0xfe
const special = <I extends Immediate, const C extends Codes>(immediate: I, codes: C) => rows(undefined, immediate, '*', 0, codes)
const plain = <const C extends Codes>(signature: string, codes: C) => rows(undefined, 'none', signature, 0, codes)
const memory = <const C extends Codes>(signature: string, bytes: number, codes: C) => rows(undefined, 'mem', signature, bytes, codes)
const constant = <I extends Immediate, const C extends Codes>(immediate: I, gives: string, codes: C) =>
  rows(immediate === 'const.v128' ? SIMD : undefined, immediate, `:${gives}`, 0, codes)
const misc = <const C extends Codes>(signature: string, codes: C) => rows(MISC, 'none', signature, 0, codes)
const simd = <const C extends Codes>(signature: string, codes: C) => rows(SIMD, 'none', signature, 0, codes)
const lane = <const C extends Codes>(signature: string, lanes: number, codes: C) => rows(SIMD, 'lane', signature, lanes, codes)
const simdMemory = <const C extends Codes>(signature: string, bytes: number, codes: C) => rows(SIMD, 'mem', signature, bytes, codes)
const memoryLane = <const C extends Codes>(signature: string, bytes: number, codes: C) => rows(SIMD, 'memlane', signature, bytes, codes)
const atomic = <const C extends Codes>(signature: string, bytes: number, codes: C) => rows(THREADS, 'mem', signature, bytes, codes)

const control = {
  ...special('none', { unreachable: 0x00, nop: 0x01, else: 0x05, end: 0x0b, return: 0x0f }),
  ...special('none', { drop: 0x1a, select: 0x1b }),
  ...special('block', { block: 0x02, loop: 0x03, if: 0x04 }),
  ...special('label', { br: 0x0c, br_if: 0x0d }),
  ...special('labels', { br_table: 0x0e }),
  ...special('func', { call: 0x10 }),
  ...special('indirect', { call_indirect: 0x11 }),
  ...special('local', { 'local.get': 0x20, 'local.set': 0x21, 'local.tee': 0x22 }),
  ...special('global', { 'global.get': 0x23, 'global.set': 0x24 }),
} as const

const scalarMemory = {
  ...memory('i:i', 4, { 'i32.load': 0x28 }),
  ...memory('i:l', 8, { 'i64.load': 0x29 }),
  ...memory('i:f', 4, { 'f32.load': 0x2a }),
  ...memory('i:d', 8, { 'f64.load': 0x2b }),
  ...memory('i:i', 1, { 'i32.load8_s': 0x2c, 'i32.load8_u': 0x2d }),
  ...memory('i:i', 2, { 'i32.load16_s': 0x2e, 'i32.load16_u': 0x2f }),
  ...memory('i:l', 1, { 'i64.load8_s': 0x30, 'i64.load8_u': 0x31 }),
  ...memory('i:l', 2, { 'i64.load16_s': 0x32, 'i64.load16_u': 0x33 }),
  ...memory('i:l', 4, { 'i64.load32_s': 0x34, 'i64.load32_u': 0x35 }),
  ...memory('ii:', 4, { 'i32.store': 0x36 }),
  ...memory('il:', 8, { 'i64.store': 0x37 }),
  ...memory('if:', 4, { 'f32.store': 0x38 }),
  ...memory('id:', 8, { 'f64.store': 0x39 }),
  ...memory('ii:', 1, { 'i32.store8': 0x3a }),
  ...memory('ii:', 2, { 'i32.store16': 0x3b }),
  ...memory('il:', 1, { 'i64.store8': 0x3c }),
  ...memory('il:', 2, { 'i64.store16': 0x3d }),
  ...memory('il:', 4, { 'i64.store32': 0x3e }),
  ...rows(undefined, 'zero', ':i', 1, { 'memory.size': 0x3f }),
  ...rows(undefined, 'zero', 'i:i', 1, { 'memory.grow': 0x40 }),
  ...rows(MISC, 'segment', 'iii:', 1, { 'memory.init': 8, 'table.init': 12 }),
  ...rows(MISC, 'segment', ':', 0, { 'data.drop': 9, 'elem.drop': 13 }),
  ...rows(MISC, 'zero', 'iii:', 2, { 'memory.copy': 10, 'table.copy': 14 }),
  ...rows(MISC, 'zero', 'iii:', 1, { 'memory.fill': 11 }),
} as const

const scalar = {
  ...constant('const.i32', 'i', { 'i32.const': 0x41 }),
  ...constant('const.i64', 'l', { 'i64.const': 0x42 }),
  ...constant('const.f32', 'f', { 'f32.const': 0x43 }),
  ...constant('const.f64', 'd', { 'f64.const': 0x44 }),
  ...plain('i:i', { 'i32.eqz': 0x45 }),
  ...plain('ii:i', { 'i32.eq': 0x46, 'i32.ne': 0x47, 'i32.lt_s': 0x48, 'i32.lt_u': 0x49, 'i32.gt_s': 0x4a }),
  ...plain('ii:i', { 'i32.gt_u': 0x4b, 'i32.le_s': 0x4c, 'i32.le_u': 0x4d, 'i32.ge_s': 0x4e, 'i32.ge_u': 0x4f }),
  ...plain('l:i', { 'i64.eqz': 0x50 }),
  ...plain('ll:i', { 'i64.eq': 0x51, 'i64.ne': 0x52, 'i64.lt_s': 0x53, 'i64.lt_u': 0x54, 'i64.gt_s': 0x55 }),
  ...plain('ll:i', { 'i64.gt_u': 0x56, 'i64.le_s': 0x57, 'i64.le_u': 0x58, 'i64.ge_s': 0x59, 'i64.ge_u': 0x5a }),
  ...plain('ff:i', { 'f32.eq': 0x5b, 'f32.ne': 0x5c, 'f32.lt': 0x5d, 'f32.gt': 0x5e, 'f32.le': 0x5f, 'f32.ge': 0x60 }),
  ...plain('dd:i', { 'f64.eq': 0x61, 'f64.ne': 0x62, 'f64.lt': 0x63, 'f64.gt': 0x64, 'f64.le': 0x65, 'f64.ge': 0x66 }),
  ...plain('i:i', { 'i32.clz': 0x67, 'i32.ctz': 0x68, 'i32.popcnt': 0x69 }),
  ...plain('ii:i', { 'i32.add': 0x6a, 'i32.sub': 0x6b, 'i32.mul': 0x6c, 'i32.div_s': 0x6d, 'i32.div_u': 0x6e }),
  ...plain('ii:i', { 'i32.rem_s': 0x6f, 'i32.rem_u': 0x70, 'i32.and': 0x71, 'i32.or': 0x72, 'i32.xor': 0x73 }),
  ...plain('ii:i', { 'i32.shl': 0x74, 'i32.shr_s': 0x75, 'i32.shr_u': 0x76, 'i32.rotl': 0x77, 'i32.rotr': 0x78 }),
  ...plain('l:l', { 'i64.clz': 0x79, 'i64.ctz': 0x7a, 'i64.popcnt': 0x7b }),
  ...plain('ll:l', { 'i64.add': 0x7c, 'i64.sub': 0x7d, 'i64.mul': 0x7e, 'i64.div_s': 0x7f, 'i64.div_u': 0x80 }),
  ...plain('ll:l', { 'i64.rem_s': 0x81, 'i64.rem_u': 0x82, 'i64.and': 0x83, 'i64.or': 0x84, 'i64.xor': 0x85 }),
  ...plain('ll:l', { 'i64.shl': 0x86, 'i64.shr_s': 0x87, 'i64.shr_u': 0x88, 'i64.rotl': 0x89, 'i64.rotr': 0x8a }),
  ...plain('f:f', { 'f32.abs': 0x8b, 'f32.neg': 0x8c, 'f32.ceil': 0x8d, 'f32.floor': 0x8e, 'f32.trunc': 0x8f }),
  ...plain('f:f', { 'f32.nearest': 0x90, 'f32.sqrt': 0x91 }),
  ...plain('ff:f', { 'f32.add': 0x92, 'f32.sub': 0x93, 'f32.mul': 0x94, 'f32.div': 0x95, 'f32.min': 0x96 }),
  ...plain('ff:f', { 'f32.max': 0x97, 'f32.copysign': 0x98 }),
  ...plain('d:d', { 'f64.abs': 0x99, 'f64.neg': 0x9a, 'f64.ceil': 0x9b, 'f64.floor': 0x9c, 'f64.trunc': 0x9d }),
  ...plain('d:d', { 'f64.nearest': 0x9e, 'f64.sqrt': 0x9f }),
  ...plain('dd:d', { 'f64.add': 0xa0, 'f64.sub': 0xa1, 'f64.mul': 0xa2, 'f64.div': 0xa3, 'f64.min': 0xa4 }),
  ...plain('dd:d', { 'f64.max': 0xa5, 'f64.copysign': 0xa6 }),
  ...plain('l:i', { 'i32.wrap_i64': 0xa7 }),
  ...plain('f:i', { 'i32.trunc_f32_s': 0xa8, 'i32.trunc_f32_u': 0xa9, 'i32.reinterpret_f32': 0xbc }),
  ...plain('d:i', { 'i32.trunc_f64_s': 0xaa, 'i32.trunc_f64_u': 0xab }),
  ...plain('i:l', { 'i64.extend_i32_s': 0xac, 'i64.extend_i32_u': 0xad }),
  ...plain('f:l', { 'i64.trunc_f32_s': 0xae, 'i64.trunc_f32_u': 0xaf }),
  ...plain('d:l', { 'i64.trunc_f64_s': 0xb0, 'i64.trunc_f64_u': 0xb1, 'i64.reinterpret_f64': 0xbd }),
  ...plain('i:f', { 'f32.convert_i32_s': 0xb2, 'f32.convert_i32_u': 0xb3, 'f32.reinterpret_i32': 0xbe }),
  ...plain('l:f', { 'f32.convert_i64_s': 0xb4, 'f32.convert_i64_u': 0xb5 }),
  ...plain('d:f', { 'f32.demote_f64': 0xb6 }),
  ...plain('i:d', { 'f64.convert_i32_s': 0xb7, 'f64.convert_i32_u': 0xb8 }),
  ...plain('l:d', { 'f64.convert_i64_s': 0xb9, 'f64.convert_i64_u': 0xba, 'f64.reinterpret_i64': 0xbf }),
  ...plain('f:d', { 'f64.promote_f32': 0xbb }),
  ...plain('i:i', { 'i32.extend8_s': 0xc0, 'i32.extend16_s': 0xc1 }),
  ...plain('l:l', { 'i64.extend8_s': 0xc2, 'i64.extend16_s': 0xc3, 'i64.extend32_s': 0xc4 }),
  ...misc('f:i', { 'i32.trunc_sat_f32_s': 0, 'i32.trunc_sat_f32_u': 1 }),
  ...misc('d:i', { 'i32.trunc_sat_f64_s': 2, 'i32.trunc_sat_f64_u': 3 }),
  ...misc('f:l', { 'i64.trunc_sat_f32_s': 4, 'i64.trunc_sat_f32_u': 5 }),
  ...misc('d:l', { 'i64.trunc_sat_f64_s': 6, 'i64.trunc_sat_f64_u': 7 }),
} as const

const vectorMemory = {
  ...simdMemory('i:v', 16, { 'v128.load': 0 }),
  ...simdMemory('i:v', 8, { 'v128.load8x8_s': 1, 'v128.load8x8_u': 2, 'v128.load16x4_s': 3, 'v128.load16x4_u': 4 }),
  ...simdMemory('i:v', 8, { 'v128.load32x2_s': 5, 'v128.load32x2_u': 6 }),
  ...simdMemory('i:v', 8, { 'v128.load64_splat': 10, 'v128.load64_zero': 93 }),
  ...simdMemory('i:v', 4, { 'v128.load32_splat': 9, 'v128.load32_zero': 92 }),
  ...simdMemory('i:v', 2, { 'v128.load16_splat': 8 }),
  ...simdMemory('i:v', 1, { 'v128.load8_splat': 7 }),
  ...simdMemory('iv:', 16, { 'v128.store': 11 }),
  ...memoryLane('iv:v', 1, { 'v128.load8_lane': 84 }),
  ...memoryLane('iv:v', 2, { 'v128.load16_lane': 85 }),
  ...memoryLane('iv:v', 4, { 'v128.load32_lane': 86 }),
  ...memoryLane('iv:v', 8, { 'v128.load64_lane': 87 }),
  ...memoryLane('iv:', 1, { 'v128.store8_lane': 88 }),
  ...memoryLane('iv:', 2, { 'v128.store16_lane': 89 }),
  ...memoryLane('iv:', 4, { 'v128.store32_lane': 90 }),
  ...memoryLane('iv:', 8, { 'v128.store64_lane': 91 }),
} as const

const vectorLane = {
  ...constant('const.v128', 'v', { 'v128.const': 12 }),
  ...rows(SIMD, 'shuffle', 'vv:v', 32, { 'i8x16.shuffle': 13 }),
  ...simd('i:v', { 'i8x16.splat': 15, 'i16x8.splat': 16, 'i32x4.splat': 17 }),
  ...simd('l:v', { 'i64x2.splat': 18 }),
  ...simd('f:v', { 'f32x4.splat': 19 }),
  ...simd('d:v', { 'f64x2.splat': 20 }),
  ...lane('v:i', 16, { 'i8x16.extract_lane_s': 21, 'i8x16.extract_lane_u': 22 }),
  ...lane('vi:v', 16, { 'i8x16.replace_lane': 23 }),
  ...lane('v:i', 8, { 'i16x8.extract_lane_s': 24, 'i16x8.extract_lane_u': 25 }),
  ...lane('vi:v', 8, { 'i16x8.replace_lane': 26 }),
  ...lane('v:i', 4, { 'i32x4.extract_lane': 27 }),
  ...lane('vi:v', 4, { 'i32x4.replace_lane': 28 }),
  ...lane('v:l', 2, { 'i64x2.extract_lane': 29 }),
  ...lane('vl:v', 2, { 'i64x2.replace_lane': 30 }),
  ...lane('v:f', 4, { 'f32x4.extract_lane': 31 }),
  ...lane('vf:v', 4, { 'f32x4.replace_lane': 32 }),
  ...lane('v:d', 2, { 'f64x2.extract_lane': 33 }),
  ...lane('vd:v', 2, { 'f64x2.replace_lane': 34 }),
} as const

const vectorBits = {
  ...simd('v:v', { 'v128.not': 77 }),
  ...simd('vv:v', { 'v128.and': 78, 'v128.andnot': 79, 'v128.or': 80, 'v128.xor': 81, 'i8x16.swizzle': 14 }),
  ...simd('vvv:v', { 'v128.bitselect': 82 }),
  ...simd('v:i', { 'v128.any_true': 83, 'i8x16.all_true': 99, 'i16x8.all_true': 131, 'i32x4.all_true': 163 }),
  ...simd('v:i', { 'i64x2.all_true': 195, 'i8x16.bitmask': 100, 'i16x8.bitmask': 132, 'i32x4.bitmask': 164 }),
  ...simd('v:i', { 'i64x2.bitmask': 196 }),
  ...simd('vi:v', { 'i8x16.shl': 107, 'i8x16.shr_s': 108, 'i8x16.shr_u': 109, 'i16x8.shl': 139, 'i16x8.shr_s': 140 }),
  ...simd('vi:v', { 'i16x8.shr_u': 141, 'i32x4.shl': 171, 'i32x4.shr_s': 172, 'i32x4.shr_u': 173, 'i64x2.shl': 203 }),
  ...simd('vi:v', { 'i64x2.shr_s': 204, 'i64x2.shr_u': 205 }),
} as const

const vectorCompare = {
  ...simd('vv:v', { 'i8x16.eq': 35, 'i8x16.ne': 36, 'i8x16.lt_s': 37, 'i8x16.lt_u': 38, 'i8x16.gt_s': 39 }),
  ...simd('vv:v', { 'i8x16.gt_u': 40, 'i8x16.le_s': 41, 'i8x16.le_u': 42, 'i8x16.ge_s': 43, 'i8x16.ge_u': 44 }),
  ...simd('vv:v', { 'i16x8.eq': 45, 'i16x8.ne': 46, 'i16x8.lt_s': 47, 'i16x8.lt_u': 48, 'i16x8.gt_s': 49 }),
  ...simd('vv:v', { 'i16x8.gt_u': 50, 'i16x8.le_s': 51, 'i16x8.le_u': 52, 'i16x8.ge_s': 53, 'i16x8.ge_u': 54 }),
  ...simd('vv:v', { 'i32x4.eq': 55, 'i32x4.ne': 56, 'i32x4.lt_s': 57, 'i32x4.lt_u': 58, 'i32x4.gt_s': 59 }),
  ...simd('vv:v', { 'i32x4.gt_u': 60, 'i32x4.le_s': 61, 'i32x4.le_u': 62, 'i32x4.ge_s': 63, 'i32x4.ge_u': 64 }),
  ...simd('vv:v', { 'i64x2.eq': 214, 'i64x2.ne': 215, 'i64x2.lt_s': 216, 'i64x2.gt_s': 217, 'i64x2.le_s': 218 }),
  ...simd('vv:v', { 'i64x2.ge_s': 219, 'f32x4.eq': 65, 'f32x4.ne': 66, 'f32x4.lt': 67, 'f32x4.gt': 68 }),
  ...simd('vv:v', { 'f32x4.le': 69, 'f32x4.ge': 70, 'f64x2.eq': 71, 'f64x2.ne': 72, 'f64x2.lt': 73 }),
  ...simd('vv:v', { 'f64x2.gt': 74, 'f64x2.le': 75, 'f64x2.ge': 76 }),
} as const

const vectorUnary = {
  ...simd('v:v', { 'i8x16.abs': 96, 'i8x16.neg': 97, 'i8x16.popcnt': 98, 'i16x8.abs': 128, 'i16x8.neg': 129 }),
  ...simd('v:v', { 'i32x4.abs': 160, 'i32x4.neg': 161, 'i64x2.abs': 192, 'i64x2.neg': 193 }),
  ...simd('v:v', { 'f32x4.abs': 224, 'f32x4.neg': 225, 'f32x4.sqrt': 227, 'f32x4.ceil': 103, 'f32x4.floor': 104 }),
  ...simd('v:v', { 'f32x4.trunc': 105, 'f32x4.nearest': 106, 'f64x2.abs': 236, 'f64x2.neg': 237, 'f64x2.sqrt': 239 }),
  ...simd('v:v', { 'f64x2.ceil': 116, 'f64x2.floor': 117, 'f64x2.trunc': 122, 'f64x2.nearest': 148 }),
  ...simd('v:v', { 'i16x8.extadd_pairwise_i8x16_s': 124, 'i16x8.extadd_pairwise_i8x16_u': 125 }),
  ...simd('v:v', { 'i32x4.extadd_pairwise_i16x8_s': 126, 'i32x4.extadd_pairwise_i16x8_u': 127 }),
  ...simd('v:v', { 'i16x8.extend_low_i8x16_s': 135, 'i16x8.extend_high_i8x16_s': 136 }),
  ...simd('v:v', { 'i16x8.extend_low_i8x16_u': 137, 'i16x8.extend_high_i8x16_u': 138 }),
  ...simd('v:v', { 'i32x4.extend_low_i16x8_s': 167, 'i32x4.extend_high_i16x8_s': 168 }),
  ...simd('v:v', { 'i32x4.extend_low_i16x8_u': 169, 'i32x4.extend_high_i16x8_u': 170 }),
  ...simd('v:v', { 'i64x2.extend_low_i32x4_s': 199, 'i64x2.extend_high_i32x4_s': 200 }),
  ...simd('v:v', { 'i64x2.extend_low_i32x4_u': 201, 'i64x2.extend_high_i32x4_u': 202 }),
  ...simd('v:v', { 'i32x4.trunc_sat_f32x4_s': 248, 'i32x4.trunc_sat_f32x4_u': 249 }),
  ...simd('v:v', { 'i32x4.trunc_sat_f64x2_s_zero': 252, 'i32x4.trunc_sat_f64x2_u_zero': 253 }),
  ...simd('v:v', { 'f32x4.convert_i32x4_s': 250, 'f32x4.convert_i32x4_u': 251, 'f32x4.demote_f64x2_zero': 94 }),
  ...simd('v:v', { 'f64x2.convert_low_i32x4_s': 254, 'f64x2.convert_low_i32x4_u': 255 }),
  ...simd('v:v', { 'f64x2.promote_low_f32x4': 95 }),
} as const

const vectorBinary = {
  ...simd('vv:v', { 'i8x16.add': 110, 'i8x16.add_sat_s': 111, 'i8x16.add_sat_u': 112, 'i8x16.sub': 113 }),
  ...simd('vv:v', { 'i8x16.sub_sat_s': 114, 'i8x16.sub_sat_u': 115, 'i8x16.min_s': 118, 'i8x16.min_u': 119 }),
  ...simd('vv:v', { 'i8x16.max_s': 120, 'i8x16.max_u': 121, 'i8x16.avgr_u': 123 }),
  ...simd('vv:v', { 'i8x16.narrow_i16x8_s': 101, 'i8x16.narrow_i16x8_u': 102 }),
  ...simd('vv:v', { 'i16x8.add': 142, 'i16x8.add_sat_s': 143, 'i16x8.add_sat_u': 144, 'i16x8.sub': 145 }),
  ...simd('vv:v', { 'i16x8.sub_sat_s': 146, 'i16x8.sub_sat_u': 147, 'i16x8.mul': 149, 'i16x8.min_s': 150 }),
  ...simd('vv:v', { 'i16x8.min_u': 151, 'i16x8.max_s': 152, 'i16x8.max_u': 153, 'i16x8.avgr_u': 155 }),
  ...simd('vv:v', { 'i16x8.narrow_i32x4_s': 133, 'i16x8.narrow_i32x4_u': 134, 'i16x8.q15mulr_sat_s': 130 }),
  ...simd('vv:v', { 'i16x8.extmul_low_i8x16_s': 156, 'i16x8.extmul_high_i8x16_s': 157 }),
  ...simd('vv:v', { 'i16x8.extmul_low_i8x16_u': 158, 'i16x8.extmul_high_i8x16_u': 159 }),
  ...simd('vv:v', { 'i32x4.add': 174, 'i32x4.sub': 177, 'i32x4.mul': 181, 'i32x4.min_s': 182, 'i32x4.min_u': 183 }),
  ...simd('vv:v', { 'i32x4.max_s': 184, 'i32x4.max_u': 185, 'i32x4.dot_i16x8_s': 186 }),
  ...simd('vv:v', { 'i32x4.extmul_low_i16x8_s': 188, 'i32x4.extmul_high_i16x8_s': 189 }),
  ...simd('vv:v', { 'i32x4.extmul_low_i16x8_u': 190, 'i32x4.extmul_high_i16x8_u': 191 }),
  ...simd('vv:v', { 'i64x2.add': 206, 'i64x2.sub': 209, 'i64x2.mul': 213 }),
  ...simd('vv:v', { 'i64x2.extmul_low_i32x4_s': 220, 'i64x2.extmul_high_i32x4_s': 221 }),
  ...simd('vv:v', { 'i64x2.extmul_low_i32x4_u': 222, 'i64x2.extmul_high_i32x4_u': 223 }),
  ...simd('vv:v', { 'f32x4.add': 228, 'f32x4.sub': 229, 'f32x4.mul': 230, 'f32x4.div': 231, 'f32x4.min': 232 }),
  ...simd('vv:v', { 'f32x4.max': 233, 'f32x4.pmin': 234, 'f32x4.pmax': 235 }),
  ...simd('vv:v', { 'f64x2.add': 240, 'f64x2.sub': 241, 'f64x2.mul': 242, 'f64x2.div': 243, 'f64x2.min': 244 }),
  ...simd('vv:v', { 'f64x2.max': 245, 'f64x2.pmin': 246, 'f64x2.pmax': 247 }),
} as const

/** Relaxed SIMD: results at the edges may differ between machines; see the relaxed-simd proposal. */
const relaxed = {
  ...simd('vv:v', { 'i8x16.relaxed_swizzle': 0x100, 'i16x8.relaxed_q15mulr_s': 0x111 }),
  ...simd('v:v', { 'i32x4.relaxed_trunc_f32x4_s': 0x101, 'i32x4.relaxed_trunc_f32x4_u': 0x102 }),
  ...simd('v:v', { 'i32x4.relaxed_trunc_f64x2_s_zero': 0x103, 'i32x4.relaxed_trunc_f64x2_u_zero': 0x104 }),
  ...simd('vvv:v', { 'f32x4.relaxed_madd': 0x105, 'f32x4.relaxed_nmadd': 0x106 }),
  ...simd('vvv:v', { 'f64x2.relaxed_madd': 0x107, 'f64x2.relaxed_nmadd': 0x108 }),
  ...simd('vvv:v', { 'i8x16.relaxed_laneselect': 0x109, 'i16x8.relaxed_laneselect': 0x10a }),
  ...simd('vvv:v', { 'i32x4.relaxed_laneselect': 0x10b, 'i64x2.relaxed_laneselect': 0x10c }),
  ...simd('vv:v', { 'f32x4.relaxed_min': 0x10d, 'f32x4.relaxed_max': 0x10e }),
  ...simd('vv:v', { 'f64x2.relaxed_min': 0x10f, 'f64x2.relaxed_max': 0x110 }),
  ...simd('vv:v', { 'i16x8.relaxed_dot_i8x16_i7x16_s': 0x112 }),
  ...simd('vvv:v', { 'i32x4.relaxed_dot_i8x16_i7x16_add_s': 0x113 }),
} as const

const threads = {
  ...atomic('ii:i', 4, { 'memory.atomic.notify': 0x00 }),
  ...atomic('iil:i', 4, { 'memory.atomic.wait32': 0x01 }),
  ...atomic('ill:i', 8, { 'memory.atomic.wait64': 0x02 }),
  ...rows(THREADS, 'zero', ':', 1, { 'atomic.fence': 0x03 }),
  ...atomic('i:i', 4, { 'i32.atomic.load': 0x10 }),
  ...atomic('i:l', 8, { 'i64.atomic.load': 0x11 }),
  ...atomic('i:i', 1, { 'i32.atomic.load8_u': 0x12 }),
  ...atomic('i:i', 2, { 'i32.atomic.load16_u': 0x13 }),
  ...atomic('i:l', 1, { 'i64.atomic.load8_u': 0x14 }),
  ...atomic('i:l', 2, { 'i64.atomic.load16_u': 0x15 }),
  ...atomic('i:l', 4, { 'i64.atomic.load32_u': 0x16 }),
  ...atomic('ii:', 4, { 'i32.atomic.store': 0x17 }),
  ...atomic('il:', 8, { 'i64.atomic.store': 0x18 }),
  ...atomic('ii:', 1, { 'i32.atomic.store8': 0x19 }),
  ...atomic('ii:', 2, { 'i32.atomic.store16': 0x1a }),
  ...atomic('il:', 1, { 'i64.atomic.store8': 0x1b }),
  ...atomic('il:', 2, { 'i64.atomic.store16': 0x1c }),
  ...atomic('il:', 4, { 'i64.atomic.store32': 0x1d }),
  ...atomic('ii:i', 4, { 'i32.atomic.rmw.add': 0x1e, 'i32.atomic.rmw.sub': 0x25, 'i32.atomic.rmw.and': 0x2c }),
  ...atomic('ii:i', 4, { 'i32.atomic.rmw.or': 0x33, 'i32.atomic.rmw.xor': 0x3a, 'i32.atomic.rmw.xchg': 0x41 }),
  ...atomic('il:l', 8, { 'i64.atomic.rmw.add': 0x1f, 'i64.atomic.rmw.sub': 0x26, 'i64.atomic.rmw.and': 0x2d }),
  ...atomic('il:l', 8, { 'i64.atomic.rmw.or': 0x34, 'i64.atomic.rmw.xor': 0x3b, 'i64.atomic.rmw.xchg': 0x42 }),
  ...atomic('ii:i', 1, { 'i32.atomic.rmw8.add_u': 0x20, 'i32.atomic.rmw8.sub_u': 0x27, 'i32.atomic.rmw8.and_u': 0x2e }),
  ...atomic('ii:i', 1, { 'i32.atomic.rmw8.or_u': 0x35, 'i32.atomic.rmw8.xor_u': 0x3c, 'i32.atomic.rmw8.xchg_u': 0x43 }),
  ...atomic('ii:i', 2, {
    'i32.atomic.rmw16.add_u': 0x21,
    'i32.atomic.rmw16.sub_u': 0x28,
    'i32.atomic.rmw16.and_u': 0x2f,
    'i32.atomic.rmw16.or_u': 0x36,
    'i32.atomic.rmw16.xor_u': 0x3d,
    'i32.atomic.rmw16.xchg_u': 0x44,
  }),
  ...atomic('il:l', 1, { 'i64.atomic.rmw8.add_u': 0x22, 'i64.atomic.rmw8.sub_u': 0x29, 'i64.atomic.rmw8.and_u': 0x30 }),
  ...atomic('il:l', 1, { 'i64.atomic.rmw8.or_u': 0x37, 'i64.atomic.rmw8.xor_u': 0x3e, 'i64.atomic.rmw8.xchg_u': 0x45 }),
  ...atomic('il:l', 2, {
    'i64.atomic.rmw16.add_u': 0x23,
    'i64.atomic.rmw16.sub_u': 0x2a,
    'i64.atomic.rmw16.and_u': 0x31,
    'i64.atomic.rmw16.or_u': 0x38,
    'i64.atomic.rmw16.xor_u': 0x3f,
    'i64.atomic.rmw16.xchg_u': 0x46,
  }),
  ...atomic('il:l', 4, {
    'i64.atomic.rmw32.add_u': 0x24,
    'i64.atomic.rmw32.sub_u': 0x2b,
    'i64.atomic.rmw32.and_u': 0x32,
    'i64.atomic.rmw32.or_u': 0x39,
    'i64.atomic.rmw32.xor_u': 0x40,
    'i64.atomic.rmw32.xchg_u': 0x47,
  }),
  ...atomic('iii:i', 4, { 'i32.atomic.rmw.cmpxchg': 0x48 }),
  ...atomic('ill:l', 8, { 'i64.atomic.rmw.cmpxchg': 0x49 }),
  ...atomic('iii:i', 1, { 'i32.atomic.rmw8.cmpxchg_u': 0x4a }),
  ...atomic('iii:i', 2, { 'i32.atomic.rmw16.cmpxchg_u': 0x4b }),
  ...atomic('ill:l', 1, { 'i64.atomic.rmw8.cmpxchg_u': 0x4c }),
  ...atomic('ill:l', 2, { 'i64.atomic.rmw16.cmpxchg_u': 0x4d }),
  ...atomic('ill:l', 4, { 'i64.atomic.rmw32.cmpxchg_u': 0x4e }),
} as const

/** Every instruction by its text name. */
export const opcodes = {
  ...control,
  ...scalarMemory,
  ...scalar,
  ...vectorMemory,
  ...vectorLane,
  ...vectorBits,
  ...vectorCompare,
  ...vectorUnary,
  ...vectorBinary,
  ...relaxed,
  ...threads,
} as const

export type OpName = keyof typeof opcodes
/** The kind of immediate an instruction takes. */
export type ImmediateOf<N extends OpName> = (typeof opcodes)[N]['immediate']

/** True for instructions of the relaxed SIMD proposal, which an engine may lack. */
export const isRelaxed = (op: Opcode): boolean => op.prefix === SIMD && op.code >= 0x100
/** True for instructions that must be naturally aligned and want a shared memory. */
export const isAtomic = (op: Opcode): boolean => op.prefix === THREADS

/** These have the immediates of memory instructions, but not its memory. */
const WITHOUT_MEMORY: readonly Opcode[] = [opcodes['table.init'], opcodes['table.copy'], opcodes['atomic.fence']]
/** True for instructions that read, write or measure memory. */
export const needsMemory = (op: Opcode): boolean =>
  op.width > 0 && op.immediate !== 'lane' && op.immediate !== 'shuffle' && !WITHOUT_MEMORY.includes(op)
