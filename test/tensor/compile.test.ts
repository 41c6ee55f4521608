// Functions that are planned once: when they are traced again, what they change, and what they may not do.

import { expect, test } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { compile } from '../../src/tensor/compile.ts'
import { grad } from '../../src/tensor/grad.ts'
import { buildPlan } from '../../src/tensor/plan.ts'
import { dropout, random } from '../../src/tensor/random.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

test('a call is one submission, traced once for each form of the arguments', async () => {
  await using device = openReference()
  const of = (...values: number[]): Tensor => Tensor.from(values, { device })
  let traces = 0
  using f = compile(({ x, k }: { x: Tensor; k: number }) => {
    traces++
    return [x.mul(k).sum(), x.neg()] as const
  })
  const values = async (...args: Parameters<typeof f>): Promise<unknown[]> => Promise.all((await f(...args)).map((each) => each.toArray()))
  expect(await values({ x: of(1, 2), k: 2 })).toEqual([6, [-1, -2]])
  const before = device.stats.submissions
  const results = await f({ x: of(3, 4), k: 2 })
  expect(device.stats.submissions - before).toBe(1)
  expect(await results[0].item()).toBe(14)
  expect(traces).toBe(1)
  expect(await values({ x: of(1, 2, 3), k: 2 })).toEqual([12, [-1, -2, -3]])
  expect(await values({ x: of(1, 2), k: 3 })).toEqual([9, [-1, -2]])
  expect(traces).toBe(3)
})

test('what it assigns to is changed by every call, and seen where it was assigned to outside', async () => {
  await using device = openReference()
  const total = Tensor.from([0, 0], { device })
  using add = compile((x: Tensor) => {
    total.assign(total.add(x))
    return total.sum()
  })
  const x = Tensor.from([1, 2], { device })
  expect(await (await add(x)).item()).toBe(3)
  expect(await (await add(x)).item()).toBe(6)
  expect(await total.toArray()).toEqual([2, 4])
  total.assign(Tensor.from([10, 10], { device }))
  await add(x)
  expect(await total.toArray()).toEqual([11, 12])
})

test('random numbers differ from call to call unless there is a seed', async () => {
  await using device = openReference()
  using free = compile(() => random.normal([4], { device }))
  using same = compile(() => random.normal([4], { device, seed: 5 }))
  using chosen = compile((seed: Tensor) => random.normal([4], { seed }))
  const key = (word: number): Tensor => Tensor.from([word, 0], { dtype: 'u32', device })
  const draw = async (result: Promise<Tensor>): Promise<string> => String(await (await result).toArray())
  const draws = [await draw(free()), await draw(free()), await draw(free())]
  expect(new Set(draws).size).toBe(3)
  const seeded = await draw(Promise.resolve(random.normal([4], { device, seed: 5 })))
  expect([await draw(same()), await draw(same()), await draw(chosen(key(5)))]).toEqual([seeded, seeded, seeded])
  expect(await draw(chosen(key(6)))).not.toBe(seeded)
})

test('a dropout and its gradient leave out the same elements', async () => {
  await using device = openReference()
  using step = compile((x: Tensor) => {
    let kept = x
    const slope = grad((z: Tensor) => (kept = dropout(z, 0.5)).sum())(x)
    return { kept, slope }
  })
  const x = Tensor.ones([64], { device })
  const masks = new Set<string>()
  for (let i = 0; i < 3; i++) {
    const { kept, slope } = await step(x)
    expect(await slope.toArray()).toEqual(await kept.toArray())
    masks.add(String(await kept.toArray()))
  }
  expect(masks.size).toBe(3)
})

test('what is disposed of gives its memory back, after the calls under way', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2], { device })
  const f = compile((y: Tensor) => y.mul(2).add(x))
  await f(x)
  const called = f(x)
  f[Symbol.dispose]()
  expect(await (await called).toArray()).toEqual([3, 6])
  await new Promise((resolve) => {
    setTimeout(resolve, 0)
  })
  expect(device.stats.bytesLive).toBe(8) // x itself
})

test('functions that wait for values are refused', async () => {
  await using device = openReference()
  using f = compile(async (x: Tensor) => x.add(await x.sum().item()))
  await expect(f(Tensor.from([1], { device }))).rejects.toMatchObject({ code: 'bad-argument', facts: { op: 'compile' } })
})

test('a plan of tensors that are still on the host brings them along', async () => {
  await using device = openReference()
  using plan = await buildPlan(device, { reads: [Tensor.from([1, 2]).add(1)] })
  expect(await plan.run()).toEqual([new Uint8Array(Float32Array.of(2, 3).buffer)])
})

test('what it reads from outside is found where it was brought', async () => {
  await using device = openReference()
  const count = Tensor.from(0) // on no device yet
  using next = compile((x: Tensor) => {
    count.assign(count.add(x))
    return count.neg()
  })
  expect(await (await next(Tensor.from(2, { device }))).item()).toBe(-2)
  expect(count.device).toBe(device)
  expect(await count.item()).toBe(2)
})

test('a tensor that was assigned another has its own memory: neither sees what is done to the other', async () => {
  await using device = openReference()
  const [a, b] = [Tensor.from([1, 2], { device }), Tensor.zeros([2], { device })]
  await b.assign(a).realize()
  using step = compile(() => {
    a.assign(a.mul(10))
    return a.sum()
  })
  await step()
  expect([await a.toArray(), await b.toArray()]).toEqual([[10, 20], [1, 2]]) // prettier-ignore

  using read = compile(() => b.mul(2))
  expect(await (await read()).toArray()).toEqual([2, 4])
  await b.assign(a).realize()
  await step()
  expect([await a.toArray(), await (await read()).toArray()]).toEqual([[100, 200], [20, 40]]) // prettier-ignore
  b.assign(b)
  expect(await (await read()).toArray()).toEqual([20, 40])
})

test('large arguments and results are named by every call, also where one is given twice or is changed by the call', async () => {
  await using device = await openCpu({ threads: 2 })
  const count = 2000 // more than comes back with the submission
  const ramp = (by: number): Tensor =>
    Tensor.from(
      Float32Array.from({ length: count }, (_, i) => i * by),
      { device },
    )
  const total = await ramp(0).realize()
  using add = compile((a: Tensor, b: Tensor) => {
    total.assign(total.add(a))
    return { sum: a.add(b), total: total.mul(2), same: b }
  })
  const [one, two] = [await ramp(1).realize(), ramp(2)]
  const at = async (tensor: Tensor): Promise<number> => Number((await tensor.data())[1000])
  const first = await add(one, two)
  const second = await add(two, two)
  expect(await Promise.all([first.sum, first.total, first.same, second.sum, second.total].map(at))).toEqual([3000, 2000, 2000, 4000, 6000])
  const third = await add(total, one) // what it reads is what was there before
  expect(await Promise.all([third.sum, third.total, total, one, two].map(at))).toEqual([4000, 12000, 6000, 1000, 2000])
  using replace = compile((a: Tensor) => a.assign(a.mul(3)).add(1))
  expect(await at(await replace(one))).toBe(3001)
  expect(await at(one)).toBe(1000) // the caller's own
})
