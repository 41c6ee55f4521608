// Nothing escapes the conformance suite: whatever models and commands dispatch comes from a family and form that has cases of its own, on
// every kind of device.

import { existsSync } from 'node:fs'
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Caps } from '../../src/base/caps.ts'
import type { Width } from '../../src/base/dtype.ts'
import { LEVELS, cpuCaps } from '../../src/device/cpu/level.ts'
import type { Device } from '../../src/device/device.ts'
import { DEVICES } from '../../src/device/open/open.ts'
import { REFERENCE_CAPS } from '../../src/device/reference/reference.ts'
import { deferredKernel } from '../../src/ir/author.ts'
import { describeOrigin, hashKernel } from '../../src/ir/hash.ts'
import type { Kernel } from '../../src/ir/kernel.ts'
import { isCpu } from '../../src/kernel/family.ts'
import { collectKernels } from '../../src/llm/kernel-list.ts'
import { ingot, useTinyFile } from '../cli/command-line.ts'
import { Coverage, runModels } from './coverage.ts'
import { noting } from './noting.ts'

const native = (width: Width, registers: number, threads = 2): Caps => cpuCaps({ width, registers, threads, bufferBytes: 2 ** 34 })
const CAPS: Readonly<Record<string, Caps>> = {
  'the reference': REFERENCE_CAPS,
  'a GPU with matrix tiles and halves': { ...REFERENCE_CAPS, subgroup: 32, tiles: true, f16: true },
  'a GPU without subgroups': { ...REFERENCE_CAPS, subgroup: 0, tiles: false, f16: false },
  ...Object.fromEntries(
    LEVELS.map(({ width, registers }) => [`native code with ${registers} vectors of ${width}`, native(width, registers)]),
  ),
  'native code on many threads': native(8, 16, 64),
  WebAssembly: cpuCaps({ width: 4, threads: 2, bufferBytes: 2 ** 31, streams: 4 }),
}

describe.each(Object.entries(CAPS))('%s', (_name, caps) => {
  const coverage = new Coverage(isCpu(caps) ? { ...caps, parallel: 2 } : caps) // the suite runs on two threads
  /** all that models dispatch */
  const dispatched = new Set<Kernel>()
  beforeAll(() => runModels(caps, (kernel) => dispatched.add(kernel)), 120_000)

  test('every kernel that models dispatch has a case', () => {
    const missing = new Set([...dispatched].flatMap((kernel) => coverage.missing(kernel)))
    expect([...missing].slice(0, 20)).toEqual([])
    const families = new Set([...dispatched].map(({ origin }) => origin?.family ?? 'none'))
    expect(families.size).toBeGreaterThan(8) // it has really looked
  })

  test('every kernel that libraries are made of has a case', () => expect(coverage.unseen().slice(0, 20)).toEqual([]))

  if (!isCpu(caps)) return
  test('the list of kernels that set-up compiles leaves none to WebAssembly', async () => {
    const { kernels, failed } = await collectKernels({ ...caps, parallel: 2 })
    const listed = new Set(kernels.map(hashKernel))
    const left = [...dispatched].filter((kernel) => !listed.has(hashKernel(kernel)))
    const names = new Set(left.map(({ name, origin }) => (origin === undefined ? name : describeOrigin(origin))))
    expect({ failed, left: [...names].slice(0, 20) }).toEqual({ failed: [], left: [] })
  }, 120_000)
})

describe('commands', () => {
  const files = useTinyFile()
  let noted: { device: Device; kernel: Kernel }[]
  beforeEach(() => {
    noted = []
    for (const line of DEVICES) {
      const load = line.load.bind(line)
      vi.spyOn(line, 'load').mockImplementation(async () => {
        const factory = await load()
        return {
          ...factory,
          open: async (options) => {
            const device = await factory.open(options)
            return noting(device, (kernel) => noted.push({ device, kernel }))
          },
        }
      })
    }
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })

  const model = ['-d', 'cpu', '--threads', '2']
  test.each([
    ['run', () => ['run', files.model, ...model, '-p', 'abc', '-n', '4', '--ignore-eos']],
    ['run --temp 0', () => ['run', files.model, ...model, '-p', 'abc', '-n', '4', '--temp', '0', '--ignore-eos']],
    ['eval', () => ['eval', files.model, ...model, '--tokens', '1,260,261', '-o', `${files.folder}/logits.bin`]],
    ['compare', () => ['compare', files.model, '--devices', 'cpu,reference', '-p', 'ab']],
    ['quantize', () => ['quantize', `${files.folder}/q8.gguf`, `${files.folder}/q4.gguf`, '--type', 'q4_0']],
    ['doctor', () => ['doctor']],
  ] as const)(
    '%s dispatches only what has a case',
    async (_name, args) => {
      if (!existsSync(`${files.folder}/q8.gguf`)) await ingot('quantize', files.model, `${files.folder}/q8.gguf`, '--type', 'q8_0')
      noted.length = 0
      const { code, stderr } = await ingot(...args())
      expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
      expect(noted.length).toBeGreaterThan(0)
      const coverages = new Map<Device, Coverage>()
      const missing = noted.flatMap(({ device, kernel }) => {
        const known = coverages.get(device) ?? new Coverage(device.caps)
        coverages.set(device, known)
        return known.missing(kernel).map((name) => `${device.name}: ${name}`)
      })
      expect([...new Set(missing)]).toEqual([])
    },
    60_000,
  )
})

test('a kernel that no case has seen is found', () => {
  const traits = { format: 'q4_k', columns: 3, width: 8, added: 'bias', streams: 1 }
  const kernel = deferredKernel({ family: 'packedLinear', form: 'other', stage: '', traits }, 'other', { params: {} }, () => {})
  expect(new Coverage(native(8, 16)).missing(kernel)).toHaveLength(1)
})
