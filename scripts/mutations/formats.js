// Faults in weight formats.

const FORMS = ['test/kernel/case.test.ts'] // every form of every family, interpreted

/** @type {readonly import('../mutations.js').Mutation[]} */
export const FORMATS = [
  {
    name: 'a value of the table of IQ4_NL and IQ4_XS is off by one',
    file: 'src/quant/iq4_nl.ts',
    find: '-22, -10, 1, 13',
    replace: '-22, -10, 2, 13',
    tests: ['test/quant/plain.test.ts'],
  },
  {
    name: 'Q6_K is centred on 31',
    file: 'src/quant/q6_k.ts',
    find: '.sub(32)\n        .mul(scales[i >> 2]!)',
    replace: '.sub(31)\n        .mul(scales[i >> 2]!)',
    tests: ['test/quant/plain.test.ts'],
  },
  {
    name: 'repacking drops every eighth of the fifth bits',
    file: 'src/quant/packed/blocks-32.ts',
    find: 'spreadNibble(bits.shr(4 * t).and(15)).shl(t)',
    replace: 'spreadNibble(bits.shr(4 * t).and(t < 7 ? 15 : 0)).shl(t)',
    tests: FORMS,
  },
  {
    name: 'upper bits of the later scales of Q4_K go to the wrong place',
    file: 'src/quant/q4_k.ts',
    find: 'scale: high.select(c.and(15).or(a.shr(6).shl(4)), a.and(63))',
    replace: 'scale: high.select(c.and(15).or(a.shr(6).shl(5)), a.and(63))',
    tests: ['test/quant/plain.test.ts'],
  },
]
