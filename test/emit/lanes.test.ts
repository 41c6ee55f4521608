// Lanes side by side: kernels of many lanes as WebAssembly, where lanes become vectors, against the interpreter, which has lanes. Sizes
// fit no vector, guards part lanes in the middle of one, and what cannot be a vector is in between.

import { describe, expect, it } from 'vitest'
import { buffer, kernel, uniform } from '../../src/ir/author.ts'
import { type Kernel, uses } from '../../src/ir/kernel.ts'
import { widthOf } from '../../src/base/dtype.ts'
import { lower } from '../../src/ir/pass/index.ts'
import { wasmTarget } from '../../src/emit/wasm/spell.ts'
import { differences } from './wasm-differ.ts'

const floats = (count: number, scale = 0.37): Float32Array => Float32Array.from({ length: count }, (_, i) => ((i * 37) % 101) * scale - 9)
const words = (count: number): Uint32Array => Uint32Array.from({ length: count }, (_, i) => Math.imul(i + 1, 0x9e3779b1) >>> 0)

/** Whether any load or store of the memory moves several elements. */
function movesVectors(written: Kernel, mem: string): boolean {
  return uses(lower(written, wasmTarget), (node) => {
    const width = node.op === 'load' ? widthOf(node.dtype) : node.op === 'store' ? widthOf(node.src[1].dtype) : 1
    return width > 1 && (node.op === 'load' || node.op === 'store') && node.arg.mem === mem
  })
}

describe('lanes side by side', () => {
  it.each([1, 15, 16, 17, 63, 64, 65, 127, 150])('stop in the middle of a vector: %s elements', (n) => {
    const written = kernel(
      'axpy',
      { params: { x: buffer('f32', 'read'), y: buffer('f32', 'readwrite'), n: uniform('u32') }, workgroup: [64] },
      (p, k) => {
        const i = k.globalId.x
        k.when(i.lt(p.n), () => p.y.set(i, p.x.at(i).mul(3).add(p.y.at(i))))
      },
    )
    expect(movesVectors(written, 'x')).toBe(true)
    expect(differences(written, { x: floats(n), y: floats(n, 0.11) }, { grid: [3, 1, 1], uniforms: { n } })).toEqual([])
  })

  it.each([[[12]], [[7, 3]], [[4, 4, 2]], [[100]], [[5]]] as const)('leave no lane of a workgroup of %s out', (workgroup) => {
    const written = kernel('places', { params: { y: buffer('u32', 'write') }, workgroup }, (p, k) => {
      const lanes = workgroup.reduce<number>((product, size) => product * size, 1)
      const at = k.workgroupId.x.mul(lanes).add(k.lane)
      p.y.set(at, k.laneId.x.add(k.laneId.y.mul(100)).add(k.laneId.z.mul(10_000)).add(at.mul(100_000)))
    })
    expect(differences(written, { y: new Uint32Array(200) }, { grid: [2, 1, 1] })).toEqual([])
  })

  it('load and store anywhere: the same place, every third, backwards, by a table of places', () => {
    const written = kernel(
      'strides',
      { params: { x: buffer('u32', 'read'), at: buffer('u32', 'read'), y: buffer('u32', 'write') }, workgroup: [32] },
      (p, k) => {
        const { lane } = k
        p.y.set(lane.mul(4), p.x.at(5).add(p.x.at(lane.mul(3))))
        p.y.set(lane.mul(4).add(1), p.x.at(lane.neg().add(31)))
        p.y.set(lane.mul(4).add(2), p.x.at(p.at.at(lane)))
        p.y.set(p.at.at(lane).mul(4).add(3), lane.div(7).add(lane.rem(5)))
      },
    )
    const at = Uint32Array.from({ length: 32 }, (_, i) => (i < 16 ? i : ((i * 5 + 1) % 16) + 16))
    expect(differences(written, { x: words(96), at, y: new Uint32Array(128) })).toEqual([])
  })

  it('take conditions that part them: sets, stores, both branches, loops of different length', () => {
    const written = kernel(
      'parting',
      { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), z: buffer('u32', 'write') }, workgroup: [24] },
      (p, k) => {
        const { lane } = k
        const v = p.x.at(lane)
        const best = k.var('f32', 0)
        const count = k.var('u32', 7)
        k.when(v.gt(0), () => best.set(v))
        k.when(
          v.lt(-3),
          () => p.y.set(lane.add(24), v.neg()),
          () => p.y.set(lane.add(24), best.get().mul(2)),
        )
        k.for({ to: lane.rem(5) }, (i) => count.set(count.get().mul(3).add(i)))
        k.loop((inner) => {
          inner.breakIf(count.get().gt(1000))
          count.set(count.get().add(lane).add(100))
        })
        p.y.set(lane, best.get())
        p.z.set(lane, count.get())
      },
    )
    expect(differences(written, { x: floats(24), y: new Float32Array(48), z: new Uint32Array(24) })).toEqual([])
  })

  it('keep values over barriers, in loops that all of them leave together', () => {
    const written = kernel(
      'tiles',
      { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write'), n: uniform('u32') }, workgroup: [8, 4] },
      (p, k) => {
        const s = k.shared('s', 'f32', 32)
        const { lane } = k
        const [column, row] = [k.laneId.x, k.laneId.y]
        const sum = k.var('f32', 0)
        const step = k.var('u32', 0)
        k.for({ to: p.n }, (tile, inner) => {
          s.set(lane, p.x.at(tile.mul(32).add(lane)))
          inner.barrier()
          inner.for({ to: 4 }, (i) => sum.set(sum.get().add(s.at(i.mul(8).add(column)).mul(s.at(row.mul(8).add(i))))))
          step.set(step.get().add(tile).add(1))
          inner.barrier()
        })
        p.y.set(lane, sum.get().add(step.get().to('f32')))
      },
    )
    expect(differences(written, { x: floats(96), y: new Float32Array(32) }, { uniforms: { n: 3 } })).toEqual([])
  })

  it('reduce by halves in workgroup memory', () => {
    const written = kernel('halves', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'write') }, workgroup: [64] }, (p, k) => {
      const s = k.shared('s', 'u32', 64)
      s.set(k.lane, p.x.at(k.workgroupId.x.mul(64).add(k.lane)))
      k.barrier()
      for (let half = 32; half > 0; half /= 2) {
        k.when(k.lane.lt(half), () => s.set(k.lane, s.at(k.lane).add(s.at(k.lane.add(half)))))
        k.barrier()
      }
      k.when(k.lane.eq(0), () => p.y.set(k.workgroupId.x, s.at(0)))
    })
    expect(differences(written, { x: words(192), y: new Uint32Array(3) }, { grid: [3, 1, 1] })).toEqual([])
  })

  it('count together, and add to one place one after the other', () => {
    const written = kernel('counting', { params: { x: buffer('u32', 'read'), y: buffer('u32', 'readwrite') }, workgroup: [48] }, (p, k) => {
      p.y.atomic('add', p.x.at(k.lane).and(3), k.lane)
      k.when(k.lane.gt(20), () => p.y.atomic('max', 4, p.x.at(k.lane)))
    })
    expect(differences(written, { x: words(48), y: new Uint32Array(8) })).toEqual([])
  })
})
