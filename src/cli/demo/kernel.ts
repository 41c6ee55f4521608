// The kernel of the guided demonstration, shown there as it stands here: after how many iterations each point of the plane escapes.

import { buffer, kernel, uniform } from '../../ir/author.ts'

// show from here
export const mandelbrot = kernel(
  'mandelbrot',
  {
    params: { iterations: buffer('u32', 'write'), width: uniform('u32'), height: uniform('u32'), limit: uniform('u32') },
    workgroup: [64],
  },
  ({ iterations, width, height, limit }, k) => {
    const i = k.globalId.x
    k.when(i.lt(width.mul(height)), (k) => {
      const cx = k.let('cx', i.rem(width).to('f32').div(width.to('f32')).mul(3.2).sub(2.3))
      const cy = k.let('cy', i.div(width).to('f32').div(height.to('f32')).mul(2.4).sub(1.2))
      const x = k.var('x', cx)
      const y = k.var('y', cy)
      const count = k.var('count', k.const('u32', 0))
      k.loop((k) => {
        const [a, b] = [k.let('a', x.get()), k.let('b', y.get())]
        k.breakIf(a.mul(a).add(b.mul(b)).gt(4).or(count.get().ge(limit)))
        x.set(a.mul(a).sub(b.mul(b)).add(cx))
        y.set(a.mul(b).mul(2).add(cy))
        count.set(count.get().add(1))
      })
      iterations.set(i, count.get())
    })
  },
)
