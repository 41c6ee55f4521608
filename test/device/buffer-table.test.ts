// The handle table and its pool: what is given out, counted, kept and given back.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { IngotError, isIngotError } from '../../src/base/error.ts'
import { type BufferHandle, emptyStats } from '../../src/device/device.ts'
import { BufferTable, type Allocator, sizeClass } from '../../src/device/core/buffer-table.ts'

const MOST = 2 ** 30

/** Allocator that is a number, and knows what is alive. */
function counted(limit = Infinity): Allocator<number> & { readonly alive: Map<number, number>; bytes(): number } {
  const alive = new Map<number, number>()
  const bytes = (): number => [...alive.values()].reduce((sum, size) => sum + size, 0)
  let next = 0
  return {
    alive,
    bytes,
    create: (size) => {
      if (bytes() + size > limit) throw new IngotError('out-of-memory', 'full')
      alive.set(++next, size)
      return next
    },
    destroy: (memory) => {
      if (!alive.delete(memory)) throw new Error(`${memory} was destroyed twice`)
    },
  }
}

describe('size classes', () => {
  it('hold what they are for, waste at most an eighth, are aligned and grow', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 33 }), (bytes) => {
        const size = sizeClass(bytes)
        expect(size).toBeGreaterThanOrEqual(bytes)
        expect(size % 16).toBe(0)
        expect(size).toBeLessThanOrEqual(Math.max(256, bytes * 1.125 + 16))
        expect(sizeClass(size)).toBe(size)
        expect(sizeClass(bytes + 1)).toBeGreaterThanOrEqual(size)
      }),
    )
  })
})

describe('the table of buffers', () => {
  it('counts right, whatever is allocated and freed', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.integer({ min: 1, max: 5000 }), fc.constant('free' as const)), { maxLength: 60 }), (steps) => {
        const [memory, stats] = [counted(), emptyStats()]
        const table = new BufferTable(memory, stats, { keepBytes: 8192 })
        const live = new Map<BufferHandle, number>()
        for (const step of steps) {
          if (step === 'free') {
            const [handle] = live.keys()
            if (handle === undefined) continue
            table.free(handle)
            live.delete(handle)
          } else {
            const entry = table.alloc(step, MOST)
            expect(live.has(entry.handle)).toBe(false)
            live.set(entry.handle, step)
          }
          const memories = [...live.keys()].map((handle) => table.get(handle, 'test').memory)
          expect(new Set(memories).size).toBe(memories.length)
          expect(memories.every((each) => memory.alive.has(each))).toBe(true)
          expect(table.pooledBytes).toBeLessThanOrEqual(8192)
          expect(stats.buffers).toBe(live.size)
          expect(stats.bytesLive).toBe([...live.values()].reduce((sum, bytes) => sum + bytes, 0))
        }
        expect(stats.poolHits + stats.poolMisses).toBe(steps.filter((step) => step !== 'free').length)
        table.close()
        expect(memory.alive.size).toBe(0)
        expect(stats).toMatchObject({ buffers: 0, bytesLive: 0 })
      }),
    )
  })

  it('serves a freed buffer again, of the same class only', () => {
    const [memory, stats] = [counted(), emptyStats()]
    const table = new BufferTable(memory, stats)
    const first = table.alloc(1000, MOST)
    table.free(first.handle)
    expect(table.alloc(990, MOST).memory).toBe(first.memory)
    expect(table.alloc(990, MOST).memory).not.toBe(first.memory)
    expect(table.alloc(5000, MOST).capacity).toBeGreaterThanOrEqual(5000)
    expect(stats).toMatchObject({ poolHits: 1, poolMisses: 3 })
  })

  it('gives the pool back before it says that memory is out', () => {
    const memory = counted(4096)
    const table = new BufferTable(memory, emptyStats())
    table.free(table.alloc(2048, MOST).handle)
    table.alloc(4096, MOST)
    expect(memory.alive.size).toBe(1)
    expect(() => table.alloc(256, MOST)).toThrow(IngotError)
  })

  it('never pools adopted or broken memory', () => {
    const [memory, stats] = [counted(), emptyStats()]
    const table = new BufferTable(memory, stats)
    const adopted = table.adopt(memory.create(512), 512)
    const broken = table.alloc(512, MOST)
    table.free(adopted.handle)
    table.free(broken.handle, false)
    expect(table.pooledBytes).toBe(0)
    expect(memory.alive.size).toBe(0)
  })

  it('keeps a size class within the largest buffer', () => {
    const table = new BufferTable(counted(), emptyStats())
    expect(table.alloc(1000, 1008).capacity).toBe(1008)
  })

  it('tells unknown, foreign, freed and twice freed apart', () => {
    const [one, two] = [new BufferTable(counted(), emptyStats()), new BufferTable(counted(), emptyStats())]
    const [a, b] = [one.alloc(4, MOST).handle, two.alloc(4, MOST).handle]
    const codeOf = (act: () => unknown): string => {
      try {
        act()
        return 'none'
      } catch (error) {
        return isIngotError(error) ? error.code : String(error)
      }
    }
    expect(codeOf(() => one.get(b, 'read'))).toBe('unknown-handle')
    expect(codeOf(() => two.free(a))).toBe('unknown-handle')
    expect(codeOf(() => one.free((a + 1) as BufferHandle))).toBe('unknown-handle')
    one.free(a)
    expect(codeOf(() => one.get(a, 'read'))).toBe('unknown-handle')
    expect(codeOf(() => one.free(a))).toBe('double-free')
  })
})
