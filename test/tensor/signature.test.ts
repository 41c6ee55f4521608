// Graphs that are alike are known again by numbers: nothing is planned twice, and nothing that differs is taken for the same.

import { expect, test } from 'vitest'
import { openReference } from '../../src/device/reference/reference.ts'
import { kindOf } from '../../src/tensor/kind.ts'
import { type Signature, SignatureMap, numberNodes, signatureOf } from '../../src/tensor/signature.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

const signature = (roots: readonly Tensor[], keep = false): readonly number[] =>
  signatureOf(numberNodes(roots.map(({ node }) => node)), { reads: roots.length, back: [0], keep: () => keep }).words

test('a graph that comes again asks the device for no kernel', async () => {
  await using device = openReference()
  const asked = (): number => device.stats.compiles + device.stats.compileHits
  const step = (x: Tensor): Promise<unknown> => x.add(1).softmax().cumsum(0).data()
  await step(Tensor.from([1, 2, 3], { device }))
  const before = asked()
  expect(await step(Tensor.from([3, 2, 1], { device }))).toEqual(await step(Tensor.from([3, 2, 1], { device })))
  expect(asked()).toBe(before)
  await step(Tensor.from([1, 2, 3, 4], { device }))
  expect(asked()).toBeGreaterThan(before)
})

test('equal operations are of one kind, and those that differ in anything are not', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2, 3, 4], { device })
  const kind = (tensor: Tensor): number => kindOf(tensor.node).number
  expect(kind(x.add(1))).toBe(kind(Tensor.from([5, 6, 7, 8], { device }).add(1)))
  expect(kind(x.sum(0, true))).toBe(kind(x.sum(0, true)))
  const others = [x.add(1), x.add(2), x.add(0), x.add(-0), x.add(NaN), x.mul(1), x.add(x), x.sum(0), x.sum(0, true), x]
  const longer = Tensor.from([1, 2, 3, 4, 5], { device })
  expect(new Set([...others, longer.add(1), longer].map(kind)).size).toBe(others.length + 2)
  // what has been computed is memory from then on
  const y = x.add(1)
  const before = kind(y)
  await y.realize()
  expect(kind(y)).not.toBe(before)
  expect(kind(y)).toBe(kind(x))
})

test('what a caller does to the lists it gave changes no tensor', async () => {
  await using device = openReference()
  const x = Tensor.from([1, 2, 3, 4, 5, 6], { device })
  const shape = [2, 3]
  const y = x.reshape(...shape)
  const args = [{ input: 0 }, { const: 2, type: 'f32' as const }]
  const z = x.expression({ op: 'mul', args }, [x], 'f32')
  shape[0] = 3
  args[1] = { const: 5, type: 'f32' as const }
  expect(y.shape).toEqual([2, 3])
  expect(await x.expression({ op: 'mul', args: [{ input: 0 }, { const: 2, type: 'f32' }] }, [x], 'f32').toArray()).toEqual([
    2, 4, 6, 8, 10, 12,
  ])
  expect(await z.toArray()).toEqual([2, 4, 6, 8, 10, 12])
})

test('a wrong operand is refused also where the same operation was made before', () => {
  const [two, three] = [Tensor.from([1, 2]), Tensor.from([1, 2, 3])]
  for (let i = 0; i < 2; i++) {
    expect(two.add(two).shape).toEqual([2])
    expect(() => two.add(three)).toThrow(/do not broadcast/)
  }
})

test('signatures tell apart which operands are the same, how many there are, and what is kept', () => {
  const [a, b] = [Tensor.from([1, 2]), Tensor.from([3, 4])]
  const [long, short] = [Tensor.from([1, 2, 3, 4]), Tensor.from([1, 2])]
  expect(signature([a.exp().add(b.exp())])).toEqual(signature([b.exp().add(a.exp())]))
  expect(signature([a.exp().add(a.exp())])).not.toEqual(signature([a.exp().add(b.exp())]))
  expect(signature([Tensor.concat([long, short])])).not.toEqual(signature([Tensor.concat([short, a, b])]))
  expect(signature([a.exp()], true)).not.toEqual(signature([a.exp()]))
  expect(signature([a.exp(), a])).not.toEqual(signature([a, a.exp()]))
})

test('thousands of different operations are told apart, and the first of them is right again', async () => {
  await using device = openReference()
  const x = Tensor.from([1], { device })
  const kept = x.add(0.5)
  for (let i = 0; i < 5000; i++) expect(x.add(i).shape).toEqual([1])
  expect(await x.add(7).toArray()).toEqual([8])
  expect(await kept.add(x.add(0.5)).toArray()).toEqual([3])
})

test('a map of signatures forgets what was longest unused, and compares where hashes are the same', () => {
  const forgotten: string[] = []
  const map = new SignatureMap<string>(2, (value) => void forgotten.push(value))
  const of = (...words: number[]): Signature => ({ words, hash: 1 })
  map.set(of(1), 'one')
  map.set(of(1, 2), 'two')
  expect([map.get(of(1)), map.get(of(1, 2)), map.get(of(2))]).toEqual(['one', 'two', undefined])
  map.get(of(1))
  map.set({ words: [3], hash: 2 }, 'three')
  expect(forgotten).toEqual(['two'])
  map.set(of(1), 'other one')
  expect([map.get(of(1)), map.get(of(1, 2)), map.get({ words: [3], hash: 2 })]).toEqual(['other one', undefined, 'three'])
  expect(forgotten).toEqual(['two'])
})
