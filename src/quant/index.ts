// The weight formats Ingot can compute with, one line each.

import { IngotError } from '../base/error.ts'
import { bf16, f16, f32 } from './float.ts'
import type { Format } from './format.ts'
import { iq2_xxs } from './iq2_xxs.ts'
import { iq4_nl } from './iq4_nl.ts'
import { iq4_xs } from './iq4_xs.ts'
import { mxfp4 } from './mxfp4.ts'
import { q2_k } from './q2_k.ts'
import { q3_k } from './q3_k.ts'
import { q4_0 } from './q4_0.ts'
import { q4_1 } from './q4_1.ts'
import { q4_k } from './q4_k.ts'
import { q5_0 } from './q5_0.ts'
import { q5_1 } from './q5_1.ts'
import { q5_k } from './q5_k.ts'
import { q6_k } from './q6_k.ts'
import { q8_0 } from './q8_0.ts'
import { tq2_0 } from './tq2_0.ts'

export const FORMATS: readonly Format[] = [
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  iq2_xxs,
  mxfp4,
  tq2_0,
]

const BY_NAME: ReadonlyMap<string, Format> = new Map(FORMATS.map((format) => [format.name, format]))

/** The format of this name. */
export function formatOf(name: string): Format {
  const format = BY_NAME.get(name)
  if (format !== undefined) return format
  throw new IngotError('unsupported', 'no kernel reads this weight format', {
    op: 'quant',
    got: name,
    wanted: FORMATS.map((f) => f.name).join(', '),
  })
}
