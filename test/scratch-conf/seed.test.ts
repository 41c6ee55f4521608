import { it } from 'vitest'
import { randomKernel } from '../ir/random.ts'
it('x', async () => {
  const KINDS = [
  { workgroupMax: 16 }, { subgroup: 4, tiles: true, workgroupMax: 16 }, { subgroup: 8, workgroupMax: 32 }, { f16: false, narrow: false }, { workgroupMax: 1 }, {}, { subgroup: 4, tiles: true }, {subgroup: 32, size: 8}, {size: 6}, {subgroup: 8, size: 6}, { f16: false, narrow: false, size: 8 }, { workgroupMax: 1, size: 8 }
]
  const t = Date.now()
  let n = 0
  for (let seed = 0; seed < 2500; seed++) for (const [i, kind] of KINDS.entries()) try { n++; randomKernel(seed, kind) } catch (e) { console.log(seed, i, (e as Error).stack) }
  console.log(n, Date.now() - t)
})
