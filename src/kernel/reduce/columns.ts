// Reductions along the last of the kept axes: a strip of results for each workgroup of a CPU (strip.ts), a lane for each on a GPU. Either
// may take a part of the reduced axes only.

import { type Scope, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Uniformity, Value, VectorOf } from '../../ir/value.ts'
import { type Register, elements, registerOf, writeOne, writeVector } from '../element.ts'
import { flatGroup } from '../lanes.ts'
import type { Places } from '../map/source.ts'
import type { Write } from '../template.ts'
import { type State, foldOf } from './fold.ts'
import { type FoldTraits, Frame, finish, frameParams, isDivided, joinAll, registerFor, sideBySide } from './frame.ts'
import { STRIP, Strip, getCells, setCells } from './strip.ts'

type U32<U extends Uniformity = Uniformity> = Value<'u32', U>

export function writeColumns(traits: FoldTraits, kernel: Write): Kernel {
  const { kind, type, lanes, width } = traits
  const fold = foldOf(kind, registerFor(traits), { keys: lanes > 1 })
  const params = {
    ...frameParams(traits),
    y: elements(type, 'write'),
    ...(isDivided(fold) ? { divisor: uniform('u32') } : {}),
  }
  return kernel(`${kind}Columns`, { params, workgroup: [lanes] }, (p, k) => {
    const frame = new Frame(k, traits, p)
    const start = k.const(fold.state, fold.start)
    const targetOf = (output: U32, part: U32): U32 => part.mul(p.outputs).add(output)
    if (lanes > 1) {
      return eachLane(k, frame, p.outputs, lanes, (output, part) => {
        const [places, column] = seekResult(frame, output)
        const state = k.var(kind, start)
        frame.loops(places, frame.spans(part), frame.reduced.length, (here) =>
          state.set(fold.join(state.get(), fold.of(frame.source.one(here, column))) as Value<State>),
        )
        const result = finish(fold, state.get(), registerOf(type), p.divisor) as Value<Register>
        writeOne(type, p.y, targetOf(output, part), result)
      })
    }
    const states = k.shared(kind, fold.state, STRIP)
    return Strip.take(k, frame, width, (strip) => {
      strip.each((c, wide) => setCells(states, c, wide === 1 ? start : start.splat(wide), wide))
      strip.rows(sideBySide(traits), (rows) =>
        strip.each((c, wide) => {
          const values = rows.map((row) => strip.values(fold, row, c, wide))
          setCells(states, c, fold.join(getCells(states, c, wide), joinAll(fold, values)), wide)
        }),
      )
      const target = k.let('target', targetOf(strip.first, strip.part))
      strip.each((c, wide) => {
        const result = finish(fold, getCells(states, c, wide), registerOf(type), p.divisor)
        if (wide === 1) writeOne(type, p.y, target.add(c), result as Value<Register>)
        else writeVector(type, p.y, target.add(c), result as VectorOf<Register>, wide)
      })
    })
  })
}

/** The result of a lane of a GPU, and which part of it it takes. */
export function eachLane(
  k: Scope,
  frame: Frame,
  outputs: U32<'uniform'>,
  lanes: number,
  body: (output: U32, part: U32<'uniform'>) => void,
): void {
  const groups = outputs.add(lanes - 1).div(lanes)
  const group = k.let('group', flatGroup(k))
  const part = k.let('number', group.div(groups))
  const output = k.let('output', group.rem(groups).mul(lanes).add(k.lane))
  k.when(output.lt(outputs).and(part.lt(frame.parts)), () => body(output, part))
}

/** Where the values of a result begin, and its column. */
export function seekResult({ walks, kept }: Frame, output: U32): [places: Places, column: U32] {
  const columns = walks.size(-1)
  return [walks.seek(walks.start(), kept.slice(0, -1), output.div(columns)), output.rem(columns)]
}
