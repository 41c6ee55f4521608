// The memory of the cpu device: parts never overlap, come back whole, and running out of it is a typed error.

import { array, assert, boolean, integer, nat, property, tuple } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { Hazards } from '../../src/device/core/hazard.ts'
import { Heap, START } from '../../src/device/cpu/heap.ts'

describe('the heap', () => {
  it('gives out aligned parts that do not overlap, and joins what comes back', () => {
    const heap = new Heap(false)
    assert(
      property(array(tuple(integer({ min: 1, max: 200_000 }), boolean(), nat()), { maxLength: 60 }), (steps) => {
        const live: { at: number; bytes: number }[] = []
        for (const [bytes, isFree, which] of steps) {
          if (isFree && live.length > 0) heap.free(live.splice(which % live.length, 1)[0]!.at)
          else live.push({ at: heap.alloc(bytes), bytes })
        }
        live.sort((a, b) => a.at - b.at)
        const good = live.every(
          ({ at, bytes }, i) => at % 64 === 0 && at >= START && (live[i + 1] === undefined || at + bytes <= live[i + 1]!.at),
        )
        for (const { at } of live) heap.free(at)
        // all of it in one piece again
        const most = heap.bytes.length - START
        const whole = heap.alloc(most)
        heap.free(whole)
        expect({ good, whole, most: heap.bytes.length - START }).toEqual({ good: true, whole: START, most })
      }),
    )
  })

  it('grows, and refuses what it cannot have', () => {
    const heap = new Heap(true)
    const at = heap.alloc(40 * 2 ** 20)
    heap.bytes[at + 40 * 2 ** 20 - 1] = 7
    expect(heap.copy(at + 40 * 2 ** 20 - 1, 1)).toEqual(Uint8Array.of(7))
    expect(codeOf(() => heap.alloc(heap.mostBytes))).toBe('out-of-memory')
    expect(codeOf(() => heap.free(at + 64))).toBe('double-free')
    heap.free(at)
    expect(heap.alloc(64)).toBe(START)
  })
})

describe('hazards', () => {
  it('wait for writers, and writers for readers', () => {
    const hazards = new Hazards()
    const read = (from: number, to: number) => ({ from, to, written: false })
    const write = (from: number, to: number) => ({ from, to, written: true })
    expect(hazards.add([read(0, 8), write(8, 16)])).toBe(false)
    expect(hazards.add([read(0, 8), write(16, 24)])).toBe(false) // both read the same
    expect(hazards.add([read(12, 20), write(32, 40)])).toBe(true) // reads what was written
    expect(hazards.add([read(0, 8), write(8, 12)])).toBe(false) // which is over since
    expect(hazards.add([write(4, 5)])).toBe(true) // writes what was read
    expect(hazards.add([write(4, 5)])).toBe(true) // writes it again
  })
})

function codeOf(act: () => unknown): string {
  try {
    act()
    return 'nothing was thrown'
  } catch (error) {
    return isIngotError(error) ? error.code : String(error)
  }
}
