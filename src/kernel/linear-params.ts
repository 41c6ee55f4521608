// What all forms of a linear layer share: y [n, m] = x [n, k] times w [m, k] transposed, plus bias [m].

import type { Arrays, BufferShape } from './record.ts'

export interface LinearParams {
  readonly format: string
  readonly m: number
  readonly k: number
  /** rows of x */
  readonly n: number
  readonly bias: boolean
}

export function linearBuffers({ format, m, k, n, bias }: LinearParams): BufferShape[] {
  return [
    { name: 'x', role: 'in', type: 'f32', elements: n * k },
    { name: 'w', role: 'in', type: format, elements: m * k },
    ...(bias ? [{ name: 'bias', role: 'in', type: 'f32', elements: m } as const] : []),
    { name: 'y', role: 'out', type: 'f32', elements: n * m },
  ]
}

/** The meaning that matvec and matmul share. */
export function defineLinear({ x, w, bias }: Arrays, { m, k, n }: { m: number; k: number; n: number }): Arrays {
  const y = new Float32Array(n * m)
  for (let row = 0; row < n; row++) {
    for (let out = 0; out < m; out++) {
      let sum = bias?.[out] ?? 0
      for (let i = 0; i < k; i++) sum += (x![row * k + i] ?? 0) * (w![out * k + i] ?? 0)
      y[row * m + out] = sum
    }
  }
  return { y }
}
