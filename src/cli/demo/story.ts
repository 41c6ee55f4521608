// The part of the demonstration with the default model: it writes a story, learns another style, and answers the same prompt again. In a
// terminal text comes as it is written and the loss falls in a plot that is redrawn in place; in a pipe there are plain lines.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Model, load } from '../../llm/model.ts'
import type { StepEvent } from '../../train/event.ts'
import { type Stream, type Style, textFor } from '../output/style.ts'
import { drawPlot } from '../train/plot.ts'
import { RANK, tune } from './tune.ts'

const PROMPT = 'Once upon a time'
const STORY = { seed: 7, temperature: 0.6, maxTokens: 320 }
/** The same prompt, before and after. */
const ANSWER = { seed: 3, temperature: 0.4, maxTokens: 56, ignoreEos: true }
const WIDTH = 72
const PLOT_HEIGHT = 6
/** In a pipe, one of so many steps is a line. */
const SAY_EVERY = 10

/** What the demonstration writes with. */
export interface Stage {
  readonly stream: Stream
  readonly style: Style
  title(text: string): void
  /** of training */
  readonly steps: number
}

export async function showStory(stage: Stage): Promise<void> {
  await using model = await load(undefined)
  await writeStory(model, stage)
  await learnStyle(model, stage)
}

async function writeStory(model: Model, { stream, style, title }: Stage): Promise<void> {
  title(`A story, by ${model.name}: a model that Ingot trained, on ${model.device.name}`)
  const wrap = createWrapper((text) => stream.write(textFor(stream, text)))
  wrap.write(PROMPT)
  const generation = model.generate(PROMPT, STORY)
  for await (const piece of generation) wrap.write(piece)
  wrap.end()
  const { stats } = await generation
  stream.write(`\n  ${style.dim(`${stats.generatedTokens} tokens, ${(stats.decodeTokensPerSecond ?? 0).toFixed(0)} a second`)}\n`)
}

async function learnStyle(model: Model, { stream, style, title, steps }: Stage): Promise<void> {
  title(`It learns to write like the King James Bible: a LoRA of rank ${RANK}, trained here and now`)
  const before = await model.generate(PROMPT, ANSWER)
  const folder = await mkdtemp(join(tmpdir(), 'ingot-'))
  try {
    const out = join(folder, 'adapter.gguf')
    const plot = createPlot(stream)
    const parameters = await tune({ device: model.device, steps, out, onStep: (step) => plot.add(step) })
    plot.end()
    stream.write(`\n  ${style.dim(`${parameters} numbers learnt; the model itself is as it was`)}\n`)
    await model.setAdapters([{ path: out }])
    const after = await model.generate(PROMPT, ANSWER)
    for (const [when, { text }] of Object.entries({ before, after })) {
      stream.write(`\n  ${style.bold(`${when}:`)}\n`)
      const wrap = createWrapper((part) => stream.write(textFor(stream, part)))
      wrap.write(`${PROMPT}${text} ...`)
      wrap.end()
    }
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** The losses: in a terminal a plot that is redrawn, in a pipe lines, and the plot at the end. */
function createPlot(stream: Stream): { add(step: StepEvent): void; end(): void } {
  const taken: StepEvent[] = []
  let drawn = 0
  const draw = (): void => {
    const lines = drawPlot(taken, Math.min(WIDTH, (stream.columns ?? 80) - 3), PLOT_HEIGHT)
    stream.write(`${drawn > 0 ? `\x1b[${drawn}A` : ''}${lines.map((line) => `  ${line}\n`).join('')}`)
    drawn = lines.length
  }
  return {
    add: (step) => {
      taken.push(step)
      if (stream.isTTY === true) draw()
      else if (step.step % SAY_EVERY === 0) stream.write(`  step ${step.step} of ${step.steps}, loss ${step.loss.toFixed(2)}\n`)
    },
    end: () => {
      if (stream.isTTY !== true) draw()
      const [first, last] = [taken[0], taken.at(-1)]
      if (first === undefined || last === undefined) return
      const seconds = taken.reduce((sum, { ms }) => sum + ms, 0) / 1000
      stream.write(
        `\n  ${last.step} steps in ${seconds.toFixed(1)} s: the loss fell from ${first.loss.toFixed(2)} to ${last.loss.toFixed(2)}\n`,
      )
    },
  }
}

/** Breaks lines at words as text comes, and moves it two columns to the right. */
function createWrapper(write: (text: string) => void): { write(text: string): void; end(): void } {
  let column = 0
  let word = ''
  let space = ''
  const flush = (): void => {
    if (word === '') return
    const breaks = column > 0 && column + space.length + word.length > WIDTH
    write(column === 0 ? `  ${word}` : breaks ? `\n  ${word}` : `${space}${word}`)
    column = breaks || column === 0 ? word.length : column + space.length + word.length
    word = ''
    space = ''
  }
  return {
    write: (text) => {
      for (const character of text) {
        if (character === '\n') {
          flush()
          write('\n')
          column = 0
          space = ''
        } else if (character === ' ') {
          flush()
          space = ' '
        } else word += character
      }
    },
    end: () => {
      flush()
      write('\n')
    },
  }
}
