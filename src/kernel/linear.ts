// A linear layer for any number of rows: mat-vec for few, mat-mat for many.

import type { Caps } from '../base/caps.ts'
import type { LinearParams } from './linear-params.ts'
import { matmul } from './matmul.ts'
import { MATVEC_ROWS, matvec } from './matvec.ts'
import type { Work } from './record.ts'

export function linear(caps: Caps, params: LinearParams): Work {
  return (params.n <= MATVEC_ROWS ? matvec : matmul).work(caps, params)
}
