// A peer's process in `ingot bench --ops --against NAME`: `node server.js NAME`. Stays alive and handles the requests of its IPC channel;
// they are those of src/bench/op/protocol.ts. A peer's own file says how it runs an operation.

import { serve } from '../channel.js'

/**
 * @typedef {{ op: string, sizes: number[] }} Work
 * @typedef {() => Promise<void> | void} Run  ends when the work is done
 * @typedef {{ ways: Record<string, Run>, values: ArrayLike<number>, dispose(): void }} Prepared
 * @typedef {{ info: { detail: string }, prepare(work: Work): Promise<Prepared | undefined> }} Peer
 */

const SHOWN_VALUES = 16

const [name = ''] = process.argv.slice(2)
const { open } = await import(`./${name}.js`)

/** @type {Peer | undefined} */
let peer
/** @type {Prepared | undefined} */
let prepared

serve({
  async open({ threads }) {
    peer = await open(threads)
    return { info: { name, gpu: false, ...peer?.info } }
  },

  async prepare({ work }) {
    prepared?.dispose()
    prepared = await peer?.prepare(work)
    if (prepared === undefined) return { ways: [], values: [] }
    const { ways, values } = prepared
    const count = Math.min(SHOWN_VALUES, values.length)
    const shown = Array.from({ length: count }, (_, i) => Number(values[Math.floor((i * values.length) / count)]))
    return { ways: Object.keys(ways), values: shown }
  },

  async ran() {
    return { detail: peer?.info.detail ?? '' }
  },

  async sample({ way, repeats }) {
    const run = prepared?.ways[way]
    if (run === undefined) throw new Error(`${name} has no way ${way}`)
    const begun = performance.now()
    for (let i = 0; i < repeats; i++) {
      // A peer that is done when it returns need not wait for the next turn of promises.
      const done = run()
      if (done !== undefined) await done
    }
    return { ms: performance.now() - begun }
  },
})
