// Errors of WebGPU as errors of Ingot. WebGPU reports them late and elsewhere: through error scopes around what may fail, or
// through `uncapturederror`. Knows nothing of what failed.

import { IngotError } from '../../base/error.ts'

const SCOPES = ['internal', 'out-of-memory', 'validation'] as const satisfies readonly GPUErrorFilter[]

/** Runs `work` and gives its result with a promise of what went wrong in it, if anything. The promise never rejects. */
export function guard<T>(device: GPUDevice, work: () => T, op = 'webgpu'): readonly [T, Promise<IngotError | undefined>] {
  for (const scope of SCOPES) device.pushErrorScope(scope)
  const popped: Promise<GPUError | null>[] = []
  try {
    return [work(), Promise.resolve().then(() => firstOf(popped, op))]
  } finally {
    // Also when `work` throws: a scope left open would swallow the errors of others. A lost device rejects.
    for (const _ of SCOPES) popped.push(device.popErrorScope().catch(() => null))
  }
}

async function firstOf(popped: readonly Promise<GPUError | null>[], op: string): Promise<IngotError | undefined> {
  const error = (await Promise.all(popped)).find((found) => found !== null)
  return error === undefined || error === null ? undefined : translate(error, op)
}

export function translate(error: GPUError, op: string): IngotError {
  // By name and not by instanceof: Node has no global of the class.
  const code = error.constructor.name === 'GPUOutOfMemoryError' ? 'out-of-memory' : 'device-failed'
  return new IngotError(code, firstLine(error.message), { op, cause: error })
}

/** Dawn adds a trail of what it was doing; the first line says what is wrong. */
function firstLine(text: string): string {
  return text.split('\n')[0]?.trim() ?? text
}
