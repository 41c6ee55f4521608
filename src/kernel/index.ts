// The kernel families by name, one line each: what plans, tools and the conformance suite know of.

import { attention } from './attention/attention.ts'
import { cacheWrite } from './attention/cache.ts'
import { rope } from './attention/rope.ts'
import type { Family } from './family.ts'
import { limit } from './limit/limit.ts'
import { dequantize } from './linear/dequantize.ts'
import { linear } from './linear/linear.ts'
import { packedLinear } from './linear/packed-linear.ts'
import { quantize8 } from './linear/quantize8.ts'
import { repack } from './linear/repack.ts'
import { linearTransposed } from './linear/transposed.ts'
import { matmul } from './matmul/matmul.ts'
import { map } from './map/map.ts'
import { gather } from './move/gather.ts'
import { scatter } from './move/scatter.ts'
import { takeAlong } from './move/take-along.ts'
import { take } from './move/take.ts'
import { random } from './random/random.ts'
import { norm } from './reduce/norm.ts'
import { reduce } from './reduce/reduce.ts'
import { scan } from './reduce/scan.ts'
import { softmax } from './reduce/softmax.ts'
import { argsort } from './select/argsort.ts'
import { draw } from './select/draw.ts'
import { topk } from './select/topk.ts'
import { convolve } from './window/convolve.ts'
import { fold } from './window/fold.ts'
import { pool } from './window/pool.ts'
import { unfold } from './window/unfold.ts'

/** In the order that `ingot kernel --list` shows them. */
export const FAMILIES: readonly Family[] = [
  linear,
  linearTransposed,
  matmul,
  packedLinear,
  quantize8,
  repack,
  dequantize,
  attention,
  cacheWrite,
  rope,
  map,
  reduce,
  scan,
  softmax,
  norm,
  topk,
  draw,
  gather,
  take,
  takeAlong,
  scatter,
  unfold,
  fold,
  convolve,
  pool,
  argsort,
  random,
  limit,
]
