// What the author of a kernel can rely on beside types: the names in the text.

import { expect, test } from 'vitest'
import { buffer, kernel } from '../../src/ir/author.ts'
import { printKernel } from '../../src/ir/print.ts'

test('a name given to a load or a collective replaces the one it got by itself', () => {
  const written = kernel(
    'named',
    { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') }, workgroup: [32], subgroup: 32 },
    ({ x, y }, k) => {
      const left = k.let('left', x.at(k.lane))
      const other = x.at(k.lane.add(1))
      const kept = k.let('kept', left) // bound before something else: gets a second name
      y.set(k.lane, k.let('total', k.subSum(left.add(other))).add(kept))
    },
  )
  expect(printKernel(written)).toMatchInlineSnapshot(`
    "kernel named(x: read f32, y: write f32) workgroup 32 subgroup 32 {
      let left: f32 = x[lane]
      let x1: f32 = x[lane + 1]
      let kept: f32 = left
      let total: f32 = subSum(left + x1)
      y[lane] = total + kept
    }
    "
  `)
})
