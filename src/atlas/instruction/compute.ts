// Instructions that compute: arithmetic, logic, functions, and reductions over registers.

import { ALL_TYPES, FLOAT_TYPES, INTEGER_TYPES, isIntegerType } from '../type.ts'
import type { Meaning } from '../machine.ts'
import * as meaning from './meaning.ts'
import { binary, input, instruction, number, output, ternary, type, unary } from './record.ts'

const FUNCTION_TYPES = ['f32', 'f64'] as const
const REDUCTION_TYPES = ['i32', 'i64', 'f32', 'f64'] as const

const shift = (about: string, meant: Meaning) =>
  instruction({
    group: 'logic',
    about,
    operands: [type('ty', INTEGER_TYPES), output('dst', 'ty'), input('src', 'ty'), input('amount', 'u32')],
    run: (m, { ty, dst, src, amount }) => {
      m.write(dst, ty, m.compute(meant, ty, [m.read(src, ty), m.read(amount, 'u32')]))
      return undefined
    },
  })

const reduction = (about: string, meant: Meaning) =>
  instruction({
    group: 'reduction',
    about,
    operands: [
      type('ty', REDUCTION_TYPES),
      output('dst', 'ty'),
      { kind: 'registers', name: 'srcBase', type: 'ty' },
      number('count', 32, 1),
    ],
    run: (m, { ty, dst, srcBase, count }) => {
      let all = m.read(srcBase, ty)
      for (let i = 1; i < count; i++) all = m.compute(meant, ty, [all, m.read(srcBase + i, ty)])
      m.write(dst, ty, all)
      return undefined
    },
  })

const functionOf = (about: string, meant: Meaning) => unary('function', about, FUNCTION_TYPES, meant)

export const ARITHMETIC = {
  add: binary('arithmetic', 'sum', ALL_TYPES, meaning.add),
  sub: binary('arithmetic', 'difference', ALL_TYPES, meaning.subtract),
  mul: binary('arithmetic', 'product', ALL_TYPES, meaning.multiply),
  div: instruction({
    group: 'arithmetic',
    about: 'quotient, of integers towards zero; integers by 0 are an error',
    operands: [type('ty', ALL_TYPES), output('dst', 'ty'), input('src1', 'ty'), input('src2', 'ty')],
    run: (m, { ty, dst, src1, src2 }) => {
      const [a, b] = [m.read(src1, ty), m.read(src2, ty)]
      if (isIntegerType(ty)) m.require(m.compare('ne', ty, b, m.constant(ty, 0n)), 'division-by-zero')
      m.write(dst, ty, m.compute(meaning.divide, ty, [a, b]))
      return undefined
    },
  }),
  min: binary('arithmetic', 'the smaller one', ALL_TYPES, meaning.minimum),
  max: binary('arithmetic', 'the larger one', ALL_TYPES, meaning.maximum),
  mad: ternary('arithmetic', 'a * b + c, rounded after each', ALL_TYPES, meaning.multiplyAdd),
  fma: ternary('arithmetic', 'a * b + c, rounded once', FLOAT_TYPES, meaning.fused),
  abs: unary('arithmetic', 'size without sign; the smallest integer stays', ALL_TYPES, meaning.absolute),
  neg: unary('arithmetic', 'the same size with the other sign', ALL_TYPES, meaning.negate),
} as const

export const LOGIC = {
  and: binary('logic', 'bits that both have', INTEGER_TYPES, meaning.and),
  or: binary('logic', 'bits that either has', INTEGER_TYPES, meaning.or),
  xor: binary('logic', 'bits that one of them has', INTEGER_TYPES, meaning.xor),
  not: unary('logic', 'the other bits', INTEGER_TYPES, meaning.not),
  shl: shift('bits moved up, by the amount modulo the width', meaning.shiftLeft),
  shr: shift('bits moved down; signed types keep their sign', meaning.shiftRight),
  set: instruction({
    group: 'logic',
    about: 'whether a comparison holds; ltu, leu, gtu, geu compare integers as unsigned',
    operands: [
      type('ty', ALL_TYPES),
      { kind: 'condition', name: 'cond' },
      { kind: 'predicate', name: 'dst', role: 'out' },
      input('src1', 'ty'),
      input('src2', 'ty'),
    ],
    run: (m, { ty, cond, dst, src1, src2 }) => {
      m.setPredicate(dst, m.compare(cond, ty, m.read(src1, ty), m.read(src2, ty)))
      return undefined
    },
  }),
  sel: instruction({
    group: 'logic',
    about: 'the first if the predicate holds, else the second',
    operands: [
      type('ty', ALL_TYPES),
      output('dst', 'ty'),
      { kind: 'predicate', name: 'pred', role: 'in' },
      input('srcTrue', 'ty'),
      input('srcFalse', 'ty'),
    ],
    run: (m, { ty, dst, pred, srcTrue, srcFalse }) => {
      m.write(dst, ty, m.choose(m.predicate(pred), ty, m.read(srcTrue, ty), m.read(srcFalse, ty)))
      return undefined
    },
  }),
} as const

export const REDUCTIONS = {
  reduceAdd: reduction('sum of consecutive registers, first to last', meaning.add),
  reduceMin: reduction('smallest of consecutive registers', meaning.minimum),
  reduceMax: reduction('largest of consecutive registers', meaning.maximum),
  reduceMul: reduction('product of consecutive registers, first to last', meaning.multiply),
} as const

export const FUNCTIONS = {
  exp: functionOf('e to the power', meaning.exp),
  log: functionOf('natural logarithm', meaning.log),
  log2: functionOf('logarithm of base 2', meaning.log2),
  log10: functionOf('logarithm of base 10', meaning.log10),
  sqrt: functionOf('square root', meaning.sqrt),
  rsqrt: functionOf('1 / square root', meaning.rsqrt),
  sin: functionOf('sine', meaning.sin),
  cos: functionOf('cosine', meaning.cos),
  tan: functionOf('tangent', meaning.tan),
  tanh: functionOf('hyperbolic tangent', meaning.tanh),
  sigmoid: functionOf('1 / (1 + e^-x)', meaning.sigmoid),
} as const
