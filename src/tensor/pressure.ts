// Memory of tensors that nobody can reach is given back when the engine collects its garbage, which it does when JavaScript's own memory
// runs low, and it does not see that of devices. So when tensors hold much more than after the last collection, one is asked for. Engines
// that cannot be asked (browsers) are given time to run what they have collected.

import type { Device } from '../device/device.ts'
import { heldBytes } from './storage.ts'

/** Below this nobody is disturbed. */
const QUIET = 256 * 2 ** 20
/** tasks that finalizers are given, where much is still held after the first */
const MOST_TURNS = 8
/** bytes that each device held after its last collection */
const before = new WeakMap<Device, number>()

let collect: Promise<() => void> | undefined

/** Collects garbage if tensors on this device hold twice what they did after the last time; undefined: they do not. */
export function relieve(device: Device): Promise<void> | undefined {
  const held = heldBytes(device)
  if (held < QUIET || held < 2 * (before.get(device) ?? 0)) return undefined
  return collectAndWait(device, held)
}

/** Finalizers are a task of their own, which may come after those that were there before: what they give back is waited for. */
async function collectAndWait(device: Device, held: number): Promise<void> {
  await collectGarbage()
  for (let turn = 0; turn < MOST_TURNS && heldBytes(device) > held / 2; turn++) await nextTask()
  before.set(device, heldBytes(device))
}

/** Collects garbage, where the engine can be asked to. */
export async function collectGarbage(): Promise<void> {
  const run = await (collect ??= findCollector())
  await nextTask() // whatever a weak reference was made to, or asked for, lives to the end of the task
  run()
  await nextTask() // finalizers run between tasks
}

function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 0)
  })
}

/** Node's own collector, which is there without a flag for those who look for it. */
async function findCollector(): Promise<() => void> {
  const own = (globalThis as { readonly gc?: () => void }).gc
  if (own !== undefined) return own
  try {
    const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([import('node:v8'), import('node:vm')])
    setFlagsFromString('--expose-gc')
    const gc: unknown = runInNewContext('gc')
    return typeof gc === 'function' ? () => void gc() : () => {}
  } catch {
    return () => {}
  }
}
