// Plans on the reference device: fused operations against their definitions, fusion, reuse of slots, one submission per run.

import { expect, test } from 'vitest'
import { IngotError } from '../../src/base/error.ts'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { compile } from '../../src/tensor/compile.ts'
import { expand, replacedOperations } from '../../src/tensor/lowering.ts'
import { type Plan, assignment, buildPlan } from '../../src/tensor/plan.ts'
import { rewriteGraph } from '../../src/tensor/rewrite/index.ts'
import { Slots } from '../../src/tensor/slots.ts'
import { Storage } from '../../src/tensor/storage.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { filled } from './leaf.ts'

function integers(device: Device, values: readonly number[]): Tensor {
  const buffer = device.alloc(4 * values.length)
  device.write(buffer, 0, new Uint8Array(Uint32Array.from(values).buffer))
  return Tensor.over(buffer, [values.length], 'u32', 'ids')
}

async function read(device: Device, ...tensors: Tensor[]): Promise<Float32Array[]> {
  const plan = await buildPlan(device, { reads: tensors })
  const bytes = await plan.run()
  plan[Symbol.dispose]()
  return bytes.map((each) => new Float32Array(each.slice().buffer))
}

const fusedOperations: Record<string, (device: Device) => Tensor> = {
  norm: (device) => filled(device, [3, 40], 1).rmsNorm(filled(device, [40], 2), 1e-5),
  'layer norm': (device) => filled(device, [3, 40], 1).layerNorm(filled(device, [40], 2), filled(device, [40], 3), 1e-5),
  softmax: (device) => filled(device, [4, 33], 1).mul(9).softmax(),
  linear: (device) => filled(device, [3, 32], 1).linear(filled(device, [5, 32], 2), filled(device, [5], 3)),
  linearTransposed: (device) => filled(device, [3, 5], 1).linearTransposed(filled(device, [5, 32], 2)),
  lora: (device) => filled(device, [3, 32], 1).lora(filled(device, [5, 32], 2), filled(device, [2, 32], 3), filled(device, [5, 2], 4), 0.5),
  attention: (device) =>
    filled(device, [2, 4 * 8], 1).cachedAttention(
      filled(device, [2, 192, 8], 2),
      filled(device, [2, 192, 8], 3),
      // the second row's sequence has its pages the other way round
      { positions: integers(device, [6, 66]), slots: integers(device, [0, 1]), table: integers(device, [0, 1, 2, 1]).reshape(2, 2) },
      { heads: 4, scale: 0.35, window: 5, softcap: 3, apart: true },
    ),
}

test.each(Object.entries(fusedOperations))('%s is what its definition says', async (_name, make) => {
  await using device = openReference()
  const fused = make(device)
  const defined = new Tensor(expand([fused.node], new Set([fused.node.op]))(fused.node))
  expect(defined.node.op).not.toBe(fused.node.op)
  const [a, b] = await read(device, fused, defined)
  a!.forEach((value, i) => expect(value).toBeCloseTo(b![i]!, 5))
})

