// What all forms of a convolution share: x [n, channels, ...in] times w [outputs, channels / groups, ...kernel], plus bias [outputs], gives
// y [n, outputs, ...out]. Outputs of a group see the channels of that group. As everywhere in this field, windows are not mirrored.

import { IngotError } from '../../base/error.ts'
import { elements } from '../element.ts'
import type { Arrays, BufferShape } from '../family.ts'
import { checkSizes } from '../move/size.ts'
import { type Windows, checkWindows, product, visitTaps } from './windows.ts'

/** Elements of all tensors; computed in f32. */
export type ConvolveType = 'f32' | 'f16' | 'bf16'

/** Windows over one or two axes. */
export interface ConvolveParams extends Windows {
  readonly type: ConvolveType
  /** images */
  readonly n: number
  readonly channels: number
  readonly outputs: number
  readonly groups: number
  readonly bias: boolean
}

export const convolveParams = (type: ConvolveType, bias: boolean) => ({
  x: elements(type, 'read'),
  w: elements(type, 'read'),
  ...(bias ? { bias: elements(type, 'read') } : {}),
  y: elements(type, 'write'),
})

/** Throws `bad-argument` for what is no convolution. */
export function checkConvolution({ n, channels, outputs, groups, ...windows }: ConvolveParams): void {
  checkSizes('convolve', { n, channels, outputs, groups })
  checkWindows('convolve', windows, 2)
  if (channels % groups !== 0 || outputs % groups !== 0)
    throw new IngotError('bad-argument', 'channels do not fall into groups', {
      op: 'convolve',
      got: { channels, outputs, groups },
      wanted: 'multiples of groups',
    })
}

export function convolveBuffers({ type, n, channels, outputs, groups, bias, in: sizes, kernel, out }: ConvolveParams): BufferShape[] {
  return [
    { name: 'x', role: 'in', type, elements: n * channels * product(sizes) },
    { name: 'w', role: 'in', type, elements: outputs * (channels / groups) * product(kernel) },
    ...(bias ? [{ name: 'bias', role: 'in', type, elements: outputs } as const] : []),
    { name: 'y', role: 'out', type, elements: n * outputs * product(out) },
  ]
}

/** The meaning, whatever the form. */
export function defineConvolution({ x, w, bias }: Arrays, { n, channels, outputs, groups, ...windows }: ConvolveParams): Arrays {
  const [size, taps, counts] = [product(windows.in), product(windows.kernel), product(windows.out)]
  const [inputs, each] = [channels / groups, outputs / groups]
  const y = new Float64Array(n * outputs * counts)
  for (let image = 0; image < n; image++) {
    for (let o = 0; o < outputs; o++) {
      const start = (image * outputs + o) * counts
      y.fill(bias?.[o] ?? 0, start, start + counts)
      for (let c = 0; c < inputs; c++) {
        const channel = image * channels + Math.floor(o / each) * inputs + c
        visitTaps(windows, (window, tap, element) => {
          y[start + window] =
            (y[start + window] ?? NaN) + (x?.[channel * size + element] ?? NaN) * (w?.[(o * inputs + c) * taps + tap] ?? NaN)
        })
      }
    }
  }
  return { y: Float32Array.from(y) }
}
