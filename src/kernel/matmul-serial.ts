// Mat-mat where lanes are loops: a workgroup decodes four rows of w into scratch, then walks the rows of x along them, four dot
// products at a time in vectors.

import { type LaneScope, type Shared, buffer, kernel, uniform } from '../ir/author.ts'
import type { Value } from '../ir/value.ts'
import { CHUNK, type Format, type Weights } from '../quant/format.ts'
import { formatOf } from '../quant/index.ts'
import type { LinearParams } from './linear-params.ts'
import type { Work } from './record.ts'

const ROWS = 4
/** k is taken in runs of this many, so that the decoded rows stay in the first-level cache */
const RUN = 1024

export function matmulSerial({ format: name, m, k: inner, n, bias }: LinearParams): Work {
  const format = formatOf(name)
  const written = kernel(
    `matmul_${name}`,
    {
      params: {
        x: buffer('f32', 'read'),
        w: buffer(format.storage, 'read'),
        ...(bias ? { bias: buffer('f32', 'read') } : {}),
        y: buffer('f32', 'readwrite'),
        m: uniform('u32'),
        k: uniform('u32'),
        n: uniform('u32'),
      },
      variant: 'serial',
      ...(name === 'f32' ? { product: { outs: ROWS } } : {}),
    },
    (p, k) => {
      const rows = k.shared('rows', 'f32', ROWS * RUN)
      const first = k.let('first', k.workgroupId.x.mul(ROWS))
      const rowOf = Array.from({ length: ROWS }, (_, r) => k.let('row', first.add(r).min(p.m.sub(1))))
      k.for({ name: 'from', to: p.k, step: RUN }, (from) => {
        const length = k.let('length', p.k.sub(from).min(RUN))
        rowOf.forEach((row, r) => decodeRun(k, format, p.w, row.mul(p.k).add(from), length, rows, r * RUN))
        k.for({ name: 'c', to: p.n }, (column) => {
          const sums = rowOf.map(() => k.var('sum', k.const('f32', 0).splat(4)))
          const whole = k.let('whole', length.div(4).mul(4))
          k.for({ name: 'i', to: whole, step: 4 }, (i) => {
            const x = p.x.load(column.mul(p.k).add(from).add(i), 4)
            sums.forEach((sum, r) => sum.set(sum.get().add(rows.load(i.add(r * RUN), 4).mul(x))))
          })
          const dots = sums.map((sum) => k.var('dot', sum.get().hsum()))
          k.for({ name: 'i', from: whole, to: length }, (i) => {
            const x = p.x.at(column.mul(p.k).add(from).add(i))
            dots.forEach((dot, r) => dot.set(dot.get().add(rows.at(i.add(r * RUN)).mul(x))))
          })
          dots.forEach((dot, r) =>
            k.when(first.add(r).lt(p.m), () => {
              const at = column.mul(p.m).add(first).add(r)
              const start = p.bias === undefined ? k.const('f32', 0) : p.bias.at(rowOf[r]!)
              k.when(
                from.eq(0),
                () => p.y.set(at, dot.get().add(start)),
                () => p.y.set(at, dot.get().add(p.y.at(at))),
              )
            }),
          )
        })
      })
    },
  )
  return { launches: [{ kernel: written, uniforms: { m, k: inner, n }, grid: [Math.ceil(m / ROWS), 1, 1] }] }
}

/** `length` weights from `start` on into scratch at `to`. */
function decodeRun(
  k: LaneScope,
  format: Format,
  w: Weights,
  start: Value<'u32'>,
  length: Value<'u32'>,
  rows: Shared<'f32'>,
  to: number,
): void {
  const { element } = format
  if (element !== undefined) {
    k.for({ name: 'i', to: length }, (i) => rows.set(i.add(to), element.one(w, start.add(i))))
    return
  }
  k.for({ name: 'c', to: length.div(CHUNK) }, (c, body) => {
    format.decode(body, w, start.div(CHUNK).add(c)).forEach((four, i) => rows.store(c.mul(CHUNK).add(to + 4 * i), four))
  })
}