test('a fused kernel that a device refuses is replaced by its definition', async () => {
  await using device = openReference()
  const refusing = new Proxy(device, {
    get: (target, key) => {
      const member = Reflect.get(target, key) as unknown
      if (key === 'compile') {
        return (kernel: { name: string }) =>
          kernel.name === 'rmsNorm' ? Promise.reject(new IngotError('compile-failed', 'no')) : target.compile(kernel as never)
      }
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  const x = filled(device, [2, 16], 1)
  const [expected] = await read(device, x.rmsNorm(undefined, 1e-5))
  const [got] = await read(refusing, x.rmsNorm(undefined, 1e-5))
  expect(replacedOperations(refusing)).toEqual(['norm'])
  got!.forEach((value, i) => expect(value).toBeCloseTo(expected![i]!, 5))
})

test('elementwise chains become one map', async () => {
  await using device = openReference()
  const [x, y] = [filled(device, [8], 1), filled(device, [8], 2)]
  const chain = x.silu().mul(y).add(1)
  expect(rewriteGraph([chain.node], device.caps).roots[0]!.src).toEqual([x.node, y.node])
  const plan: Plan = await buildPlan(device, { reads: [chain] })
  expect(plan.dispatches).toBe(1)
})

test('a run is one submission, allocates nothing, and slots are reused', async () => {
  await using device = openReference()
  let x = filled(device, [4, 64], 1)
  for (let i = 0; i < 10; i++) x = x.rmsNorm(undefined, 1e-5)
  const plan = await buildPlan(device, { reads: [x] })
  expect(plan.arenaBytes).toBe(2 * 4 * 64 * 4)
  await plan.run()
  const before = { ...device.stats }
  await plan.run()
  expect(device.stats.submissions - before.submissions).toBe(1)
  expect([device.stats.buffers, device.stats.poolHits, device.stats.poolMisses]).toEqual([
    before.buffers,
    before.poolHits,
    before.poolMisses,
  ])
  plan[Symbol.dispose]()
  expect(device.stats.buffers).toBe(before.buffers - 2)
})

test('a name changes nothing', async () => {
  await using device = openReference()
  const chain = (name: (tensor: Tensor) => Tensor): Tensor => name(filled(device, [8], 1).silu()).mul(2)
  const dispatches = async (tensor: Tensor): Promise<number> => {
    using plan = await buildPlan(device, { reads: [tensor] })
    return plan.dispatches
  }
  expect(await dispatches(chain((tensor) => tensor.named('part')))).toBe(1)
  expect(await dispatches(chain((tensor) => tensor))).toBe(1)
})

test('shapes are checked at once', () => {
  const x = Tensor.leaf(new Storage(), [2, 3])
  expect(() => x.add(Tensor.leaf(new Storage(), [4]))).toThrow(/broadcast/)
  expect(() => x.linear(Tensor.leaf(new Storage(), [5, 4]))).toThrow(/inner sizes differ/)
  expect(() => x.reshape(7)).toThrow(/sizes differ/)
  expect(() => x.sum(2)).toThrow(/the axis is out of range/)
})

test('what is assigned to itself is there already', async () => {
  await using device = openReference()
  const x = await Tensor.from([1, 2, 3], { device }).realize()
  using plan = await buildPlan(device, { reads: [x.add(1)], effects: [assignment(x, x.reshape(3))] })
  expect(plan.dispatches).toBe(1)
  const [bytes] = await plan.run()
  expect([...new Float32Array(bytes!.slice().buffer)]).toEqual([2, 3, 4])
  using step = compile(() => {
    const sum = x.sum()
    x.assign(x)
    return sum
  })
  expect(await (await step()).item()).toBe(6)
  expect(await x.toArray()).toEqual([1, 2, 3])
})

test('plans that share slots have the memory of the largest, and give it back when all are gone', async () => {
  await using device = openReference()
  const slots = new Slots(device)
  const build = (size: number): Promise<Plan> => {
    const x = Tensor.iota([size], 0, { device }).to('f32')
    const sums = x.cumsum()
    return buildPlan(device, { reads: [sums.mul(sums.add(1)).cumsum().sum()], slots })
  }
  const valueOf = async (plan: Plan): Promise<number | undefined> => new Float32Array((await plan.run())[0]!.slice().buffer)[0]
  const small = await build(3)
  expect(await valueOf(small)).toBe(16) // 0 * 1, 1 * 2, 3 * 4, added up: 0, 2, 14
  const before = slots.bytes
  const large = await build(100)
  expect(slots.bytes).toBeGreaterThan(10 * before)
  expect(slots.bytes).toBe(large.arenaBytes)
  expect(await valueOf(small)).toBe(16) // its buffers were replaced
  expect(await valueOf(large)).toBe(await valueOf(large))
  large[Symbol.dispose]()
  expect(await valueOf(small)).toBe(16)
  const { bytesLive } = { ...device.stats }
  small[Symbol.dispose]()
  expect([slots.bytes, bytesLive - device.stats.bytesLive]).toEqual([0, large.arenaBytes])
  await expect(small.run()).rejects.toThrow('the plan was closed')
})
