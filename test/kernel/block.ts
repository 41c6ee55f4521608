// Random blocks of every weight format. Any bytes are legal blocks, but not every scale is tame: the halves in them are kept small.

import { GGML_TYPES, type GgmlType } from '../../src/quant/type.ts'

/** where the halves of a block are */
const HALVES: Partial<Record<GgmlType, readonly number[]>> = {
  q4_0: [0],
  q4_1: [0, 2],
  q5_0: [0],
  q5_1: [0, 2],
  q8_0: [0],
  q2_k: [80, 82],
  q3_k: [108],
  q4_k: [0, 2],
  q5_k: [0, 2],
  q6_k: [208],
  iq4_nl: [0],
  iq4_xs: [0],
  iq2_xxs: [0],
  tq2_0: [64],
}

export function randomBlocks(type: GgmlType, elements: number, random: () => number): Uint8Array {
  const { block, bytes } = GGML_TYPES[type]
  const data = Uint8Array.from({ length: (elements / block) * bytes }, () => Math.floor(random() * 256))
  for (let start = 0; start < data.length; start += bytes) {
    for (const at of HALVES[type] ?? []) data[start + at + 1] = 0x20 + Math.floor(random() * 8)
    if (type === 'mxfp4') data[start] = 120 + Math.floor(random() * 8)
  }
  return data
}
