// What the mat-mats of GPUs share: what they are written for, and how they see x and weights of single elements.

import type { Handles, UniformSpec } from '../../ir/author.ts'
import { formatOf } from '../../quant/index.ts'
import type { Source } from '../matmul/stage.ts'
import type { LinearParams, linearParams } from './params.ts'

export interface MatmulTraits {
  readonly format: string
  readonly bias: boolean
  /** the last step goes past the end of k */
  readonly ragged: boolean
  /** rows of x and w start at multiples of four elements */
  readonly aligned: boolean
}

/** For kernels that take k in steps of `step`. */
export function traitsOf({ format, bias, k }: LinearParams, step: number): MatmulTraits {
  return { format, bias, ragged: k % step !== 0, aligned: k % 4 === 0 }
}

type LinearHandles = Handles<ReturnType<typeof linearParams> & { n: UniformSpec<'u32'> }>

/** x, which is seen as vectors of four where rows are aligned. */
export function rowsOf({ ragged, aligned }: MatmulTraits, { x, k, n }: LinearHandles): Source {
  const element = aligned ? undefined : formatOf('f32').element
  return { element, memory: x, rows: n, inner: k, turned: false, aligned, ragged }
}

export function weightsOf({ format, ragged, aligned }: MatmulTraits, { w, k, m }: LinearHandles): Source {
  return { element: formatOf(format).element, memory: w, rows: m, inner: k, turned: false, aligned, ragged }
}
