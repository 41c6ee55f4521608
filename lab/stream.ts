// What a machine can do at most, measured in the kernel language on the same device: reading memory in a row, and multiplying and
// adding in registers. The yardsticks beside which the experiments print their numbers.

import type { Device } from '../src/device/device.ts'
import { type Scope, buffer, kernel, uniform } from '../src/ir/author.ts'
import type { Value } from '../src/ir/value.ts'
import { commandsOf, time } from './lab.ts'

/** vectors of four that one workgroup sums: 64 KiB */
const CHUNK = 4096
const CHAINS = 8
const TURNS = 4096

/** Bytes per second of a sum over `bytes` of memory, best of the samples. */
export async function readBandwidth(device: Device, bytes: number, samples: number): Promise<number> {
  const { caps } = device
  const lanes = caps.lanes === 1 ? 1 : 64
  const groups = Math.min(Math.floor(Math.min(bytes, caps.bindingBytes) / (16 * CHUNK)), caps.grid)
  const sum = kernel('stream', { params: { x: buffer('f32x4', 'read'), y: buffer('f32', 'write') }, workgroup: [lanes] }, (p, k) => {
    const start = k.let('start', k.workgroupId.x.mul(CHUNK))
    const sums = Array.from({ length: 4 }, () => k.var('sum', k.const('f32', 0).splat(4)))
    k.for({ name: 'i', from: k.lane, to: CHUNK, step: 4 * lanes }, (i) => {
      sums.forEach((each, part) => each.set(each.get().add(p.x.at(start.add(i).add(part * lanes)))))
    })
    p.y.set(k.workgroupId.x.mul(lanes).add(k.lane), sums.map((each) => each.get()).reduce((a, b) => a.add(b)).hsum())
  })
  const [x, y] = [device.alloc(groups * CHUNK * 16), device.alloc(groups * lanes * 4)]
  try {
    await device.submit([{ kind: 'fill', to: { buffer: x }, bytes: groups * CHUNK * 16, value: 0 }])
    const commands = await commandsOf(device, { launches: [{ kernel: sum, uniforms: {}, grid: [groups, 1, 1] }] }, { x, y })
    const { best } = await time(device, commands, samples)
    return (groups * CHUNK * 16) / best
  } finally {
    device.free(x)
    device.free(y)
  }
}

/** f32 multiplications and additions per second in registers, best of the samples. */
export async function arithmeticPeak(device: Device, samples: number): Promise<number> {
  const { caps } = device
  const lanes = caps.lanes === 1 ? 1 : 64
  const groups = caps.parallel * (lanes === 1 ? 4 : 64)
  const width = lanes === 1 ? caps.width : 4
  const chains = kernel('chains', { params: { y: buffer('f32', 'write'), a: uniform('f32') }, workgroup: [lanes] }, (p, k: Scope) => {
    const factor = (p.a as Value<'f32'>).splat(width)
    const sums = Array.from({ length: CHAINS }, (_, i) => k.var('sum', k.const('f32', i).splat(width)))
    k.for({ name: 'i', to: TURNS }, () => sums.forEach((sum) => sum.set(sum.get().mul(factor).add(factor))))
    p.y.set(k.workgroupId.x.mul(lanes).add(k.lane), sums.map((sum) => sum.get()).reduce((a, b) => a.add(b)).hsum())
  })
  const y = device.alloc(groups * lanes * 4)
  try {
    const commands = await commandsOf(device, { launches: [{ kernel: chains, uniforms: { a: 0.5 }, grid: [groups, 1, 1] }] }, { y })
    const { best } = await time(device, commands, samples)
    return (2 * CHAINS * TURNS * width * lanes * groups) / best
  } finally {
    device.free(y)
  }
}
