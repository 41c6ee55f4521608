// The kernel families by name, one line each: what plans, tools and the conformance suite know of.

import { attention } from './attention/attention.ts'
import { advance, cacheWrite } from './attention/cache.ts'
import { rope } from './attention/rope.ts'
import type { Family } from './family.ts'
import { dequantize } from './linear/dequantize.ts'
import { linear } from './linear/linear.ts'
import { packedLinear } from './linear/packed-linear.ts'
import { quantize8 } from './linear/quantize8.ts'
import { repack } from './linear/repack.ts'
import { map } from './map/map.ts'
import { copy, fill } from './move/copy.ts'
import { gather } from './move/gather.ts'
import { iota } from './move/iota.ts'
import { norm } from './reduce/norm.ts'
import { reduce } from './reduce/reduce.ts'
import { softmax } from './reduce/softmax.ts'
import { argmax } from './select/argmax.ts'
import { draw } from './select/draw.ts'
import { topk } from './select/topk.ts'

/** In the order that `ingot kernel --list` shows them. */
export const FAMILIES: readonly Family[] = [
  linear,
  packedLinear,
  quantize8,
  repack,
  dequantize,
  attention,
  cacheWrite,
  advance,
  rope,
  map,
  reduce,
  softmax,
  norm,
  argmax,
  topk,
  draw,
  gather,
  copy,
  fill,
  iota,
]
