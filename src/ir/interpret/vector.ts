// Pure ops that move or combine the elements of a vector, the packed ops, and tables. Those that can fail (tables, lookups,
// u7 dot products) look at active lanes only and report the lane.

import { scalarOf, widthOf } from '../../base/dtype.ts'
import type { Node } from '../node.ts'
import { HALVES } from './half-table.ts'
import { encodeHalf, roundHalf } from './half.ts'
import type { Cells, State, Step } from './state.ts'

/** Ops whose meaning includes a fault: they run only where they are written, for the lanes that are there. */
export function canFail(node: Node): boolean {
  return node.op === 'table' || node.op === 'lookup16' || node.op === 'dotU7I8'
}

/** The step of a pure op that is not elementwise. */
export function vectorStep(node: Node, out: Cells, src: readonly Cells[], state: State): Step | undefined {
  const a = src[0]!
  const width = node.src[0] === undefined ? 1 : widthOf(node.src[0].dtype)
  switch (node.op) {
    case 'splat':
      return spread(out, a, widthOf(node.dtype))
    case 'vec':
      return () => {
        const count = src.length
        for (let e = 0; e < count; e++) for (let lane = 0, from = src[e]!; lane < from.length; lane++) out[lane * count + e] = from[lane]!
      }
    case 'extract':
      return pick(out, a, 1, width, node.arg as number)
    case 'slice':
      return pick(out, a, widthOf(node.dtype), width, node.arg as number)
    case 'join':
      return () => {
        for (let i = 0, o = 0; i < a.length; i += width) {
          for (let e = 0; e < width; e++) out[o++] = a[i + e]!
          for (let e = 0; e < width; e++) out[o++] = src[1]![i + e]!
        }
      }
    case 'hsum':
      return sum(out, a, width, scalarOf(node.dtype) === 'f16')
    case 'hmax':
      return () => {
        for (let lane = 0; lane < out.length; lane++) {
          let best = a[lane * width]!
          for (let e = 1; e < width; e++) if (a[lane * width + e]! > best) best = a[lane * width + e]!
          out[lane] = best
        }
      }
    case 'unpackU8':
      return () => {
        for (let i = 0; i < out.length; i++) out[i] = (a[i >> 2]! >>> (8 * (i & 3))) & 255
      }
    case 'unpackI8':
      return () => {
        for (let i = 0; i < out.length; i++) out[i] = (a[i >> 2]! << (24 - 8 * (i & 3))) >> 24
      }
    case 'packI8':
      return () => {
        for (let i = 0; i < out.length; i++) {
          out[i] = (a[4 * i]! & 255) | ((a[4 * i + 1]! & 255) << 8) | ((a[4 * i + 2]! & 255) << 16) | (a[4 * i + 3]! << 24)
        }
      }
    case 'unpackF16':
      return () => {
        for (let i = 0; i < out.length; i++) out[i] = HALVES[(a[i >> 1]! >>> (16 * (i & 1))) & 65535]!
      }
    case 'packF16':
      return () => {
        for (let i = 0; i < out.length; i++) out[i] = encodeHalf(a[2 * i]!) | (encodeHalf(a[2 * i + 1]!) << 16)
      }
    case 'table':
      return table(node, out, a, state)
    case 'lookup16':
      return lookup(node, out, a, state)
    case 'dotU7I8':
      return dotU7(node, out, src, state)
    default:
      return undefined
  }
}

function spread(out: Cells, a: Cells, width: number): Step {
  return () => {
    for (let lane = 0, o = 0; lane < a.length; lane++) for (let e = 0; e < width; e++) out[o++] = a[lane]!
  }
}

function pick(out: Cells, a: Cells, count: number, width: number, first: number): Step {
  return () => {
    for (let o = 0, from = first; o < out.length; from += width) for (let e = 0; e < count; e++) out[o++] = a[from + e]!
  }
}

/** From the first element to the last, rounded at each step. */
function sum(out: Cells, a: Cells, width: number, half: boolean): Step {
  const round = out instanceof Float32Array ? (half ? roundHalf : Math.fround) : (x: number) => x
  return () => {
    for (let lane = 0; lane < out.length; lane++) {
      let total = a[lane * width]!
      for (let e = 1; e < width; e++) total = round(total + a[lane * width + e]!)
      out[lane] = total
    }
  }
}

function table(node: Node, out: Cells, index: Cells, state: State): Step {
  const values = node.arg as readonly number[]
  const cells =
    out instanceof Float32Array ? Float32Array.from(values) : out instanceof Int32Array ? Int32Array.from(values) : Uint32Array.from(values)
  return ({ lanes, count }) => {
    for (let at = 0; at < count; at++) {
      const lane = lanes[at]!
      if (index[lane]! >= cells.length) {
        state.fault('out-of-range', 'index past the end of a table', lane, {
          got: index[lane],
          wanted: `below ${cells.length}`,
        })
      }
      out[lane] = cells[index[lane]!]!
    }
  }
}

function lookup(node: Node, out: Cells, a: Cells, state: State): Step {
  const bytes = Uint8Array.from(node.arg as readonly number[])
  const width = widthOf(node.dtype)
  return ({ lanes, count }) => {
    for (let at = 0; at < count; at++) {
      const first = lanes[at]! * width
      for (let i = first; i < first + width; i++) {
        const word = a[i]!
        if ((word & 0xf0f0f0f0) !== 0) {
          state.fault('out-of-range', 'lookup16 of a byte above 15', lanes[at], {
            got: `0x${(word >>> 0).toString(16)}`,
            wanted: 'bytes from 0 to 15',
          })
        }
        out[i] =
          bytes[word & 15]! | (bytes[(word >>> 8) & 15]! << 8) | (bytes[(word >>> 16) & 15]! << 16) | (bytes[(word >>> 24) & 15]! << 24)
      }
    }
  }
}

function dotU7(node: Node, out: Cells, [a, b, c]: readonly Cells[], state: State): Step {
  const width = widthOf(node.dtype)
  return ({ lanes, count }) => {
    for (let at = 0; at < count; at++) {
      const first = lanes[at]! * width
      for (let i = first; i < first + width; i++) {
        const x = a![i]!
        const y = b![i]!
        if ((x & 0x80808080) !== 0) {
          state.fault('out-of-range', 'dotU7I8 of a byte above 127', lanes[at], {
            got: `0x${(x >>> 0).toString(16)}`,
            wanted: 'bytes from 0 to 127',
          })
        }
        out[i] =
          c![i]! +
          (x & 127) * ((y << 24) >> 24) +
          ((x >> 8) & 127) * ((y << 16) >> 24) +
          ((x >> 16) & 127) * ((y << 8) >> 24) +
          (x >>> 24) * (y >> 24)
      }
    }
  }
}
