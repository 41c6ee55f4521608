// Copies and fills as kernels, so that a whole submission is dispatches of one encoder: no change to a blit encoder and back,
// and barriers only where ranges meet. Written in the kernel language like every other kernel.

import { type Kernel, packUniforms } from '../../ir/kernel.ts'
import { buffer, kernel, uniform } from '../../ir/author.ts'

const LANES = 256
/** Words that each lane moves, a vector. */
const EACH = 4

/** y[i] = x[i] for i < n */
export const COPY_WORDS: Kernel = kernel('copy_words', {
  params: { x: buffer('u32', 'read'), y: buffer('u32', 'write'), n: uniform('u32') },
  workgroup: [LANES],
}, (p, k) => {
  const i = k.let('i', k.globalId.x.mul(EACH))
  k.when(i.add(EACH).le(p.n), () => p.y.store(i, p.x.load(i, EACH)))
  k.when(i.lt(p.n).and(i.add(EACH).gt(p.n)), () => {
    k.loop(p.n.sub(i), (j) => p.y.set(i.add(j), p.x.at(i.add(j))))
  })
})

/** y[i] = value for i < n */
export const FILL_WORDS: Kernel = kernel('fill_words', {
  params: { y: buffer('u32', 'write'), n: uniform('u32'), value: uniform('u32') },
  workgroup: [LANES],
}, (p, k) => {
  const i = k.let('i', k.globalId.x)
  k.when(i.lt(p.n), () => p.y.set(i, p.value))
})
