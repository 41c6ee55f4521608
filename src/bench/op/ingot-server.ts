// Ingot as a contender in single operations, through the API that users have. A run is over when the device has finished: `realize` and
// compiled functions resolve then.

import { readFile } from 'node:fs/promises'
import { IngotError } from '../../base/error.ts'
import { packageFile } from '../../base/place.ts'
import type { Device } from '../../device/device.ts'
import { open } from '../../device/open/open.ts'
import { compile } from '../../tensor/compile.ts'
import { scope } from '../../tensor/scope.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import type { HandlersOf, RunningContender } from '../contender.ts'
import { INGOT_NAME } from '../ingot-server.ts'
import { MachineLimits } from './limit.ts'
import { type IngotOperation, prepareOperation } from './ingot-operation.ts'
import { COMPILED, type OpProtocol, SHOWN_VALUES } from './protocol.ts'

/** An operation that is ready to run. */
interface Prepared {
  readonly ways: ReadonlyMap<string, () => Promise<void>>
  dispose(): void
}

export function createOpServer(): { readonly handlers: HandlersOf<OpProtocol>; close(): Promise<void> } {
  let device: Device | undefined
  let limits: MachineLimits | undefined
  let prepared: Prepared | undefined
  const need = (): Device => device ?? fail('no device is open')
  const close = async (): Promise<void> => {
    prepared?.dispose()
    limits?.dispose()
    await device?.close()
    device = limits = prepared = undefined
  }
  const handlers: HandlersOf<OpProtocol> = {
    async open({ device: name, threads }) {
      await close()
      device = (await open(name, threads === undefined ? {} : { threads })).device
      const manifest = JSON.parse(await readFile(packageFile('package.json'), 'utf8')) as { version?: unknown }
      const { detail, caps } = device
      return { info: { name: INGOT_NAME, version: String(manifest.version), device: device.name, detail, gpu: caps.lanes > 1 } }
    },

    async prepare({ work }) {
      prepared?.dispose()
      const operation = prepareOperation(work, need())
      prepared = prepareWays(operation)
      const result = await scope(() => operation.apply(...operation.inputs, ...operation.weights))
      return { ways: [...prepared.ways.keys()], values: await shownValues(result) }
    },

    async sample({ way, repeats }) {
      const run = prepared?.ways.get(way) ?? fail('no such operation is prepared')
      const begun = performance.now()
      for (let i = 0; i < repeats; i++) await run()
      return { ms: performance.now() - begun }
    },

    async ran() {
      return { detail: need().detail }
    },

    async limits() {
      limits ??= await MachineLimits.open(need())
      return limits.sample()
    },
  }
  return { handlers, close }
}

/** The ways that a user has: one call after the other, with a scope around them, and planned once. */
function prepareWays({ inputs, weights, apply, read }: IngotOperation): Prepared {
  const planned = compile((...args: Tensor[]) => apply(...args, ...weights))
  const finish = async (result: Tensor): Promise<void> => {
    await (read ? result.data() : result.realize())
    result[Symbol.dispose]()
  }
  const ways = new Map([
    ['eager', () => finish(apply(...inputs, ...weights))],
    ['scope', async () => finish(await scope(() => apply(...inputs, ...weights)))],
    [COMPILED, async () => finish(await planned(...inputs))],
  ])
  const dispose = (): void => {
    planned[Symbol.dispose]()
    for (const tensor of [...inputs, ...weights]) tensor[Symbol.dispose]()
  }
  return { ways, dispose }
}

async function shownValues(result: Tensor): Promise<number[]> {
  const data = await result.data()
  result[Symbol.dispose]()
  const count = Math.min(SHOWN_VALUES, data.length)
  return Array.from({ length: count }, (_, i) => Number(data[Math.floor((i * data.length) / count)]))
}

function fail(what: string): never {
  throw new IngotError('bad-argument', what, { op: 'bench' })
}

/** The same without a process of its own, for where there is no compiled script to start. */
export function startOpsInProcess(): RunningContender<OpProtocol> {
  const { handlers, close } = createOpServer()
  return { name: INGOT_NAME, idle: { cpuMs: 0, ms: 0 }, cpuMs: 0, ask: (kind, request) => handlers[kind](request), close }
}
