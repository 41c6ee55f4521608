// Many rows of x on CPUs: a product of matrices like any other (../matmul/panels.ts), whose second one lies transposed and may have any
// weight format, as its file has it.

import { FORMATS } from '../../quant/index.ts'
import { type Form, isCpu } from '../family.ts'
import { panelKernels, panelLaunch } from '../matmul/panels.ts'
import type { LinearParams } from './params.ts'

export const matmulPanels: Form<LinearParams> = {
  name: 'matmul panels',
  fits: isCpu,
  work: (caps, { format, m, k, n, bias, rank = 0 }) => {
    const sizes = { m: n, n: m, k, transposeA: false, transposeB: true, batch: [], rank }
    return { launches: [panelLaunch(caps, { a: 'f32', b: format, y: 'f32', bias, ...sizes }, { a: 'x', b: 'w' })] }
  },
  // Other formats are packed (packed-linear.ts).
  kernels: (caps) =>
    FORMATS.filter(({ packed }) => packed === undefined).flatMap(({ name }) => panelKernels(caps, { a: 'f32', b: name, y: 'f32' })),
}
