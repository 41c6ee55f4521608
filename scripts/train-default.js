// Trains the default model, from nothing: `npm run train:default -- [--steps N] [--threads N] [--work FOLDER] [--out FILE]`. A corpus from a generator
// (scripts/corpus), a tokenizer trained on it, a new model, a run that learns all weights, and the file in Q8_0.
//
// A run that was stopped goes on from its last checkpoint in the work folder; remove that folder to begin anew. The number of steps is fixed,
// so that the result does not depend on how fast the machine is; --steps makes a shorter run.

import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { drawSvg } from '../dist/cli/train/plot.js'
import { open } from '../dist/device/open/open.js'
import { createTokenizer } from '../dist/llm/tokenizer/tokenizer.js'
import { trainTokenizer } from '../dist/llm/tokenizer/train.js'
import { adamw } from '../dist/nn/optim.js'
import { rateAt } from '../dist/nn/schedule.js'
import { createModel, readShape } from '../dist/train/create.js'
import { writeTrained } from '../dist/train/output.js'
import { createTrainer } from '../dist/train/step.js'
import { loadTrainable } from '../dist/train/trainable.js'
import { openGguf } from '../dist/weights/gguf/gguf.js'
import { createChoice } from './corpus/random.js'
import { documents, render } from './corpus/index.js'
import { loadCheckpoint, saveCheckpoint } from './default-model/checkpoint.js'
import { packPool, packRows, toBatch } from './default-model/pack.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
const option = (/** @type {string} */ name, /** @type {string} */ otherwise) =>
  args.includes(`--${name}`) ? (args[args.indexOf(`--${name}`) + 1] ?? otherwise) : otherwise

const SEED = 12
const HELD_OUT_SEED = 1_000_012
const VOCABULARY = 2048
const TOKENIZER_DOCUMENTS = 12_000
const HELD_OUT_DOCUMENTS = 320
const SHAPE = readShape('tiny')
const STEPS = Number(option('steps', '1050'))
/** Tokens of a step. */
const BATCH = 2048
const SHORT = { rows: 8, length: 256 }
const LONG = { rows: 4, length: 512 }
/** From this part of the steps on the rate falls, and from a later one rows are twice as long, so that chats fit. */
const [LATE, LONG_FROM] = [0.8, 0.95]
const RATE = 3e-3
const WARMUP = 60 // steps
const CHECKPOINT_EVERY = 100 // steps
const LOOK_EVERY = 200
const SAY_EVERY = 20
const SMOOTHING = 0.2 // of the drawn curve

const work = option('work', join(ROOT, 'build/train-default'))
const out = option('out', join(ROOT, 'models/ingot-tiny.gguf'))
const [fresh, checkpoint, log] = ['new.gguf', 'checkpoint.gguf', 'log.jsonl'].map((name) => join(work, name))
mkdirSync(work, { recursive: true })
const say = (/** @type {string} */ text) => void process.stdout.write(`${text}\n`)

const tokenizer = await prepare()
const encode = (/** @type {import('./corpus/index.js').Document} */ document) =>
  tokenizer.encode(render(document), { addSpecial: true, parseSpecial: true })
await train()

/** The tokenizer and a new model, in the work folder. */
async function prepare() {
  if (!existsSync(fresh)) {
    const source = documents(SEED)
    const texts = Array.from({ length: TOKENIZER_DOCUMENTS }, () => render(source.next().value).split(/<\|\w+\|>/)).flat()
    const begun = performance.now()
    const trained = trainTokenizer(texts, { vocabulary: VOCABULARY })
    say(`tokenizer: ${trained.tokens.length} tokens in ${((performance.now() - begun) / 1000).toFixed(1)} s`)
    const { parameters } = await createModel(fresh, { shape: SHAPE, tokenizer: trained, seed: SEED, name: 'Ingot tiny' })
    say(`model: ${(parameters / 1e6).toFixed(2)} M parameters`)
  }
  const file = await openGguf(fresh)
  await file.close()
  return createTokenizer(file.metadata)
}

