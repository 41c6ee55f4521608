// Random numbers as a function of a key and a counter: the same key gives the same numbers on every device.

import { random } from '../../kernel/random/random.ts'
import { sizeOf } from '../node.ts'
import { checkShape, checkSize, checkType, checkWhole } from '../operand.ts'
import type { Operation } from './operation.ts'

export const RANDOM: { readonly random: Operation<'random'> } = {
  random: {
    about: 'numbers from a counter and a key: bits, evenly from 0 to below 1, or normally distributed',
    infer: ([seed], { kind, shape, key }) => {
      checkShape('random', shape)
      for (const word of key) checkWhole('random', 'a word of the seed', word, 0, 2 ** 32 - 1)
      if (seed !== undefined) {
        checkType('random', 'the seed', seed, 'u32')
        checkSize('random', 'the seed', seed, 2)
      }
      return { shape, dtype: kind === 'bits' ? 'u32' : 'f32' }
    },
    lower: ({ src, shape, attrs: { kind, key } }, caps) =>
      random.work(caps, { kind, count: sizeOf(shape), ...(src.length > 0 ? {} : { key }) }),
    inputs: () => ['seed'],
  },
}
