// The rules of device.ts as tests, the same for every device. A device is one line in a *.test.ts beside this file.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { decodeElements, encodeElements } from '../../src/base/element.ts'
import { type ErrorCode, IngotError } from '../../src/base/error.ts'
import type { BufferHandle, ByteRange, Command, Device, Dispatch } from '../../src/device/device.ts'
import { openNull } from '../../src/device/null/null.ts'
import { buffer, kernel } from '../../src/ir/author.ts'
import { testBlanks } from './blank.ts'
import { LANES, failure, floats, grow, put, roundTrip, scale, scaling, stepping, subtraction, toFloats } from './kernels.ts'

export interface ContractOptions {
  /** false for a device whose dispatches do nothing */
  readonly runs?: boolean
  /** why the device cannot be tested here */
  readonly missing?: string | undefined
}

const NUMBERS = Array.from({ length: 100 }, (_, i) => i - 50)

/** `open` gives a new device each time. */
export function testContract(name: string, open: () => Promise<Device>, { runs = true, missing }: ContractOptions = {}): void {
  describe(`${name} keeps the rules of a device`, () => {
    let device: Device
    beforeAll(async () => {
      if (missing === undefined) device = await open()
    })
    beforeEach(({ skip }) => {
      if (missing !== undefined) skip(missing)
    })
    afterAll(async () => {
      await device?.close()
    })

    describe('memory', () => {
      it('gives out handles that count on', () => {
        const [a, b] = [device.alloc(4), device.alloc(4)]
        expect(a).toBeGreaterThanOrEqual(1)
        expect(b).toBe(a + 1)
        device.free(a)
        device.free(b)
      })

      it('gives back what was written, at any offset', async () => {
        const x = device.alloc(1000)
        const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i * 7)
        device.write(x, 0, bytes)
        expect(await device.read(x, 0, 1000)).toEqual(bytes)
        device.write(x, 400, floats(5, 6))
        expect(toFloats(await device.read(x, 400, 8))).toEqual([5, 6])
        expect(await device.read(x, 396, 4)).toEqual(bytes.slice(396, 400))
        expect(await device.read(x, 0, 0)).toEqual(new Uint8Array(0))
        device.free(x)
      })

      it('takes the bytes before write returns, and reads what was there when read was called', async () => {
        const x = put(device, [1])
        const bytes = floats(2)
        device.write(x, 0, bytes)
        bytes.fill(0)
        const before = device.read(x, 0, 4)
        device.write(x, 0, floats(3))
        expect(toFloats(await before)).toEqual([2])
        expect(toFloats(await device.read(x, 0, 4))).toEqual([3])
        device.free(x)
      })

      it('holds sizes that are not multiples of 4', async () => {
        const x = device.alloc(6)
        device.write(x, 4, new Uint8Array([1, 2, 3, 4]))
        expect((await device.read(x, 4, 4)).slice(0, 2)).toEqual(new Uint8Array([1, 2]))
        expect(await failure(() => device.write(x, 8, new Uint8Array(4)))).toMatch(/^out-of-range:/)
        device.free(x)
      })

      it.each([0, -4, 1.5, NaN, Infinity])('refuses to allocate %s bytes', async (bytes) => {
        expect(await failure(() => device.alloc(bytes))).toMatch(/^bad-argument:/)
      })

      it('refuses more than its limit, and says the limit', async () => {
        expect(await failure(() => device.alloc(device.caps.bufferBytes + 1))).toMatch(
          new RegExp(`^too-large:.*${device.caps.bufferBytes}`),
        )
      })

      it('refuses handles it does not know', async () => {
        for (const handle of [0, -1, 1e9, 1.5, NaN] as BufferHandle[]) {
          expect(await failure(() => device.free(handle))).toMatch(/^unknown-handle:/)
          expect(await failure(() => device.write(handle, 0, new Uint8Array(4)))).toMatch(/^unknown-handle:/)
          expect(await failure(() => device.read(handle, 0, 4))).toMatch(/^unknown-handle:/)
          expect(await failure(() => device.submit([{ kind: 'fill', to: { buffer: handle }, bytes: 4, value: 0 }]))).toMatch(
            /^unknown-handle:/,
          )
        }
      })

      it('refuses handles of another device', async () => {
        const other = openNull()
        const own = device.alloc(16)
        for (let i = 0; i < 8; i++) expect(await failure(() => device.free(other.alloc(16)))).toMatch(/^unknown-handle:/)
        device.free(own)
        await other.close()
      })

      it('refuses a second free, and use after free', async () => {
        const x = device.alloc(64)
        device.free(x)
        expect(await failure(() => device.free(x))).toMatch(/^double-free:/)
        expect(await failure(() => device.write(x, 0, new Uint8Array(4)))).toMatch(/^unknown-handle: .*freed/s)
        expect(await failure(() => device.read(x, 0, 4))).toMatch(/^unknown-handle: .*freed/s)
        expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
      })

      it('refuses what is past the end or not a multiple of 4, and changes nothing', async () => {
        const x = put(device, [1, 2])
        expect(await failure(() => device.write(x, 4, floats(7, 8)))).toMatch(/^out-of-range:/)
        expect(await failure(() => device.write(x, 8, floats(7)))).toMatch(/^out-of-range:/)
        expect(await failure(() => device.write(x, 2, floats(7)))).toMatch(/^bad-argument:/)
        expect(await failure(() => device.write(x, 0, new Uint8Array(3)))).toMatch(/^bad-argument:/)
        expect(await failure(() => device.write(x, -4, floats(7)))).toMatch(/^bad-argument:/)
        expect(await failure(() => device.read(x, 0, 12))).toMatch(/^out-of-range:/)
        expect(await failure(() => device.read(x, 0, 3))).toMatch(/^bad-argument:/)
        expect(toFloats(await device.read(x, 0, 8))).toEqual([1, 2])
        device.free(x)
      })

      it('loads a range, which nothing can write to', async () => {
        const bytes = Uint8Array.from({ length: 4099 }, (_, i) => i * 3)
        const range: ByteRange = { bytes: bytes.length, read: async (at, length) => bytes.slice(at, at + length) }
        const x = await device.load(range)
        expect((await device.read(x, 0, 4100)).slice(0, 4099)).toEqual(bytes)
        expect(await failure(() => device.write(x, 0, new Uint8Array(4)))).toMatch(/^bad-argument: .*loaded/s)
        expect(await failure(() => device.submit([{ kind: 'fill', to: { buffer: x }, bytes: 4, value: 0 }]))).toMatch(
          /^bad-argument: .*loaded/s,
        )
        device.free(x)
        expect(await failure(() => device.load({ ...range, bytes: 0 }))).toMatch(/^bad-argument:/)
        expect(await failure(() => device.load({ bytes: 8, read: () => Promise.reject(new IngotError('bad-file', 'gone')) }))).toMatch(
          /^bad-file:/,
        )
        expect(await failure(() => device.load({ bytes: 8, read: async () => new Uint8Array(0) }))).toMatch(/^bad-file:/)
        expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
      })

      it('counts what lives and serves freed memory again', () => {
        const before = { ...device.stats }
        const x = device.alloc(5000)
        expect(device.stats.buffers - before.buffers).toBe(1)
        expect(device.stats.bytesLive - before.bytesLive).toBe(5000)
        device.free(x)
        expect(device.stats.bytesLive).toBe(before.bytesLive)
        const y = device.alloc(4990)
        device.free(y)
        const { poolHits, poolMisses } = device.stats
        expect(poolHits - before.poolHits).toBeGreaterThanOrEqual(1)
        expect(poolHits + poolMisses - before.poolHits - before.poolMisses).toBe(2)
      })

      it('counts bytes written and read', async () => {
        const before = { ...device.stats }
        const x = put(device, [1, 2, 3])
        await device.read(x, 4, 8)
        expect(device.stats.bytesWritten - before.bytesWritten).toBe(12)
        expect(device.stats.bytesRead - before.bytesRead).toBe(8)
        device.free(x)
      })
    })

    describe('programs', () => {
      it('computes with 64-bit floats, or says that it has none', async () => {
        if (!device.caps.f64)
          return expect(await failure(() => device.compile(grow))).toMatch(/^unsupported: grow: \w+ has no 64-bit floats/)
        const numbers = Array.from({ length: 2 * LANES }, (_, i) => i / 3 - 10)
        const x = device.alloc(8 * numbers.length)
        device.write(x, 0, encodeElements('f64', numbers))
        const program = await device.compile(grow)
        await device.submit([{ kind: 'dispatch', program, buffers: [{ buffer: x }], uniforms: new Uint8Array(0), grid: [1, 1, 1] }])
        const got = decodeElements('f64', await device.read(x, 0, 8 * numbers.length), numbers.length)
        device.free(x)
        const wanted = numbers.map((value) => (runs ? Math.exp(value) / 3 : value))
        return expect(wanted.filter((want, i) => !(Math.abs(got[i]! - want) <= 1e-15 * Math.abs(want)))).toEqual([])
      })

      it('compiles the same content once', async () => {
        const one = kernel('fresh', { params: { x: buffer('f32', 'write') } }, (p) => p.x.set(0, 17))
        const two = kernel('fresh', { params: { x: buffer('f32', 'write') } }, (p) => p.x.set(0, 17))
        const before = { ...device.stats }
        const [a, b] = [await device.compile(one), await device.compile(two)]
        expect(a.key).toBe(b.key)
        expect(device.stats.compiles - before.compiles).toBe(1)
        expect(device.stats.compileHits - before.compileHits).toBe(1)
      })

      it('refuses a kernel past its limits, and says the limit', async () => {
        const most = device.caps.lanes
        if (most > 1 && most < 1024) {
          // no kernel at all may have more than 1024
          const wide = kernel('wide', { params: { x: buffer('f32', 'write') }, workgroup: [most, 2] }, (p, k) => p.x.set(k.lane, 1))
          expect(await failure(() => device.compile(wide))).toMatch(new RegExp(`^too-large: wide.*${most}`))
        }
        const greedy = kernel('greedy', { params: { x: buffer('f32', 'write') } }, (p, k) => {
          const shared = k.shared('much', 'f32', device.caps.sharedBytes / 4 + 1)
          shared.set(0, 1)
          p.x.set(0, shared.at(0))
        })
        expect(await failure(() => device.compile(greedy))).toMatch(/^too-large:/)
        expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
      })
    })

    describe('submissions', () => {
      it('run dispatches, copies, fills and reads in order, as one', async () => {
        const [x, y] = [put(device, NUMBERS), device.alloc(400)]
        const work: Command[] = [
          { kind: 'fill', to: { buffer: y }, bytes: 400, value: 0 },
          await scaling(device, { buffer: x }, { buffer: y }, 100, 3),
          await stepping(device, { buffer: y }, 100),
          { kind: 'copy', from: { buffer: y, offset: 40 }, to: { buffer: x, offset: 8 }, bytes: 8 },
          { kind: 'read', from: { buffer: y }, bytes: 400 },
          { kind: 'fill', to: { buffer: y, offset: 4 }, bytes: 8, value: 0x40 },
          { kind: 'read', from: { buffer: y, offset: 4 }, bytes: 8 },
          { kind: 'read', from: { buffer: x, offset: 8 }, bytes: 8 },
        ]
        const before = { ...device.stats }
        const [all, filled, copied] = await device.submit(work)
        expect(device.stats.submissions - before.submissions).toBe(1)
        expect(device.stats.dispatches - before.dispatches).toBe(2)
        expect(device.stats.bytesRead - before.bytesRead).toBe(416)
        const want = NUMBERS.map((v) => v * 3 * 2 + 1)
        if (runs) expect(toFloats(all!)).toEqual(want)
        expect(filled).toEqual(new Uint8Array(8).fill(0x40))
        expect(copied).toEqual(all!.slice(40, 48))
        device.free(x)
        device.free(y)
      })

      it('see the writes before them and not those after', async () => {
        const [x, y] = [put(device, [1]), device.alloc(4)]
        const command = await scaling(device, { buffer: x }, { buffer: y }, 1, 10)
        const read: Command = { kind: 'read', from: { buffer: y }, bytes: 4 }
        const first = device.submit([command, read])
        device.write(x, 0, floats(2))
        const second = device.submit([command, read])
        device.free(x)
        const z = put(device, [99]) // may get the memory of x
        const results = [...(await first), ...(await second)].map(toFloats)
        expect(results).toEqual(runs ? [[10], [20]] : [[expect.any(Number)], [expect.any(Number)]])
        device.free(y)
        device.free(z)
      })

      it('have uniforms of their own, each dispatch', async () => {
        const [x, first, second] = [put(device, [1]), device.alloc(4), device.alloc(4)]
        const results = await device.submit([
          await scaling(device, { buffer: x }, { buffer: first }, 1, 10),
          await scaling(device, { buffer: x }, { buffer: second }, 1, 20),
          ...[first, second].map((buffer): Command => ({ kind: 'read', from: { buffer }, bytes: 4 })),
        ])
        expect(results.map(toFloats)).toEqual(runs ? [[10], [20]] : [[expect.any(Number)], [expect.any(Number)]])
        for (const buffer of [x, first, second]) device.free(buffer)
      })

      it('do nothing with an empty grid or an empty list', async () => {
        const [x, y] = [put(device, [1]), put(device, [5])]
        const command = await scaling(device, { buffer: x }, { buffer: y }, 1, 10)
        expect(await device.submit([])).toEqual([])
        const [got] = await device.submit([
          { ...command, grid: [1, 0, 1] },
          { kind: 'read', from: { buffer: y }, bytes: 4 },
        ])
        expect(toFloats(got!)).toEqual([5])
        device.free(x)
        device.free(y)
      })

      it('work on ranges of one buffer, read and written in the same dispatch', async () => {
        const at = Math.ceil(1024 / device.caps.alignment) * device.caps.alignment
        const arena = device.alloc(4 * at)
        const range = (index: number) => ({ buffer: arena, offset: index * at, bytes: 256 })
        const values = Array.from({ length: 64 }, (_, i) => i)
        device.write(arena, 0, floats(...values))
        device.write(arena, at, floats(...values.map((v) => v * v)))
        const [result, same] = await device.submit([
          await subtraction(device, range(0), range(1), range(2), 64),
          await scaling(device, range(2), range(3), 64, 2),
          { kind: 'read', from: range(3), bytes: 256 },
          await subtraction(device, range(1), range(1), range(2), 64), // the same range twice
          { kind: 'copy', from: range(2), to: range(0), bytes: 256 }, // within one buffer
          { kind: 'read', from: range(0), bytes: 256 },
        ])
        expect([result, same].map((bytes) => bytes!.length)).toEqual([256, 256])
        if (runs) expect(toFloats(result!)).toEqual(values.map((v) => (v - v * v) * 2))
        if (runs) expect(toFloats(same!)).toEqual(values.map(() => 0))
        device.free(arena)
      })

      it('refuse bad commands whole, and the device goes on', async () => {
        const [x, y] = [put(device, NUMBERS), put(device, NUMBERS)]
        const good = await scaling(device, { buffer: x }, { buffer: y }, 100, 0)
        const bad = async (code: ErrorCode, change: Partial<Dispatch>): Promise<void> =>
          expect(await failure(() => device.submit([good, { ...good, ...change }]))).toMatch(new RegExp(`^${code}: command 1`))
        const big = device.caps.grid + 1
        await bad('bad-argument', { buffers: [{ buffer: x }] })
        await bad('bad-argument', { uniforms: new Uint8Array(4) })
        await bad('bad-argument', { grid: [1, -1, 1] })
        await bad('bad-argument', { grid: [1, 0.5, 1] })
        await bad('too-large', { grid: [1, big, 1] })
        await bad('unknown-handle', { buffers: [{ buffer: x }, { buffer: 0 as BufferHandle }] })
        await bad('out-of-range', { buffers: [{ buffer: x }, { buffer: y, bytes: 404 }] })
        await bad('bad-argument', { buffers: [{ buffer: x }, { buffer: y, bytes: 0 }] })
        if (device.caps.alignment > 4) await bad('bad-argument', { buffers: [{ buffer: x, offset: 4 }, { buffer: y }] })
        await bad('bad-argument', { buffers: [{ buffer: x }, { buffer: x }] }) // written and read
        await bad('bad-argument', { program: { ...good.program } }) // not compiled here
        for (const command of [
          { kind: 'copy', from: { buffer: x }, to: { buffer: y }, bytes: 404 },
          { kind: 'fill', to: { buffer: y, offset: 400 }, bytes: 4, value: 0 },
          { kind: 'read', from: { buffer: y, offset: 200 }, bytes: 204 },
        ] as const)
          expect(await failure(() => device.submit([good, command]))).toMatch(/^out-of-range: .*command 1/s)
        for (const command of [
          { kind: 'copy', from: { buffer: x }, to: { buffer: y }, bytes: 6 },
          { kind: 'copy', from: { buffer: x }, to: { buffer: x, offset: 4 }, bytes: 8 },
          { kind: 'fill', to: { buffer: y }, bytes: 4, value: 256 },
        ] as const)
          expect(await failure(() => device.submit([good, command]))).toMatch(/^bad-argument: .*command 1/s)
        expect(toFloats(await device.read(y, 0, 400))).toEqual(NUMBERS) // `good` did not run either
        await device.sync()
        expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
        device.free(x)
        device.free(y)
      })
    })

    describe('recordings', () => {
      it('run many times, each one submission', async () => {
        const [x, y] = [put(device, [1]), put(device, [0])]
        const commands: Command[] = [
          await stepping(device, { buffer: x }, 1),
          await scaling(device, { buffer: x }, { buffer: y }, 1, 10),
          { kind: 'read', from: { buffer: y }, bytes: 4 },
        ]
        const recording = device.record(commands)
        ;(commands[0] as Dispatch).uniforms.fill(0) // the recording has its own
        const before = { ...device.stats }
        const runsOf = await Promise.all([device.submit(recording), device.submit(recording), device.submit(recording)])
        expect(device.stats.submissions - before.submissions).toBe(3)
        expect(device.stats.dispatches - before.dispatches).toBe(6)
        if (runs) expect(runsOf.map(([bytes]) => toFloats(bytes!)[0])).toEqual([30, 70, 150])
        device.write(x, 0, floats(0))
        const [last] = await device.submit(recording)
        if (runs) expect(toFloats(last!)).toEqual([10])
        recording[Symbol.dispose]()
        expect(await failure(() => device.submit(recording))).toMatch(/^closed:/)
        device.free(x)
        device.free(y)
      })

      it('are checked when recorded, and when a buffer is gone', async () => {
        const [x, y] = [put(device, [1]), put(device, [0])]
        const command = await scaling(device, { buffer: x }, { buffer: y }, 1, 10)
        expect(await failure(() => device.record([{ ...command, buffers: [] }]))).toMatch(/^bad-argument:/)
        const recording = device.record([command])
        await device.submit(recording)
        device.free(y)
        const again = device.alloc(4) // may get the memory of y
        expect(await failure(() => device.submit(recording))).toMatch(/^unknown-handle:/)
        expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
        recording[Symbol.dispose]()
        device.free(x)
        device.free(again)
      })
    })

    testBlanks(() => device, runs)

    it('gives two devices that do not mix', async () => {
      const other = await open()
      const [x, y] = [put(other, [1]), other.alloc(4)]
      const command = await scaling(other, { buffer: x }, { buffer: y }, 1, 2)
      const recording = other.record([command])
      expect(await failure(() => device.submit([command]))).toMatch(/^bad-argument:/)
      expect(await failure(() => device.submit(recording))).toMatch(/^bad-argument:/)
      expect(await failure(() => device.free(x))).toMatch(/^unknown-handle:/)
      await other.close()
      expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
    })

    it('ends every close when the first one ends', async () => {
      const closing = await open()
      const x = put(closing, NUMBERS)
      const ended: string[] = []
      const note = (what: string) => () => ended.push(what)
      const read: Command = { kind: 'read', from: { buffer: x }, bytes: 400 }
      const work = closing.submit([await stepping(closing, { buffer: x }, 100), read]).then(note('work'))
      await Promise.all([work, closing.close().then(note('first')), closing.close().then(note('second'))])
      expect(ended).toEqual(['work', 'first', 'second'])
      expect(closing.stats.buffers).toBe(0)
    })

    it('waits with its end for a load that is under way, and refuses its result', async () => {
      const closing = await open()
      let go = (): void => {}
      const gate = new Promise<void>((resolve) => {
        go = resolve
      })
      const read: ByteRange['read'] = async (_, length) => {
        await gate
        return new Uint8Array(length)
      }
      const loading = failure(() => closing.load({ bytes: 64, read }))
      const closed = closing.close()
      go()
      expect(await loading).toMatch(/^closed: load:/)
      await closed
      expect(closing.stats.buffers).toBe(0)
    })

    it('refuses everything once closed, and closes twice', async () => {
      const closed = await open()
      const x = put(closed, [1])
      const pending = closed.read(x, 0, 4)
      await closed.close()
      await closed.close()
      expect(toFloats(await pending)).toEqual([1])
      expect(await failure(() => closed.alloc(4))).toMatch(/^closed:/)
      expect(await failure(() => closed.free(x))).toMatch(/^closed:/)
      expect(await failure(() => closed.write(x, 0, new Uint8Array(4)))).toMatch(/^closed:/)
      expect(await failure(() => closed.record([]))).toMatch(/^closed:/)
      expect(await failure(() => closed.read(x, 0, 4))).toMatch(/^closed:/)
      expect(await failure(() => closed.submit([]))).toMatch(/^closed:/)
      expect(await failure(() => closed.compile(scale))).toMatch(/^closed:/)
      expect(await failure(() => closed.sync())).toMatch(/^closed:/)
      expect(await failure(() => closed.load({ bytes: 4, read: async () => new Uint8Array(4) }))).toMatch(/^closed:/)
    })
  })
}