async function train() {
  const threads = option('threads', '')
  const { device } = await open('cpu', threads === '' ? {} : { threads: Number(threads) })
  const file = await openGguf(fresh)
  const trainable = await loadTrainable(device, file, { contextLength: SHAPE.context })
  const { parameters } = trainable
  // Norms do not decay.
  const optimizer = adamw(parameters, { betas: [0.9, 0.98], weightDecay: (name) => (name.includes('norm') ? 0 : 0.1) })
  const trainer = createTrainer(trainable, { optimizer, clipNorm: 1 })
  const state = { ...parameters, ...Object.fromEntries(Object.entries(optimizer.state).map(([name, tensor]) => [`adam.${name}`, tensor])) }
  const held = heldOut()
  const progress = (await loadCheckpoint(checkpoint, state)) ?? { step: 0, seconds: 0 }
  if (progress.step > 0) say(`goes on at step ${progress.step}`)
  else writeFileSync(log, '')
  const rows = rowsFrom()
  for (let i = 0; i < progress.step; i++) for (let j = 0; j < sizeAt(i).rows; j++) rows(i)
  let begun = performance.now()
  for (let step = progress.step; step < STEPS; step++) {
    const batch = toBatch(
      device,
      Array.from({ length: sizeAt(step).rows }, () => rows(step)),
    )
    const rate = rateOf(step)
    const { loss, norm } = await trainer.step([batch], rate)
    if (!Number.isFinite(loss)) throw new Error(`the loss of step ${step} is ${loss}`)
    const done = step + 1
    const now = performance.now()
    progress.seconds += (now - begun) / 1000
    begun = now
    const tokens = done * BATCH
    if (done % SAY_EVERY === 0) {
      appendFileSync(log, `${JSON.stringify({ step: done, tokens, loss, norm, rate, seconds: progress.seconds })}\n`)
      const left = (progress.seconds / done) * (STEPS - done)
      say(
        `${done} of ${STEPS}, loss ${loss.toFixed(3)}, norm ${norm.toFixed(2)}, ${(tokens / progress.seconds).toFixed(0)} tok/s, ${(left / 60).toFixed(1)} min left`,
      )
    }
    if (done % LOOK_EVERY === 0 || done === STEPS) {
      const { nats, bits } = await evaluate(trainer, device, held)
      appendFileSync(log, `${JSON.stringify({ step: done, tokens, heldOut: nats, bitsPerByte: bits })}\n`)
      say(`held out: ${nats.toFixed(3)} nats per token, ${bits.toFixed(3)} bits per byte`)
    }
    if (done % CHECKPOINT_EVERY === 0 || done === STEPS) {
      progress.step = done
      await saveCheckpoint(checkpoint, state, progress)
      await write(file, trainable, done === STEPS ? out : join(work, 'now.gguf'))
    }
    begun += performance.now() - now // looking and saving do not count as training
  }
  trainer[Symbol.dispose]()
  trainable.free()
  await device.close()
  await file.close()
  writeFileSync(join(ROOT, 'docs/default-model.svg'), drawLog())
  say(`${out}: ${STEPS} steps, ${((STEPS * BATCH) / 1e6).toFixed(1)} M tokens, ${(progress.seconds / 60).toFixed(1)} minutes of training`)
}

/** The curve of the log. */
function drawLog() {
  const entries = readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const losses = entries.filter(({ loss }) => loss !== undefined)
  let mean = losses[0]?.loss ?? 0
  const smooth = losses.map(({ step, loss }) => ({ step, loss: (mean += SMOOTHING * (loss - mean)) }))
  const validation = entries.filter(({ heldOut }) => heldOut !== undefined).map(({ step, heldOut }) => ({ step, loss: heldOut }))
  return drawSvg({ losses, smooth, validation }, `The default model, ${BATCH} tokens a step, nats per token`)
}

/** The rate rises, stays, and falls in a line. @param {number} step */
function rateOf(step) {
  const late = Math.ceil(LATE * STEPS)
  if (step < late) return rateAt({ kind: 'constant', warmup: Math.min(WARMUP, late) }, RATE, step)
  return rateAt({ kind: 'linear', total: STEPS - late }, RATE, step - late)
}

/** How many rows a step has, and how long they are. @param {number} step */
function sizeAt(step) {
  return step < LONG_FROM * STEPS ? SHORT : LONG
}

/** Gives the next row of a step, from documents that no step has seen before. */
function rowsFrom() {
  const stream = documents(SEED)
  const random = createChoice(SEED).next
  const ids = { next: () => ({ done: false, value: encode(stream.next().value) }) }
  const short = packRows(/** @type {Iterator<number[]>} */ (ids), SHORT.length, random)
  const long = packRows(/** @type {Iterator<number[]>} */ (ids), LONG.length, random)
  return (/** @type {number} */ step) => (sizeAt(step) === SHORT ? short : long).next().value
}

/** Documents of another seed in rows, and the bytes of their text. */
function heldOut() {
  const stream = documents(HELD_OUT_SEED)
  const texts = Array.from({ length: HELD_OUT_DOCUMENTS }, () => stream.next().value)
  const ids = texts.map((text) => encode(text).slice(0, LONG.length + 1))
  return { rows: packPool(ids, LONG.length), bytes: ids.reduce((sum, each) => sum + bytesOf(each), 0) }
}

/** Bytes that a model has to predict: a mark of a chat counts as one. @param {number[]} ids */
function bytesOf(ids) {
  return ids.slice(1).reduce((sum, id) => sum + (tokenizer.isSpecial(id) ? 1 : tokenizer.tokenBytes(id).length), 0)
}

/**
 * @param {import('../dist/train/step.js').Trainer} trainer @param {import('../dist/device/device.js').Device} device
 * @param {ReturnType<typeof heldOut>} held
 */
async function evaluate(trainer, device, { rows, bytes }) {
  let [sum, count] = [0, 0]
  for (let at = 0; at < rows.length; at += LONG.rows) {
    const part = rows.slice(at, at + LONG.rows)
    const targets = part.flatMap((row) => row.targets).filter((id) => id >= 0).length
    sum += (await trainer.evaluate(toBatch(device, part))) * targets
    count += targets
  }
  return { nats: sum / count, bits: sum / Math.LN2 / bytes }
}

/** The model as it is, in Q8_0. @param {import('../dist/weights/gguf/gguf.js').Gguf} base @param {import('../dist/train/trainable.js').Trainable} trainable @param {string} path */
async function write(base, trainable, path) {
  mkdirSync(dirname(path), { recursive: true })
  await writeTrained(path, base, trainable, 'q8_0')
}
