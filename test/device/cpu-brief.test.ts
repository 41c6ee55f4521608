// Work of a few microseconds is done on the caller's thread: right, in order, and without keeping the program from anything else.

import { describe, expect, test } from 'vitest'
import { BriefWork } from '../../src/device/cpu/brief.ts'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { CheckedCommand } from '../../src/device/core/checked-command.ts'
import type { Program } from '../../src/device/device.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

type Commands = readonly CheckedCommand<number>[]

const program = (): Program => ({ key: '', kernel: undefined as never })
const dispatch = (of: Program, bytes: number, groups = 4): CheckedCommand<number> => ({
  kind: 'dispatch',
  program: of,
  buffers: [{ buffer: { handle: 1 as never, memory: 0, bytes } as never, offset: 0, bytes, written: true }],
  uniforms: new Uint8Array(0),
  grid: [groups, 1, 1],
})
/** Takes so many milliseconds. */
const busy = (ms: number) => (): void => {
  for (const start = performance.now(); performance.now() - start < ms;);
}
const nextTurn = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 0))

describe('brief work', () => {
  const setUp = (): { work: BriefWork; commands: Commands } => ({ work: new BriefWork(), commands: [dispatch(program(), 4096)] })
  /** What it is given, some times. */
  const tried = async (work: BriefWork, commands: Commands, ms: (time: number) => number): Promise<void> => {
    for (let time = 0; time < 4; time++) {
      work.run(commands, busy(ms(time)))
      await nextTurn()
    }
  }

  test('sees little memory, and has been seen to end soon', () => {
    const [work, own] = [new BriefWork(), program()]
    const [small, large]: Commands[] = [[dispatch(own, 4096)], [dispatch(own, 1 << 25)]]
    expect(work.takes(small!)).toBe(false)
    work.seen(small!, 50)
    expect(work.takes(small!)).toBe(false)
    for (const commands of [small!, large!]) work.seen(commands, 0.1)
    expect([work.takes(small!), work.takes(large!)]).toEqual([true, false])
    // other commands of the same kind
    expect([work.takes([dispatch(own, 4096)]), work.takes([dispatch(own, 65536)])]).toEqual([true, false])
  })

  test('is what has nothing for a second thread, unless it takes long', async () => {
    const { work } = setUp()
    const own = program()
    const whole = [dispatch(own, 4096, 1), dispatch(own, 4096, 1)]
    expect(work.takes(whole)).toBe(true)
    expect([work.takes([dispatch(own, 1 << 22, 1)]), work.takes([...whole, dispatch(own, 4096, 2)])]).toEqual([false, false])
    await tried(work, whole, () => 1.5)
    expect(work.takes(whole)).toBe(false)
  })

  test('goes where it is faster', async () => {
    for (const [threads, here, expected] of [
      [0.3, 0.1, true],
      [0.1, 0.3, false],
      [1.9, 1.5, false],
    ] as const) {
      // prettier-ignore
      const { work, commands } = setUp()
      work.seen(commands, threads)
      expect(work.takes(commands)).toBe(true)
      await tried(work, commands, () => here)
      expect(work.takes(commands)).toBe(expected)
    }
  })

  test('is judged by its best time, not by the first, in which code is compiled', async () => {
    const { work, commands } = setUp()
    work.seen(commands, 0.5)
    await tried(work, commands, (time) => (time === 0 ? 5 : 0.1))
    expect(work.takes(commands)).toBe(true)
  })

  test('is not judged by one lucky time, here or there', async () => {
    const { work, commands } = setUp()
    for (const ms of [0.4, 0.4, 0.4, 0.4, 0.4, 0.01, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]) work.seen(commands, ms)
    await tried(work, commands, () => 0.2)
    expect(work.takes(commands)).toBe(true)
  })

  test('pauses after some milliseconds, until others had their turn', async () => {
    const { work, commands } = setUp()
    work.seen(commands, 1)
    for (let i = 0; i < 20; i++) work.run(commands, busy(0.5))
    expect(work.takes(commands)).toBe(false)
    await nextTurn()
    expect(work.takes(commands)).toBe(true)
  })
})

test('timers have their turn beside a loop of small steps, and each step sees the last', async () => {
  await using device = await openCpu()
  let ticks = 0
  const timer = setInterval(() => ticks++, 1)
  let x = Tensor.from([0, 1, 2], { device })
  const start = performance.now()
  let steps = 0
  for (; performance.now() - start < 200; steps++) x = await x.add(1).realize()
  clearInterval(timer)
  expect(await x.toArray()).toEqual([steps, steps + 1, steps + 2])
  expect(ticks).toBeGreaterThan(5)
})

test('a small submission that follows a large one waits for it', async () => {
  await using device = await openCpu()
  const big = Tensor.ones([512, 512], { device })
  const ones = Tensor.ones([4], { device })
  for (let i = 0; i < 5; i++) {
    const total = big.matmul(big).matmul(big).sum().reshape(1)
    void total.realize()
    expect(await total.mul(ones).mean().item()).toBe(512 ** 4)
  }
})
