// The gated feed-forward half of a layer: down(act(gate(x)) * up(x)).

import type { Tensor } from '../tensor/tensor.ts'
import { type Linear, applyLinear, readLinear } from './linear.ts'
import type { Sizes } from './size.ts'
import type { ModelSource } from './source.ts'

export interface Gated {
  readonly gate: Linear
  readonly up: Linear
  readonly down: Linear
}

/** `name.ffn_gate` and `name.ffn_up` [hidden, width], `name.ffn_down` [width, hidden]. */
export function readGated(source: ModelSource, name: string, { width, hidden }: Pick<Sizes, 'width' | 'hidden'>): Gated {
  return {
    gate: readLinear(source, `${name}.ffn_gate`, [hidden, width]),
    up: readLinear(source, `${name}.ffn_up`, [hidden, width]),
    down: readLinear(source, `${name}.ffn_down`, [width, hidden]),
  }
}

/** x [n, width] -> [n, width] */
export function applyGated({ gate, up, down }: Gated, x: Tensor, act: 'silu' | 'gelu'): Tensor {
  const gated = applyLinear(gate, x)[act]().mul(applyLinear(up, x)) // [n, hidden]
  return applyLinear(down, gated)
}
