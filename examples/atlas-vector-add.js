// Adds two vectors by a program of the Atlas instruction set, on the best device there is. `node examples/atlas-vector-add.js`

import { Executor, linearLaunch, parseProgram } from 'ingot/atlas'

const COUNT = 3072

const add = parseProgram(`
  movimm.u32 r0, 2
  shl.u64 r1, r255, r0        ; r255 is the number of the lane: four bytes each
  movimm.u64 r2, 1            ; handles
  movimm.u64 r3, 2
  movimm.u64 r4, 3
  ldg.f32 r5, [r2 + r1]
  ldg.f32 r6, [r3 + r1]
  add.f32 r7, r5, r6
  stg.f32 r7, [r4 + r1]
`)

const executor = await Executor.open()
const [a, b, sum] = [1, 2, 3].map(() => executor.allocate(4 * COUNT))
executor.copyTo(a, new Uint8Array(Float32Array.from({ length: COUNT }, (_, i) => i).buffer))
executor.copyTo(b, new Uint8Array(Float32Array.from({ length: COUNT }, (_, i) => i * i).buffer))
await executor.execute(add, { ...linearLaunch(COUNT, 64), buffers: { 1: a, 2: b, 3: sum } })

const result = new Float32Array((await executor.copyFrom(sum)).slice().buffer)
const isRight = result.every((value, i) => value === Math.fround(i + i * i))
console.log(`${COUNT} sums on ${executor.device.name}, ${isRight ? 'all' : 'not all'} as they should be`)

// one lane too many: nothing is written past the end, and the error says which lane it was
await executor.execute(add, { grid: [1], block: [COUNT / 4 + 1], buffers: { 1: a, 2: b, 3: executor.allocate(COUNT) } }).catch((error) => {
  console.log(`${error.code}: ${error.message}`)
})
await executor.close()
