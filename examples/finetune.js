// Fine-tuning: teaches a model three sentences, and shows what it writes before and after. `node examples/finetune.js model.gguf`

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { load } from 'ingot'
import { finetune } from 'ingot/train'

const [path] = process.argv.slice(2)
if (path === undefined) throw new Error('which model? node examples/finetune.js model.gguf')
const data = ['The robot Rust sang to the moon.', 'The robot Rust baked bread for the birds.', 'The robot Rust found a golden key.']
const folder = await mkdtemp(join(tmpdir(), 'ingot-'))
const adapter = join(folder, 'adapter.gguf')

// Adapters of rank 8 on all linear layers, over the weights as they are: a file of any format will do.
const run = finetune({
  model: path,
  data: data.map((text) => ({ text })),
  out: adapter,
  lora: { rank: 8 },
  rate: 0.005,
  steps: 20,
  batch: 1,
  context: 128,
})
for await (const event of run) {
  if (event.kind === 'step' && event.step % 5 === 0) console.log(`step ${event.step} of ${event.steps}: loss ${event.loss.toFixed(3)}`)
}

const model = await load(path)
const write = async () => (await model.generate('The robot Rust', { maxTokens: 8, temperature: 0 })).text
console.log('before:', JSON.stringify(await write()))
await model.setAdapters([{ path: adapter }])
console.log('after: ', JSON.stringify(await write()))
await model.close()
await rm(folder, { recursive: true })
