import { expect, test } from 'vitest'
import { storageBytes, widthOf } from '../../src/base/dtype.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import { interpret } from '../../src/ir/interpret/interpret.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { Interner, type Node, walk } from '../../src/ir/node.ts'
import { OPS } from '../../src/ir/op.ts'
import { printKernel } from '../../src/ir/print.ts'
import { type RandomOptions, compareOutputs, randomKernel } from './random.ts'

const KINDS: readonly RandomOptions[] = [
  {},
  { subgroup: 4, tiles: true },
  { subgroup: 32 },
  { f16: false, narrow: false },
  { f64: true },
  { f64: true, subgroup: 8 },
  { workgroupMax: 1 },
]

test('500 random kernels verify, print and run without a report', () => {
  const used = new Set<string>()
  for (let seed = 0; seed < 500; seed++) {
    const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, KINDS[seed % KINDS.length])
    walk(kernel.body, ({ op }) => used.add(op))
    const first = buffers()
    try {
      interpret(kernel, { buffers: first, uniforms, grid })
    } catch (error) {
      throw new Error(`seed ${seed}: ${String(error)}\n${printKernel(kernel)}`, { cause: error })
    }
    if (seed % 10 === 0) {
      const second = buffers()
      interpret(kernel, { buffers: second, uniforms, grid }, { check: false })
      compareOutputs(first, second, outputs)
    }
    for (const { name, storage } of outputs) {
      const { buffer, byteLength } = first[name]!
      if (storage === 'f32' && !new Float32Array(buffer, 0, byteLength / 4).every((value) => Math.abs(value) <= 300))
        throw new Error(`seed ${seed}: ${name} is not tame`)
    }
  }
  expect(Object.keys(OPS).filter((op) => !used.has(op))).toEqual([])
})

/** Rebuilds `root` bottom-up in a new interner; `change` may return another node for one whose operands are already new. */
function rewrite(root: Node, into: Interner, change: (node: Node, src: readonly Node[]) => Node | undefined): Node {
  const done = new Map<Node, Node>()
  const go = (node: Node): Node => {
    const known = done.get(node)
    if (known !== undefined) return known
    const src = node.src.map(go)
    const result = change(node, src) ?? into.make(node.op, node.dtype, src, node.arg)
    done.set(node, result)
    return result
  }
  return go(root)
}

/** The same kernel as a target may round it: products before sums, sums of vectors pairwise. */
function roundedOtherwise(kernel: Kernel): Kernel {
  const interner = new Interner()
  const body = rewrite(kernel.body, interner, ({ op, dtype }, src) => {
    if (op === 'fma') return interner.make('add', dtype, [interner.make('mul', dtype, src.slice(0, 2)), src[2]!])
    if (op !== 'hsum') return undefined
    const vectorOf = src[0]!
    const lanes = Array.from({ length: widthOf(vectorOf.dtype) }, (_, at) => interner.make('extract', dtype, [vectorOf], at))
    for (let count = lanes.length / 2; count >= 1; count /= 2) {
      for (let at = 0; at < count; at++) lanes[at] = interner.make('add', dtype, [lanes[at]!, lanes[at + count]!])
    }
    return lanes[0]
  })
  return { ...kernel, body, interner }
}

test.each([1000, 1050, 1100, 1150])('what a target may round otherwise stays within the tolerance, seeds from %i', (first) => {
  for (let seed = first; seed < first + 50; seed++) {
    const { kernel, buffers, uniforms, grid, outputs } = randomKernel(seed, KINDS[seed % KINDS.length])
    const [expected, actual] = [buffers(), buffers()]
    interpret(kernel, { buffers: expected, uniforms, grid }, { check: false })
    interpret(roundedOtherwise(kernel), { buffers: actual, uniforms, grid }, { check: false })
    expect(() => compareOutputs(expected, actual, outputs), `seed ${seed}`).not.toThrow()
  }
})

test('a seed always gives the same kernel and the same bytes', () => {
  const [a, b] = [randomKernel(7), randomKernel(7)]
  expect(hashKernel(a.kernel)).toBe(hashKernel(b.kernel))
  expect(a.buffers()).toEqual(b.buffers())
  expect(hashKernel(a.kernel)).not.toBe(hashKernel(randomKernel(8).kernel))
})

test('a difference is found', () => {
  const { buffers, outputs } = randomKernel(1)
  for (const { name, storage } of outputs) {
    const changed = buffers()
    changed[name]![storageBytes(storage) / widthOf(storage) - 1]! ^= 2
    expect(() => compareOutputs(buffers(), changed, outputs)).toThrow(new RegExp(`${name}\\[0\\] differs`))
  }
})
