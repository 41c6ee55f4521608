import { test } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { interpret } from '../../src/ir/interpret.ts'
import { printKernel } from '../../src/ir/print.ts'
import { verify } from '../../src/ir/verify.ts'
import { randomKernel } from './random.ts'
test('speed', () => {
  let t = [0,0,0,0], lines = 0, big = 0
  for (let s = 0; s < 0; s++) {
    const a = performance.now()
    const r = randomKernel(s)
    const b = performance.now(); verify(r.kernel)
    const c = performance.now(); lines += printKernel(r.kernel).length
    const d = performance.now()
    interpret(r.kernel, { buffers: r.buffers(), uniforms: r.uniforms, grid: r.grid })
    const e = performance.now()
    t[0]! += b-a; t[1]! += c-b; t[2]! += d-c; t[3]! += e-d
    big = Math.max(big, e-d)
  }
  console.log('gen', t[0], 'verify', t[1], 'print', t[2], 'interpret', t[3], 'chars', lines/100, big)
  // matvec f32, 64 lanes per row; and one-lane x16
  const gpu = kernel('mv', { params: { w: buffer('f32','read'), x: buffer('f32','read'), y: buffer('f32','write'), n: uniform('u32') }, workgroup: [64], subgroup: 32 }, ({ w, x, y, n }, k) => {
    const sum = k.var('s', k.const('f32', 0))
    k.for({ from: k.lane.mul(4), to: n, step: 256 }, (i) => { sum.set(w.load(k.workgroupId.x.mul(n).add(i), 4).mul(x.load(i, 4)).hsum().add(sum.get())) })
    const part = k.shared('p', 'f32', 2)
    const total = k.subSum(sum.get())
    k.when(k.sublane.eq(0), () => part.set(k.subgroupId, total))
    k.barrier()
    k.when(k.lane.eq(0), () => y.set(k.workgroupId.x, part.at(0).add(part.at(1))))
  })
  const cpu = kernel('mvc', { params: { w: buffer('f32','read'), x: buffer('f32','read'), y: buffer('f32','write'), n: uniform('u32') } }, ({ w, x, y, n }, k) => {
    const sum = k.var('s', k.const('f32', 0).splat(16))
    k.for({ to: n, step: 16 }, (i) => { sum.set(w.load(k.workgroupId.x.mul(n).add(i), 16).fma(x.load(i, 16), sum.get())) })
    y.set(k.workgroupId.x, sum.get().hsum())
  })
  const N = 1024, M = 256
  const bufs = { w: new Uint8Array(N*M*4), x: new Uint8Array(N*4), y: new Uint8Array(M*4) }
  for (const kern of [gpu, cpu]) for (const check of [true, false]) {
    const a = performance.now()
    for (let r = 0; r < 40; r++) interpret(kern, { buffers: bufs, uniforms: { n: N }, grid: [M,1,1] }, { check })
    console.log(kern.name, check, 'ms for 10.5M MACs', performance.now() - a)
  }
})
