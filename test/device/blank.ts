// Recordings with blanks, which every submission fills: part of the rules of a device (contract.ts).

import { describe, expect, it } from 'vitest'
import type { Blank, BufferHandle, Command, Device, OpenCommand } from '../../src/device/device.ts'
import { failure, put, roundTrip, scaling, toFloats } from './kernels.ts'

export function testBlanks(open: () => Device, runs: boolean): void {
  describe('blanks of recordings', () => {
    const blank = (number: number, bytes = 4): Blank => ({ blank: number, bytes })

    it('are filled by every submission, or refused', async () => {
      const device = open()
      const [x, y, z] = [put(device, [1]), put(device, [0]), put(device, [7])]
      const commands: OpenCommand[] = [
        { ...(await scaling(device, { buffer: x }, { buffer: y }, 1, 10)), buffers: [blank(1), blank(0)] },
        { kind: 'copy', from: blank(0), to: blank(2), bytes: 4 },
        { kind: 'read', from: blank(2), bytes: 4 },
      ]
      if (device.caps.blanks !== true) {
        expect(await failure(() => device.record(commands))).toMatch(/^unsupported:/)
      } else {
        const recording = device.record(commands)
        const run = (...buffers: readonly BufferHandle[]): Promise<Uint8Array[]> =>
          device.submit(
            recording,
            buffers.map((buffer) => ({ buffer })),
          )
        const [[first], [second]] = await Promise.all([run(y, x, z), run(x, y, z)])
        if (runs) expect([first, second].map((bytes) => toFloats(bytes!)[0])).toEqual([10, 100])
        if (runs) expect(toFloats(await device.read(x, 0, 4))).toEqual([100])
        const wide = put(
          device,
          Array.from({ length: 128 }, (_, i) => i),
        )
        await device.submit(recording, [{ buffer: y }, { buffer: wide, offset: device.caps.alignment }, { buffer: z }])
        if (runs) expect(toFloats(await device.read(y, 0, 4))).toEqual([(10 * device.caps.alignment) / 4])
        device.free(wide)
        recording[Symbol.dispose]()
      }
      for (const each of [x, y, z]) device.free(each)
    })

    it('are checked when they are filled', async () => {
      const device = open()
      if (device.caps.blanks !== true) return // refused, as the test before this one shows
      const [x, y] = [put(device, [1]), put(device, [0])]
      const command = await scaling(device, { buffer: x }, { buffer: y }, 1, 10)
      const recording = device.record([{ ...command, buffers: [blank(0), blank(1)] }])
      const refused = [
        [[{ buffer: x }], /^bad-argument:/],
        [[{ buffer: x }, { buffer: x }], /^bad-argument:/],
        [[{ buffer: x, offset: 4 }, { buffer: y }], /^bad-argument:/],
        [[{ buffer: x, offset: device.caps.alignment }, { buffer: y }], /^out-of-range:/],
        [[{ buffer: x }, { buffer: 0 as BufferHandle }], /^unknown-handle:/],
      ] as const
      for (const [ranges, error] of refused) expect(await failure(() => device.submit(recording, ranges))).toMatch(error)
      const mixed = device.record([{ ...command, buffers: [blank(0), { buffer: y }] }])
      expect(await failure(() => device.submit(mixed, [{ buffer: y }]))).toMatch(/^bad-argument:/)
      expect(await failure(() => device.submit([{ ...command, buffers: [blank(0), blank(1)] }] as unknown as Command[]))).toMatch(
        /^unsupported:/,
      )
      await device.submit(mixed, [{ buffer: x }])
      expect(await roundTrip(device)).toEqual([1, 2, 3, 4])
      for (const each of [recording, mixed]) each[Symbol.dispose]()
      for (const each of [x, y]) device.free(each)
    })
  })
}
