import { expect, it } from 'vitest'
import { findDifference } from '../../src/device/compare.ts'
import { runRecord } from '../../src/device/run-record.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import * as webgpu from '../../src/device/webgpu/webgpu.ts'
import { kernelRecords } from '../../src/kernel/index.ts'
import { encodeBlocks } from './block.ts'
import { randomFrom } from './interpret-case.ts'
import type { NumberArray } from '../../src/kernel/record.ts'

const open = process.env['SCRATCH'] === 'cpu' ? () => openCpu({ threads: 2 }) : () => webgpu.webgpu.open()
it('all', async () => {
  const device = await open()
  console.log(device.name, device.detail, JSON.stringify(device.caps))
  const bad: string[] = []
  for (const record of kernelRecords()) {
    let ok = 0
    for (const params of record.cases) {
      const random = randomFrom(7)
      const chosen = record.inputs?.(params, random) ?? {}
      const dev: Record<string, NumberArray> = {}, oracle: Record<string, NumberArray> = {}
      for (const shape of record.buffers(params)) {
        if (shape.role === 'out') continue
        const enc = encodeBlocks(shape, random)
        if (enc) { dev[shape.name] = enc.bytes; oracle[shape.name] = enc.values; continue }
        const v = chosen[shape.name] ?? (['f32','f16','bf16'].includes(shape.type) ? Float32Array.from({ length: shape.elements }, () => Math.round((2 * random() - 1) * 64) / 64) : Uint32Array.from({ length: shape.elements }, () => Math.floor(random() * 2 ** 32)))
        dev[shape.name] = shape.type === 'bf16' ? new Uint8Array(Uint16Array.from(new Uint32Array(Float32Array.from(v).buffer), (b) => b >>> 16).buffer) : v
        oracle[shape.name] = v
      }
      try {
        const got = await runRecord(device, record, params, dev, { sentinels: true })
        for (const [name, want] of Object.entries(record.define(oracle, params))) {
          const d = findDifference(got[name], want, record.tolerance)
          if (d) bad.push(`${record.name} ${JSON.stringify(params)} ${name}: ${d}`)
          else ok++
        }
      } catch (e) { bad.push(`${record.name} ${JSON.stringify(params)}: ${String((e as Error).message).slice(0, 300)}`) }
    }
    console.log(record.name, ok, '/', record.cases.length)
  }
  console.log(bad.slice(0, 40).join('\n'))
  await device.close()
  expect(bad.length).toBe(0)
}, 120000)
