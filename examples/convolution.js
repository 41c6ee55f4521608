// The edges of a picture, by a 2-D convolution. `node examples/convolution.js`

import { Tensor } from 'ingot'

const [WIDTH, HEIGHT] = [72, 30]
const draw = (rows) => rows.map((row) => row.map((v) => ' .:-=+*#%@'[Math.max(0, Math.min(9, Math.floor(10 * v)))]).join('')).join('\n')

// A picture: a disc and a box, as brightness between 0 and 1.
const x = Tensor.linspace(-1.2, 1.2, WIDTH).reshape(1, WIDTH)
const y = Tensor.linspace(-1, 1, HEIGHT).reshape(HEIGHT, 1)
const disc = x.add(0.5).square().add(y.square()).lt(0.3)
const box = x.sub(0.55).abs().maximum(y.add(0.1).abs()).lt(0.4)
const picture = disc.where(x.mul(0.4).add(0.8), box.where(y.mul(0.3).add(0.5), 0))

// Sobel's filters: how much brightness changes to the right, and downwards.
const filters = Tensor.from([
  [[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], // prettier-ignore
  [[[-1, -2, -1], [0, 0, 0], [1, 2, 1]]], // prettier-ignore
]).mul(1 / 4)
const changes = picture.reshape(1, 1, HEIGHT, WIDTH).conv2d(filters, { padding: 1 }) // [1, 2, h, w]
const edges = changes.l2Norm(1).reshape(HEIGHT, WIDTH).clamp(0, 1)

console.log(draw(await picture.toArray()))
console.log('its edges:')
console.log(draw(await edges.toArray()))
