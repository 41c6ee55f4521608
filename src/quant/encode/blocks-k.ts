// Encodes Q4_K and Q5_K: eight sub-blocks of 32 with a scale and an offset each, which are themselves quantised to 6 bits. The
// quantised scales and offsets are chosen among neighbours by the error they really leave.

/* oxlint-disable typescript/no-non-null-assertion -- an encoder is given whole blocks, and its counters stay within them */

import { roundHalf } from '../../base/half.ts'
import { type BlockEncoder, clampRound, putHalf } from './encode.ts'
import { type RangeFit, fitRange } from './search.ts'

const SUBS = 8
const SUB = 32
const MOST = 63

/** Puts the 256 quants of a block into `out`, after its 16 bytes of scales. */
type PutQuants = (quants: Uint8Array, out: Uint8Array, at: number) => void

export function rangedSuperEncoder(levels: 15 | 31, put: PutQuants): BlockEncoder {
  const fit: RangeFit = { scale: 0, offset: 0, error: 0 }
  const [scales, offsets] = [new Float64Array(SUBS), new Float64Array(SUBS)]
  const [scaleBits, offsetBits] = [new Uint8Array(SUBS), new Uint8Array(SUBS)]
  const quants = new Uint8Array(SUBS * SUB)
  return (values, from, out, at) => {
    let [mostScale, mostOffset] = [0, 0]
    for (let sub = 0; sub < SUBS; sub++) {
      fitRange(values, from + SUB * sub, SUB, levels, fit)
      scales[sub] = fit.scale
      offsets[sub] = fit.offset
      mostScale = Math.max(mostScale, fit.scale)
      mostOffset = Math.max(mostOffset, fit.offset)
    }
    putHalf(out, at, mostScale / MOST)
    putHalf(out, at + 2, mostOffset / MOST)
    const d = roundHalf(mostScale / MOST)
    const dmin = roundHalf(mostOffset / MOST)
    for (let sub = 0; sub < SUBS; sub++) {
      const [scale, offset] = [d === 0 ? 0 : scales[sub]! / d, dmin === 0 ? 0 : offsets[sub]! / dmin]
      // Zeros are the worst it may come to: halves that are nearly zero are coarse.
      let best = measure(values, from + SUB * sub, 0, 0, levels)
      scaleBits[sub] = 0
      offsetBits[sub] = 0
      for (let s = clampRound(scale - 1, 0, MOST); s <= Math.min(MOST, scale + 1.5); s++) {
        for (let o = clampRound(offset - 1, 0, MOST); o <= Math.min(MOST, offset + 1.5); o++) {
          const error = measure(values, from + SUB * sub, d * s, dmin * o, levels)
          if (error >= best) continue
          best = error
          scaleBits[sub] = s
          offsetBits[sub] = o
        }
      }
      round(values, from + SUB * sub, d * scaleBits[sub]!, dmin * offsetBits[sub]!, levels, quants, SUB * sub)
    }
    putScales(out, at + 4, scaleBits, offsetBits)
    put(quants, out, at + 16)
  }
}

function measure(x: Float32Array, from: number, scale: number, offset: number, levels: number): number {
  const inverse = scale === 0 ? 0 : 1 / scale
  let error = 0
  for (let i = from; i < from + SUB; i++) {
    const value = x[i]! + offset
    const raw = value * inverse + 0.5
    const off = value - scale * (raw < levels ? (raw > 0 ? raw | 0 : 0) : levels) // as clampRound, but faster
    error += off * off
  }
  return error
}

function round(x: Float32Array, from: number, scale: number, offset: number, levels: number, quants: Uint8Array, to: number): void {
  const inverse = scale === 0 ? 0 : 1 / scale
  for (let i = 0; i < SUB; i++) quants[to + i] = clampRound((x[from + i]! + offset) * inverse, 0, levels)
}

/** The 12 bytes that `scaleAndMin` of q4_k.ts reads. */
function putScales(out: Uint8Array, at: number, scales: Uint8Array, offsets: Uint8Array): void {
  for (let i = 0; i < 4; i++) {
    const [scale, offset] = [scales[i + 4]!, offsets[i + 4]!]
    out[at + i] = scales[i]! | ((scale >> 4) << 6)
    out[at + 4 + i] = offsets[i]! | ((offset >> 4) << 6)
    out[at + 8 + i] = (scale & 15) | ((offset & 15) << 4)
  }
}
