import { test } from 'vitest'
import { printKernel } from '../../src/ir/print.ts'
import { lower } from '../../src/ir/pass/index.ts'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { PASSES } from '../../src/ir/pass/index.ts'
import { verify } from '../../src/ir/verify.ts'
import { SAMPLES } from './pass-kernels.ts'
import { LOOPS, WORDS, RICH, POOR, WIDE } from './target.ts'
test('x', () => {
  console.log(printKernel(lower(SAMPLES.reduce!().kernel, WIDE)))
  console.log(printKernel(lower(SAMPLES.tiles8!().kernel, WIDE)))
  console.log(printKernel(lower(SAMPLES.bytes!().kernel, WORDS)))
  console.log(printKernel(lower(SAMPLES.half!().kernel, WORDS)))
  console.log(printKernel(lower(SAMPLES.subgroups!().kernel, WIDE)))
})
test('speed', () => {
  const big = kernel('big', { params: { a: buffer('f32', 'read'), h: buffer('f16', 'read'), out: buffer('f32', 'write'), n: uniform('u32') }, workgroup: [64] }, ({ a, h, out, n }, k) => {
    const at = k.globalId.x
    k.for({ to: n }, (i) => {
      let sum = a.at(i)
      for (let j = 0; j < 700; j++) sum = sum.add(a.at(at.mul(n).add(i).add(j)).mul(h.at(at.add(j)).to('f32')))
      out.set(at, sum)
      k.barrier()
    })
  })
  let c = 0; const seen = new Set(); const go = (n: any) => { if (seen.has(n)) return; seen.add(n); c++; n.src.forEach(go) }; go(big.body)
  for (const t of [RICH, POOR, WORDS, WIDE]) for (let r = 0; r < 3; r++) {
    const start = performance.now(); lower(big, t); const all = performance.now() - start
    let kk = big; const parts: string[] = []
    for (const [name, p] of PASSES) { const s = performance.now(); kk = p(kk, t); const m = performance.now(); verify(kk, { inlined: name === 'place' }); parts.push(`${name} ${(m - s).toFixed(1)}+v${(performance.now() - m).toFixed(1)}`) }
    console.log(c, t.name, all.toFixed(1), parts.join(' '))
  }
})
