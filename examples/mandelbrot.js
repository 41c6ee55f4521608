// The Mandelbrot set, by a kernel of one's own: written once, run on the best device there is. `node examples/mandelbrot.js`

import { buffer, kernel, open, packUniforms, uniform } from 'ingot/kernel'

const [WIDTH, HEIGHT, LIMIT] = [78, 32, 200]

const mandelbrot = kernel(
  'mandelbrot',
  { params: { steps: buffer('u32', 'write'), width: uniform('u32'), height: uniform('u32'), limit: uniform('u32') }, workgroup: [64] },
  ({ steps, width, height, limit }, k) => {
    const i = k.globalId.x
    k.when(i.lt(width.mul(height)), (k) => {
      const [cx, cy] = [
        i.rem(width).to('f32').div(width.to('f32')).mul(3).sub(2.2),
        i.div(width).to('f32').div(height.to('f32')).mul(2.4).sub(1.2),
      ]
      const [x, y, n] = [k.var('x', k.const('f32', 0)), k.var('y', k.const('f32', 0)), k.var('n', k.const('u32', 0))]
      k.loop((k) => {
        const [xx, yy] = [k.let('xx', x.get().mul(x.get())), k.let('yy', y.get().mul(y.get()))]
        k.breakIf(xx.add(yy).gt(4).or(n.get().ge(limit)))
        y.set(x.get().mul(y.get()).mul(2).add(cy))
        x.set(xx.sub(yy).add(cx))
        n.set(n.get().add(1))
      })
      steps.set(i, n.get())
    })
  },
)

const { device, why } = await open()
const target = device.alloc(4 * WIDTH * HEIGHT)
const program = await device.compile(mandelbrot)
const uniforms = packUniforms(mandelbrot, { width: WIDTH, height: HEIGHT, limit: LIMIT })
const grid = [Math.ceil((WIDTH * HEIGHT) / 64), 1, 1]
const [bytes] = await device.submit([
  { kind: 'dispatch', program, buffers: [{ buffer: target }], uniforms, grid },
  { kind: 'read', from: { buffer: target }, bytes: 4 * WIDTH * HEIGHT },
])
const steps = new Uint32Array(bytes.slice().buffer)
for (let row = 0; row < HEIGHT; row++) {
  const line = steps.subarray(row * WIDTH, (row + 1) * WIDTH)
  console.log(Array.from(line, (n) => ' .:-=+*#%@'[n === LIMIT ? 9 : Math.min(8, Math.floor(Math.log2(n + 1)))]).join(''))
}
console.log(`drawn on ${device.name} (${why})`)
await device.close()
