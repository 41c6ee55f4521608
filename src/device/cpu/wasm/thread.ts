// One worker thread: what it runs, and how it is started in Node and in browsers. Its code is plain JavaScript in a string,
// so that it is the same from sources, from a build and in a page. It enters the runner's loop (runner.ts) and stays there.

import { isNode } from '../../core/platform.ts'
import { JOB, MOST_TEXT, TASK } from './layout.ts'

/** What a thread is given at its start. */
export interface ThreadStart {
  readonly runner: WebAssembly.Module
  readonly memory: WebAssembly.Memory
  readonly thread: number
  readonly threads: number
}

export interface ThreadEvents {
  /** A job is done, where engines need messages for that. */
  finished(): void
  /** The thread died, which it never does by itself. */
  died(reason: string): void
}

export interface Thread {
  /** Keeps the process alive, or lets it end. */
  hold(busy: boolean): void
  stop(): Promise<void>
}

/** A kernel's module is met here first: it is read from shared memory, so that no message has to reach a waiting thread. */
const START = `
const start = ({ runner, memory, thread, threads }, notify) => {
  const low = memory.buffer
  const programs = []
  const load = (task) => {
    const bytes = new Uint8Array(word(task + ${TASK.codeBytes}))
    const at = word(task + ${TASK.code})
    for (let i = 0; i < bytes.length; i += 4) {
      const four = word(at + i)
      for (let j = i; j < i + 4 && j < bytes.length; j++) bytes[j] = four >> (8 * (j - i))
    }
    return new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory }, math: Math }).exports.run
  }
  const fail = (slot, error) => {
    const words = new Int32Array(low)
    if (Atomics.compareExchange(words, (slot + ${JOB.failed}) >> 2, 0, 1) !== 0) return
    const text = new TextEncoder().encode(String(error && error.message || error)).subarray(0, ${MOST_TEXT})
    new Uint8Array(low).set(text, slot + ${JOB.text})
    words[(slot + ${JOB.textBytes}) >> 2] = text.length
  }
  const call = (program, args, scratch, begin, end, task, slot) => {
    try {
      const run = programs[program] ??= load(task)
      run(args, scratch, begin, end)
    } catch (error) {
      fail(slot, error)
    }
  }
  const { word, serve } = new WebAssembly.Instance(runner, { env: { memory, call, notify } }).exports
  serve(thread, threads)
}
`
const IN_NODE = `${START}
const { parentPort, workerData } = require('node:worker_threads')
start(workerData, () => parentPort.postMessage(0))
`
const IN_BROWSER = `${START}
onmessage = ({ data }) => start(data, () => postMessage(0))
`

export function startThread(start: ThreadStart, events: ThreadEvents): Promise<Thread> {
  return isNode() ? startInNode(start, events) : Promise.resolve(startInBrowser(start, events))
}

async function startInNode(start: ThreadStart, events: ThreadEvents): Promise<Thread> {
  const { Worker } = await import('node:worker_threads')
  const worker = new Worker(IN_NODE, { eval: true, workerData: start, execArgv: [], name: `ingot cpu ${start.thread}` })
  let stopped = false
  worker.on('message', () => events.finished())
  worker.on('error', (error) => {
    if (!stopped) events.died(String(error))
  })
  worker.on('exit', (code) => {
    if (!stopped) events.died(`exit code ${code}`)
  })
  worker.unref()
  return {
    hold: (busy) => {
      if (busy) worker.ref()
      else worker.unref()
    },
    stop: async () => {
      stopped = true
      await worker.terminate()
    },
  }
}

function startInBrowser(start: ThreadStart, events: ThreadEvents): Thread {
  const url = URL.createObjectURL(new Blob([IN_BROWSER], { type: 'text/javascript' }))
  const worker = new Worker(url)
  worker.addEventListener('message', () => events.finished())
  worker.addEventListener('error', ({ message }) => events.died(message))
  worker.postMessage(start, [])
  return {
    hold: () => {},
    stop: () => {
      worker.terminate()
      URL.revokeObjectURL(url)
      return Promise.resolve()
    },
  }
}
