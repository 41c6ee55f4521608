// Operations that are about memory rather than numbers: what is there already, and what is written into it.

import { fail, show } from '../operand.ts'
import { sameShape } from '../shape.ts'
import type { Operation } from './operation.ts'

export const MEMORY: { readonly [O in 'leaf' | 'stopGradient' | 'checkpoint' | 'assign' | 'copy']: Operation<O> } = {
  leaf: {
    about: 'bytes that lie in memory: what was put in, what was computed before, weights and caches',
    infer: () => fail('leaf', 'a leaf is made of memory, not of operands', 'no memory'),
  },

  stopGradient: {
    about: 'the same value, whose changes count for nothing',
    infer: ([{ shape, dtype }]) => ({ shape, dtype }),
    gradient: () => [undefined],
    inPlace: () => 0,
  },

  // Differentiation goes through a copy of what lies between its operands (gradient.ts).
  checkpoint: {
    about: 'the first operand, which differentiation computes again from the others instead of keeping what lies between',
    infer: ([{ shape, dtype }]) => ({ shape, dtype }),
    inPlace: () => 0,
  },

  assign: {
    about: "the target's memory with the value in it; what else reads the target sees what was there before",
    infer: ([target, value]) => {
      if (target.op !== 'leaf' && target.op !== 'assign') fail('assign', 'only memory can be assigned to', show(target), 'a leaf')
      if (!sameShape(target.shape, value.shape)) fail('assign', 'shapes differ', show(value), show(target))
      if (target.dtype !== value.dtype) fail('assign', 'types differ', value.dtype, target.dtype)
      return { shape: target.shape, dtype: target.dtype }
    },
    inPlace: () => 0,
  },

  copy: {
    about: 'a value in memory of its own',
    infer: ([{ shape, dtype }]) => ({ shape, dtype }),
  },
}
