// A small network learns to tell two interleaved half-moons apart, and draws what it learnt. `node examples/moons.js`

import { Tensor, compile, random, valueAndGrad } from 'ingot'

const COUNT = 400
const [WIDTH, HEIGHT] = [64, 22]

// Two half circles, one upside down, with noise.
const angle = random.uniform([COUNT], { seed: 1, high: Math.PI })
const isLower = Tensor.arange(COUNT).remainder(2).eq(1)
const across = isLower.where(angle.cos().neg().add(1), angle.cos())
const up = isLower.where(angle.sin().neg().add(0.5), angle.sin())
const points = Tensor.stack([across, up], 1).add(random.normal([COUNT, 2], { seed: 2, deviation: 0.1 }))
const labels = isLower.to('f32')
await Promise.all([points.realize(), labels.realize()])

// Three layers, with relu between them.
const layer = (inputs, outputs, seed) => ({
  w: random.normal([inputs, outputs], { seed, deviation: Math.sqrt(2 / inputs) }),
  b: Tensor.zeros([outputs]),
})
const network = [layer(2, 32, 3), layer(32, 32, 4), layer(32, 1, 5)]
/** Points [n, 2] to logits [n]: above 0 for the lower moon. */
const forward = ([first, second, third], x) => {
  const inner = x.matmul(first.w).add(first.b).relu() // [n, 32]
  const outer = inner.matmul(second.w).add(second.b).relu()
  return outer.matmul(third.w).add(third.b).squeeze(-1)
}
/** How badly logits z predict labels y: log(1 + exp(z)) - y z. */
const lossOf = (layers) => {
  const logits = forward(layers, points)
  return logits.softplus().sub(labels.mul(logits)).mean()
}

// One step of gradient descent: a single submission, which changes all weights in place.
const train = compile(() => {
  const [loss, gradients] = valueAndGrad(lossOf)(network)
  network.forEach((each, i) => {
    for (const name of ['w', 'b']) each[name].assign(each[name].sub(gradients[i][name].mul(0.5)))
  })
  return loss
})
for (let i = 1; i <= 400; i++) {
  const loss = await train()
  if (i % 100 === 0) console.log(`step ${i}: loss ${(await loss.item()).toFixed(4)}`)
}

// The plane, by what the network says about it.
const column = Tensor.linspace(-1.5, 2.5, WIDTH).reshape(1, WIDTH).expand(HEIGHT, WIDTH)
const row = Tensor.linspace(1.4, -0.9, HEIGHT).reshape(HEIGHT, 1).expand(HEIGHT, WIDTH)
const plane = await forward(network, Tensor.stack([column, row], -1).reshape(-1, 2))
  .sigmoid()
  .reshape(HEIGHT, WIDTH)
  .toArray()
console.log(plane.map((line) => line.map((p) => ' .:-=+*#%@'[Math.min(9, Math.floor(10 * p))]).join('')).join('\n'))

const right = forward(network, points).gt(0).eq(isLower).to('f32').mean()
console.log(`${(100 * (await right.item())).toFixed(1)} % of the points are on the right side`)
