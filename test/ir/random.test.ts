import { expect, test } from 'vitest'
import { storageBytes, widthOf } from '../../src/base/dtype.ts'
import { hashKernel } from '../../src/ir/hash.ts'
import { interpret } from '../../src/ir/interpret.ts'
import { walk } from '../../src/ir/node.ts'
import { OPS } from '../../src/ir/op.ts'
import { printKernel } from '../../src/ir/print.ts'
import { type RandomOptions, compareOutputs, randomKernel } from './random.ts'

const KINDS: readonly RandomOptions[] = [{}, { subgroup: 4, tiles: true }, { subgroup: 32 }, { f16: false, narrow: false }, { workgroupMax: 1 }]

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
    const second = buffers()
    interpret(kernel, { buffers: second, uniforms, grid }, { check: false })
    compareOutputs(first, second, outputs)
    for (const { name, storage } of outputs) {
      const { buffer, byteLength } = first[name]!
      if (storage === 'f32' && !new Float32Array(buffer, 0, byteLength / 4).every((value) => Math.abs(value) <= 300)) throw new Error(`seed ${seed}: ${name} is not tame`)
    }
  }
  expect(Object.keys(OPS).filter((op) => !used.has(op))).toEqual([])
})

test('a seed always gives the same kernel and the same bytes', () => {
  const [a, b] = [randomKernel(7), randomKernel(7)]
  expect(hashKernel(a.kernel)).toBe(hashKernel(b.kernel))
  expect(a.buffers()).toEqual(b.buffers())
  expect(hashKernel(a.kernel)).not.toBe(hashKernel(randomKernel(8).kernel))
})

test('a difference is found', () => {
  const { buffers, outputs } = randomKernel(3)
  for (const { name, storage } of outputs) {
    const changed = buffers()
    changed[name]![storageBytes(storage) / widthOf(storage) - 1]! ^= 2
    expect(() => compareOutputs(buffers(), changed, outputs)).toThrow(new RegExp(`${name}\\[0\\] differs`))
  }
})
