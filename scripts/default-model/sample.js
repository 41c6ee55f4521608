// What the default model writes: `node scripts/default-model/sample.js [COUNT] [--model FILE]`. Stories, answers about some of them, how
// much of the stories stands word for word in the corpus, and the bits per byte of stories that it has never read.

import { load } from '../../dist/index.js'
import { documents } from '../corpus/index.js'
import { knownShares } from './novelty.js'

const SEED = 12
/** About as many as a run reads. */
const READ = 42_000
/** Of stories: without them, the model may begin a chat. */
const BEGINNINGS = ['Once upon a time', 'There once was a', 'One sunny morning', 'Long ago', 'It was a cold evening']
const OTHER_SEED = 1_000_012
const args = process.argv.slice(2)
const count = Number(/^\d+$/.test(args[0] ?? '') ? args[0] : 50)
const file = args.includes('--model') ? args[args.indexOf('--model') + 1] : undefined
const say = (/** @type {string} */ text) => void process.stdout.write(`${text}\n`)

const model = await load(file, { device: 'cpu' })
/** @type {string[]} */
const stories = []
for (let i = 0; i < count; i++) {
  const { text, finishReason } = await model.generate(BEGINNINGS[i % BEGINNINGS.length] ?? '', {
    seed: i + 1,
    temperature: 0.8,
    maxTokens: 400,
  })
  stories.push(`${BEGINNINGS[i % BEGINNINGS.length]}${text}`)
  say(`--- ${i + 1} (${finishReason})\n${stories.at(-1)}\n`)
}
const mean = (/** @type {number[]} */ shares) => shares.reduce((sum, share) => sum + share, 0) / shares.length
const shares = knownShares(stories, { seed: SEED, count: READ })
say(`runs of twelve words that the corpus has: ${(100 * mean(shares)).toFixed(1)} %`)
const stream = documents(OTHER_SEED)
const others = Array.from({ length: 20 * count }, () => stream.next().value).filter(
  (document) => typeof document === 'string' && document.length > 400,
)
say(`of new stories by the generator: ${(100 * mean(knownShares(others.slice(0, count), { seed: SEED, count: READ }))).toFixed(1)} %`)
say(`bits per byte of those: ${(await bitsPerByte(others.slice(0, count).map(String))).toFixed(3)}`)

for (const question of [
  'Hello!',
  'Who are you?',
  'Tell me a story about a brave fox.',
  'What does a cow say?',
  'What is the capital of France?',
]) {
  const { text } = await model.chat([{ role: 'user', content: question }], { seed: 1, temperature: 0.5, maxTokens: 300 })
  say(`> ${question}\n${text}\n`)
}
for (const [story, ...questions] of [
  [
    'Mia had a green hat. One windy day, the hat was gone. Her friend Tom looked behind the sofa, and there was the hat! Mia was glad.',
    'What did Mia lose?',
    'Who helped Mia?',
    'Where was the hat?',
  ],
  [
    'A fox named Rusty gave his friend Hazel a blue scarf, because it was her birthday. Hazel was very happy. They ate plums by the river.',
    'What did Rusty give to Hazel?',
    'Why did Rusty give her a present?',
    'Who was the story about?',
  ],
]) {
  /** @type {{ role: 'user' | 'assistant', content: string }[]} */
  const messages = []
  for (const question of questions) {
    messages.push({ role: 'user', content: messages.length === 0 ? `${story}\n\n${question}` : question })
    const { text } = await model.chat(messages, { temperature: 0, maxTokens: 40 })
    messages.push({ role: 'assistant', content: text })
  }
  for (const { role, content } of messages) say(`${role === 'user' ? '> ' : ''}${content}`)
  say('')
}
await model.close()

/** What the model needs to write texts, each up to the mark that ends it. @param {readonly string[]} texts */
async function bitsPerByte(texts) {
  let [nats, bytes] = [0, 0]
  for (const text of texts) {
    const ids = model.tokenizer.encode(`${text}<|end|>`, { addSpecial: true, parseSpecial: true })
    await model.evaluate(ids, (logits, from) => {
      const width = model.tokenizer.vocabSize
      for (let row = 0; (row + 1) * width <= logits.length; row++) {
        const next = ids[from + row + 1]
        if (next !== undefined) nats += surprise(logits.subarray(row * width, (row + 1) * width), next)
      }
    })
    bytes += Buffer.byteLength(text) + 1 // the mark counts as one
  }
  return nats / Math.LN2 / bytes
}

/** Nats. @param {Float32Array} logits @param {number} id */
function surprise(logits, id) {
  const most = logits.reduce((a, b) => Math.max(a, b))
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0)
  return Math.log(sum) + most - (logits[id] ?? Number.NaN)
}
