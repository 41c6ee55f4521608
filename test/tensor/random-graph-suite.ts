// The property that random graphs have on every device: it computes what the interpreter does. Knows no device; the files that import it
// name theirs. INGOT_GRAPHS is how many graphs there are instead, and INGOT_GRAPH_SEED where they begin.

import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { Device } from '../../src/device/device.ts'
import { openReference } from '../../src/device/reference/reference.ts'
import { checkCompiled, checkGraph, randomGraph } from './random-graph.ts'

export interface GraphDevice {
  readonly name: string
  readonly open: () => Promise<Device>
  /** why it cannot be tested here */
  readonly missing?: string | undefined
  /** graphs of each kind in a run of all tests: as many as take a few seconds */
  readonly runs: number
}

/** Milliseconds: software GPUs take long to compile kernels. */
const TIMEOUT = 3_600_000
const { INGOT_GRAPHS, INGOT_GRAPH_SEED } = process.env

export function testRandomGraphs({ name, open, missing, runs }: GraphDevice): void {
  describe.skipIf(missing !== undefined)(`random graphs on ${name}${missing === undefined ? '' : `: ${missing}`}`, () => {
    let device: Device
    const reference = openReference({ check: false })
    const checked = openReference()
    beforeAll(async () => {
      device = await open()
    }, TIMEOUT)
    afterAll(async () => {
      for (const each of [device, reference, checked]) await each?.close()
    })
    const options = (share: number): fc.Parameters<unknown> => ({
      numRuns: Math.ceil(Number(INGOT_GRAPHS ?? runs) * share),
      ...(INGOT_GRAPH_SEED !== undefined && { seed: Number(INGOT_GRAPH_SEED) }),
    })

    test('evaluated', { timeout: TIMEOUT }, () =>
      fc.assert(
        fc.asyncProperty(randomGraph(device.caps), (graph) => checkGraph(graph, device, reference)),
        options(1),
      ),
    )
    test('evaluated, with races and ends of buffers watched', { timeout: TIMEOUT }, () =>
      fc.assert(
        fc.asyncProperty(randomGraph(device.caps), (graph) => checkGraph(graph, device, checked)),
        options(1 / 3),
      ),
    )
    test('compiled, with memory that is assigned to', { timeout: TIMEOUT }, () =>
      fc.assert(
        fc.asyncProperty(randomGraph(device.caps), (graph) => checkCompiled(graph, device, reference)),
        options(1 / 3),
      ),
    )
  })
}
