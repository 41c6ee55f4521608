// What only WebGPU has: adapters, late errors, a device that can be lost, compilers that complain.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { Command, Device } from '../../src/device/device.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import { norm } from '../../src/kernel/reduce/norm.ts'
import { findAdapter, isSoftware, requestDevice } from '../../src/device/webgpu/adapter.ts'
import { Pipelines } from '../../src/device/webgpu/pipeline.ts'
import { openOn, webgpu } from '../../src/device/webgpu/webgpu.ts'
import { runFamily } from '../../src/device/open/run-family.ts'
import { selfTest, selfTestCases } from '../../src/device/open/self-test.ts'
import { floats, put, scale, scaling, subtraction, toFloats } from './kernels.ts'
import { missingGpu } from './missing.ts'

const missing = await missingGpu()
const SUBGROUP = { swiftshader: 4, lavapipe: 8 }[process.env.INGOT_WEBGPU_DRIVER ?? '']

describe('webgpu', () => {
  let raw: GPUDevice
  let device: Device
  beforeEach(async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const adapter = await findAdapter()
    raw = await requestDevice(adapter)
    device = openOn(adapter, raw)
  })
  afterEach(async () => {
    await device?.close()
  })

  const failure = async (act: () => unknown): Promise<string> => {
    try {
      await act()
      return 'nothing was thrown'
    } catch (error) {
      return isIngotError(error) ? `${error.code}: ${error.message}` : `not an error of Ingot: ${String(error)}`
    }
  }

  it('says what it is', async () => {
    expect(isSoftware(await findAdapter())).toBe(true)
    expect(device.caps.subgroup).toBe(SUBGROUP)
    expect(device.caps.lanes).toBeGreaterThanOrEqual(256)
    expect(device.caps.bufferBytes % 16).toBe(0)
    expect(device.detail).toMatch(/software$/)
    const probe = await webgpu.probe()
    expect(probe).toMatchObject({ available: true, software: true, detail: device.detail })
    expect(probe.key).not.toBe('')
  })

  it('passes its self-test', async () => {
    // SwiftShader takes seconds to compile a matmul; test/conformance runs it once
    const cases = selfTestCases(device.caps).filter(({ family, params }) => !family.form(device.caps, params)?.name.startsWith('matmul'))
    const { passed, failed } = await selfTest(device, cases)
    expect(failed).toEqual([])
    expect(passed).toHaveLength(cases.length)
  })

  it('runs a kernel for subgroups of a size it does not have', async () => {
    const sums = kernel(
      'sums',
      { params: { x: buffer('f32', 'read'), y: buffer('f32', 'write') }, workgroup: [32], subgroup: 16 },
      ({ x, y }, k) => {
        const total = k.shared('total', 'f32', 2)
        const sum = k.subSum(x.at(k.globalId.x))
        k.when(k.sublane.eq(0), () => total.set(k.subgroupId, sum))
        k.barrier()
        y.set(k.globalId.x, total.at(0).sub(total.at(1)))
      },
    )
    const x = Float32Array.from({ length: 64 }, (_, i) => (i % 7) - 3)
    const [from, to] = [device.alloc(256), device.alloc(256)]
    device.write(from, 0, new Uint8Array(x.buffer))
    const program = await device.compile(sums)
    await device.submit([
      { kind: 'dispatch', program, buffers: [{ buffer: from }, { buffer: to }], uniforms: new Uint8Array(), grid: [2, 1, 1] },
    ])
    const sumOf = (start: number): number => x.subarray(start, start + 16).reduce((a, b) => a + b, 0)
    const expected = Array.from({ length: 64 }, (_, i) => (i < 32 ? sumOf(0) - sumOf(16) : sumOf(32) - sumOf(48)))
    expect(Array.from(new Float32Array((await device.read(to, 0, 256)).slice().buffer))).toEqual(expected)
  })

  it('runs a record without and with subgroups', async () => {
    for (const subgroup of [0, device.caps.subgroup]) {
      const record = {
        ...norm,
        work: (caps: typeof device.caps, params: (typeof norm.cases)[number]) => norm.work({ ...caps, subgroup }, params),
      }
      const x = Float32Array.from({ length: 2 * 67 }, (_, i) => Math.sin(i))
      const { y } = await runFamily(device, record, norm.cases[1]!, { x }, { sentinels: true })
      const want = norm.define({ x }, norm.cases[1]!).y!
      expect(Math.max(...want.map((v, i) => Math.abs(v - y![i]!)))).toBeLessThan(1e-5)
    }
  })

  it('shows the line of a compile error', async () => {
    const pipelines = new Pipelines(raw, device.caps, () => ({
      entry: 'main',
      workgroup: [1, 1, 1],
      text: '@compute @workgroup_size(1)\nfn main() {\n  let x: f32 = 1u;\n}\n',
    }))
    const text = await failure(() => pipelines.compile(scale).program)
    expect(text).toMatch(/^compile-failed: scale: WGSL line 3: .*\n {2}let x: f32 = 1u;/)
    await device.sync() // and it is not reported again
  })

  it('compiles a variant once for a buffer that is read and written', async () => {
    const { alignment } = device.caps
    const arena = device.alloc(3 * alignment)
    device.write(arena, 0, floats(...Array.from({ length: (2 * alignment) / 4 }, (_, i) => i)))
    const range = (index: number) => ({ buffer: arena, offset: index * alignment, bytes: 128 })
    const command = await subtraction(device, range(0), range(1), range(2), 32)
    let pipelines = 0
    const create = raw.createComputePipeline
    raw.createComputePipeline = (descriptor) => {
      pipelines++
      return create.call(raw, descriptor)
    }
    for (let i = 0; i < 3; i++) await device.submit([command])
    using recording = device.record([command, { kind: 'read', from: range(2), bytes: 128 }])
    const [got] = await device.submit(recording)
    expect(toFloats(got!)).toEqual(Array.from({ length: 32 }, () => -alignment / 4))
    expect(pipelines).toBe(1)
  })

  it('rejects a submission that WebGPU refuses, and goes on', async () => {
    const [x, y] = [put(device, [1]), device.alloc(4)]
    const work: Command[] = [await scaling(device, { buffer: x }, { buffer: y }, 1, 3), { kind: 'read', from: { buffer: y }, bytes: 4 }]
    const create = raw.createBindGroup
    raw.createBindGroup = (descriptor) => create.call(raw, { ...descriptor, entries: [] })
    const recording = device.record(work)
    expect(await failure(() => device.submit(work))).toMatch(/^device-failed: /)
    expect(await failure(() => device.submit(recording))).toMatch(/^device-failed: record: /)
    raw.createBindGroup = create
    await device.sync()
    expect(toFloats((await device.submit(work))[0]!)).toEqual([3])
    recording[Symbol.dispose]()
  })

  it('fails the work that uses a buffer which could not be made, and goes on', async () => {
    const create = raw.createBuffer
    raw.createBuffer = (descriptor) => create.call(raw, { ...descriptor, usage: 0 })
    const broken = device.alloc(4096)
    raw.createBuffer = create
    device.write(broken, 0, floats(1))
    expect(await failure(() => device.read(broken, 0, 4))).toMatch(/^out-of-memory: alloc: .*4096 bytes/)
    expect(await failure(() => device.submit([{ kind: 'fill', to: { buffer: broken }, bytes: 4, value: 0 }]))).toMatch(/^out-of-memory: /)
    device.free(broken)
    const again = device.alloc(4096) // not the broken one from the pool
    device.write(again, 0, floats(2))
    expect(toFloats(await device.read(again, 0, 4))).toEqual([2])
  })

  it('takes bytes of memory that threads share', async () => {
    const x = device.alloc(8)
    const bytes = new Uint8Array(new SharedArrayBuffer(8))
    bytes.set(floats(3, 4))
    device.write(x, 0, bytes)
    expect(toFloats(await device.read(x, 0, 8))).toEqual([3, 4])
  })

  it('loads more than one piece', async () => {
    const bytes = 40 * 2 ** 20 + 3
    const asked: number[] = []
    const handle = await device.load({
      bytes,
      read: async (at, length) => {
        asked.push(length)
        return new Uint8Array(length).fill(at / 2 ** 20 + 1)
      },
    })
    expect(asked.reduce((a, b) => a + b)).toBe(bytes)
    expect(asked.length).toBeGreaterThan(1)
    expect([...(await device.read(handle, 16 * 2 ** 20 - 4, 8))]).toEqual([1, 1, 1, 1, 17, 17, 17, 17])
    expect([...(await device.read(handle, 40 * 2 ** 20, 4))].slice(0, 3)).toEqual([33, 33, 33])
    expect(await failure(() => device.load({ bytes: 8, read: async () => new Uint8Array(4) }))).toMatch(/^bad-file: /)
  })

  it('says that it is lost, in what was running and in every later call', async () => {
    const x = put(device, [1])
    await device.read(x, 0, 4) // Dawn may crash when it is destroyed with error scopes unanswered
    const running = failure(() => device.read(x, 0, 4))
    raw.destroy()
    expect(await running).toMatch(/^device-lost: |^nothing/) // the copy may have been done in time
    await raw.lost
    for (const act of [
      () => device.alloc(4),
      () => device.free(x),
      () => device.write(x, 0, floats(1)),
      () => device.read(x, 0, 4),
      () => device.compile(scale),
      () => device.submit([]),
      () => device.record([]),
      () => device.sync(),
      () => device.load({ bytes: 4, read: async () => new Uint8Array(4) }),
    ])
      expect(await failure(act)).toMatch(/^device-lost: /)
    await device.close()
    expect(await failure(() => device.alloc(4))).toMatch(/^closed: /)
  })
})
