// Linear regression: the line behind noisy points, found by gradient descent. `node examples/regression.js`

import { Tensor, compile, random, valueAndGrad } from 'ingot'

// 500 points of y = 2 a - b + 0.5 c + 3, with a little noise.
const x = random.normal([500, 3], { seed: 1 })
const truth = Tensor.from([2, -1, 0.5])
const y = x
  .matmul(truth)
  .add(3)
  .add(random.normal([500], { seed: 2, deviation: 0.1 }))

const weights = Tensor.zeros([3])
const bias = Tensor.zeros([])

/** One step of gradient descent: a single submission, which changes weights and bias in place. */
const step = compile(() => {
  const [loss, gradient] = valueAndGrad(({ weights, bias }) => x.matmul(weights).add(bias).mse(y))({ weights, bias })
  weights.assign(weights.sub(gradient.weights.mul(0.1)))
  bias.assign(bias.sub(gradient.bias.mul(0.1)))
  return loss
})

for (let i = 1; i <= 100; i++) {
  const loss = await step()
  if (i % 20 === 0) console.log(`step ${i}: loss ${(await loss.item()).toFixed(4)}`)
}
console.log('weights', await weights.show(), 'bias', (await bias.item()).toFixed(3))
