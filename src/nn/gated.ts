// The gated feed-forward half of a layer: down(act(gate(x)) * up(x)).

import type { Tensor } from '../tensor/tensor.ts'
import { type Linear, applyLinear, readLinear } from './linear.ts'
import type { ModelSource } from './source.ts'

export interface Gated {
  readonly gate: Linear
  readonly up: Linear
  readonly down: Linear
}

/** `name.ffn_gate`, `name.ffn_up`, `name.ffn_down`. */
export function readGated(source: ModelSource, name: string): Gated {
  return {
    gate: readLinear(source, `${name}.ffn_gate`),
    up: readLinear(source, `${name}.ffn_up`),
    down: readLinear(source, `${name}.ffn_down`),
  }
}

/** x [n, width] -> [n, width] */
export function applyGated({ gate, up, down }: Gated, x: Tensor, act: 'silu' | 'gelu'): Tensor {
  const gated = applyLinear(gate, x)[act]().mul(applyLinear(up, x)) // [n, hidden]
  return applyLinear(down, gated)
}
