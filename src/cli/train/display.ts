// What a training run shows while it goes on: in a terminal a small plot over one line, redrawn in place; in a pipe a plain line now and
// then. Keeps the curves. Knows events, not options.

import type { StepEvent, TrainEvent, ValidationEvent } from '../../train/event.ts'
import { describeMemory } from '../../train/memory.ts'
import { describeDropped } from '../../train/data/dataset.ts'
import { printable } from '../../base/printable.ts'
import { type Stream, showBytes, styleFor } from '../output/style.ts'
import { type Curves, type Point, drawPlot } from './plot.ts'

export interface TrainDisplay {
  readonly curves: Curves
  show(event: TrainEvent): void
  /** Ends the part that is redrawn: what comes next stands below it. */
  end(): void
}

const REDRAW_MS = 100
const PLOT_HEIGHT = 6
const WIDEST = 100
/** Lines of a whole run in a pipe, about. */
const PIPE_LINES = 25

export function createDisplay(stream: Stream = process.stdout): TrainDisplay {
  const curves: { losses: Point[]; smooth: Point[]; validation: Point[] } = { losses: [], smooth: [], validation: [] }
  const live = stream.isTTY === true ? new LiveLines(stream) : undefined
  const clock = new Clock()
  let validation: number | undefined
  const write = (line: string): void => {
    live?.clear()
    stream.write(`${line}\n`)
  }
  const step = (event: StepEvent): void => {
    curves.losses.push({ step: event.step, loss: event.loss })
    curves.smooth.push({ step: event.step, loss: event.smooth })
    clock.add(event)
    const line = describeStep(event, validation, clock.secondsLeft(event))
    if (live === undefined) {
      if (isShown(event)) write(line)
      return
    }
    const width = Math.min(WIDEST, (stream.columns ?? 80) - 1)
    live.draw(
      () => [...drawPlot(curves.smooth, width, PLOT_HEIGHT), styleFor(stream).bold(line.slice(0, width))],
      event.step === event.steps,
    )
  }
  return {
    curves,
    show(event) {
      switch (event.kind) {
        case 'data':
          for (const line of describeData(event)) write(line)
          break
        case 'start':
          write(describeStart(event))
          write(`memory: ${describeMemory(event.expected, showBytes)}`)
          break
        case 'step':
          step(event)
          break
        case 'validation':
          validation = event.loss
          curves.validation.push({ step: event.step, loss: event.loss })
          if (live === undefined) write(describeValidation(event))
          break
        case 'checkpoint':
          if (live === undefined) write(`step ${event.step}  checkpoint ${event.path}`)
          break
        case 'end':
          live?.finish()
      }
    },
    end: () => live?.finish(),
  }
}

/** Lines at the end of a terminal that are drawn again and again. */
class LiveLines {
  readonly #stream: Stream
  #lines: readonly string[] = []
  #drawn = -Infinity

  constructor(stream: Stream) {
    this.#stream = stream
  }
  draw(lines: () => readonly string[], isLast: boolean): void {
    if (!isLast && performance.now() - this.#drawn < REDRAW_MS) return
    this.#drawn = performance.now()
    const next = lines()
    this.#stream.write(this.#up() + next.map((line) => `${line}\x1b[K\n`).join(''))
    this.#lines = next
  }
  /** Takes them away, until there is news. */
  clear(): void {
    if (this.#lines.length > 0) this.#stream.write(`${this.#up()}\x1b[J`)
    this.#lines = []
    this.#drawn = -Infinity
  }
  /** They stay as they are. */
  finish(): void {
    this.#lines = []
  }
  #up(): string {
    return this.#lines.length === 0 ? '' : `\x1b[${this.#lines.length}A\r`
  }
}

/** How long updates take, without the first, which waits for compilers. */
class Clock {
  #ms = 0
  #steps = 0
  #first: number | undefined

  add({ ms }: StepEvent): void {
    if (this.#first === undefined) this.#first = ms
    else {
      this.#ms += ms
      this.#steps++
    }
  }
  secondsLeft({ step, steps }: StepEvent): number {
    const each = this.#steps === 0 ? (this.#first ?? 0) : this.#ms / this.#steps
    return ((steps - step) * each) / 1000
  }
}

/** `step 12/300  epoch 0.1  loss 2.1342  val 2.3010  rate 1.9e-4  1523 tok/s  2 min 10 s left  312 MB` */
export function describeStep(event: StepEvent, validation: number | undefined, secondsLeft: number): string {
  const { step, steps, epoch, smooth, rate, tokensPerSecond, memory } = event
  return [
    `step ${step}/${steps}`,
    `epoch ${epoch.toFixed(2)}`,
    `loss ${smooth.toFixed(4)}`,
    ...(validation === undefined ? [] : [`val ${validation.toFixed(4)}`]),
    `rate ${rate.toExponential(1)}`,
    `${Math.round(tokensPerSecond)} tok/s`,
    ...(step < steps ? [`${showSeconds(secondsLeft)} left`] : []),
    showBytes(memory),
  ].join('  ')
}

function isShown({ step, steps }: StepEvent): boolean {
  return step === 1 || step === steps || step % Math.max(1, Math.ceil(steps / PIPE_LINES)) === 0
}

function describeValidation({ step, loss, isBest }: ValidationEvent): string {
  return `step ${step}  val ${loss.toFixed(4)}${isBest ? '  best so far' : ''}`
}

export function describeData(event: Extract<TrainEvent, { kind: 'data' }>): string[] {
  const { records, sequences, tokens, learnt, cut, dropped } = event
  const more = sequences === records ? '' : ` in ${sequences} sequences`
  const lines = [`data: ${count(records, 'record')}${more}, ${tokens} tokens, ${learnt} of them learnt`]
  if (cut.sequences > 0) lines.push(`data: ${count(cut.sequences, 'sequence')} cut to the context, ${count(cut.tokens, 'token')} lost`)
  for (const each of dropped) lines.push(`data: left out: ${printable(describeDropped(each))}`)
  return lines
}

function describeStart(event: Extract<TrainEvent, { kind: 'start' }>): string {
  const { steps, done, epochs, sequences, parameters, device, memory, settings } = event
  const what = settings.lora === null ? 'all weights' : `LoRA of rank ${settings.lora.rank}`
  const kept = sequences.validation === 0 ? '' : `, ${sequences.validation} for validation`
  const from = done === 0 ? '' : `, from step ${done} on`
  const size = `${count(parameters, 'parameter')}, ${showBytes(memory)}`
  return `training ${what} on ${device}: ${size}; ${sequences.train} sequences${kept}; ${steps} steps (${round(epochs)} epochs)${from}`
}

function round(value: number): string {
  return String(Math.round(100 * value) / 100)
}

export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`
}

/** `45 s`, `2 min 10 s`, `3 h 5 min` */
export function showSeconds(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
