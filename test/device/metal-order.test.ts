// Random commands on ranges that overlap: the barriers between them must be enough (the software Metal reports races) and the
// result that of one command after another, whether encoded, replayed, or written between.

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Command, Device, Range } from '../../src/device/device.ts'
import { floats, scaling, stepping, subtraction, toFloats } from './kernels.ts'
import { findSoft } from './metal-soft.ts'

const { soft, missing } = await findSoft()
/** The arena: slots of 32 floats; commands take one or two, which may overlap those of others. */
const [SLOTS, SLOT] = [6, 32]
const slot = fc.nat(SLOTS - 1)
const factor = fc.constantFrom(2, -1, 0.5)
const command = fc.oneof(
  fc.record({ kind: fc.constant('scale' as const), from: slot, to: slot, factor }),
  fc.record({ kind: fc.constant('step' as const), to: slot }),
  fc.record({ kind: fc.constant('subtract' as const), from: slot, other: slot, to: slot }),
  fc.record({ kind: fc.constant('copy' as const), from: slot, to: slot }),
  fc.record({ kind: fc.constant('fill' as const), to: slot }),
  fc.record({ kind: fc.constant('read' as const), from: slot }),
)
type Act = typeof command extends fc.Arbitrary<infer T> ? T : never

/** What the arena and the read-backs should be. */
function simulate(acts: readonly Act[], arena: Float32Array): number[][] {
  const reads: number[][] = []
  const at = (index: number): Float32Array => arena.subarray(index * SLOT, (index + 1) * SLOT)
  for (const act of acts) {
    if (act.kind === 'read') reads.push([...at(act.from)])
    else if (act.kind === 'fill') at(act.to).fill(0)
    else if (act.kind === 'step')
      at(act.to).forEach((value, i, all) => {
        all[i] = value * 2 + 1
      })
    else if (act.kind === 'copy') at(act.to).set(at(act.from))
    else if (act.kind === 'scale') at(act.to).set(at(act.from).map((value) => value * act.factor))
    else at(act.to).set(at(act.from).map((value, i) => value - at(act.other)[i]!))
  }
  return reads
}

async function commandsOf(device: Device, acts: readonly Act[], range: (index: number) => Range): Promise<Command[]> {
  return Promise.all(
    acts.map(async (act): Promise<Command> => {
      if (act.kind === 'read') return { kind: 'read', from: range(act.from), bytes: 4 * SLOT }
      if (act.kind === 'fill') return { kind: 'fill', to: range(act.to), bytes: 4 * SLOT, value: 0 }
      if (act.kind === 'step') return stepping(device, range(act.to), SLOT)
      if (act.kind === 'copy') return { kind: 'copy', from: range(act.from), to: range(act.to), bytes: 4 * SLOT }
      if (act.kind === 'scale') return scaling(device, range(act.from), range(act.to), SLOT, act.factor)
      return subtraction(device, range(act.from), range(act.other), range(act.to), SLOT)
    }),
  )
}

describe.skipIf(missing !== undefined)(`metal keeps the order of commands${missing === undefined ? '' : `: ${missing}`}`, () => {
  const legal = (act: Act): boolean => !('from' in act && 'to' in act && act.from === act.to) && !('other' in act && act.other === act.to)

  it.each([{}, { indirect: false }, { concurrent: false }])('%j', async (changes) => {
    const device = await soft!.open(changes)
    const start = Float32Array.from({ length: SLOTS * SLOT }, (_, i) => (i % 13) - 6)
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 14 }), fc.boolean(), async (all, recorded) => {
        const acts = all.filter(legal)
        const arena = device.alloc(4 * SLOTS * SLOT)
        device.write(arena, 0, floats(...start))
        const commands = await commandsOf(device, acts, (index) => ({ buffer: arena, offset: 4 * SLOT * index, bytes: 4 * SLOT }))
        const want = start.slice()
        const recording = recorded ? device.record(commands) : undefined
        const first = device.submit(recording ?? commands)
        device.write(arena, 4 * SLOT, floats(7, 8, 9)) // while the first is running, most likely
        const second = device.submit(recording ?? commands)
        const end = device.read(arena, 0, 4 * SLOTS * SLOT)
        device.free(arena)
        const wanted = [simulate(acts, want)]
        want.set([7, 8, 9], SLOT)
        wanted.push(simulate(acts, want))
        expect([await first, await second].map((reads) => reads.map(toFloats))).toEqual(wanted)
        expect(toFloats(await end)).toEqual([...want])
        recording?.[Symbol.dispose]()
      }),
      { numRuns: 60 },
    )
    await device.close()
  })
})
