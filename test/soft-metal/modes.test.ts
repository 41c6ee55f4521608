// The other ways to run soft-metal: without checks (INGOT_SOFT_METAL_CHECK=0), and built with sanitizers. Each is a process of
// its own. The build with sanitizers takes a minute, so it is made only when INGOT_SANITIZE=1 asks for it.

import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { build, describeSoftMetal } from './harness.ts'

/** A client in a few lines: runs a kernel on 16 floats, prints the status and the result. */
const client = (path: string, body: string) => `
  import koffi from 'koffi'
  const lib = koffi.load(${JSON.stringify(path)})
  const f = (name, result, ...types) => lib.func(name, result, types)
  const [cls, sel] = [f('objc_getClass', 'void *', 'str'), f('sel_registerName', 'void *', 'str')]
  const Size = koffi.struct({ x: 'uint64', y: 'uint64', z: 'uint64' })
  const send = (result, types, receiver, name, ...args) => f('objc_msgSend', result, 'void *', 'void *', ...types)(receiver, sel(name), ...args)
  f('objc_autoreleasePoolPush', 'void *')()
  const text = (t) => send('void *', ['str'], cls('NSString'), 'stringWithUTF8String:', t)
  const device = f('MTLCreateSystemDefaultDevice', 'void *')()
  const source = 'kernel void k(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { ${body} }'
  const library = send('void *', ['void *', 'void *', 'void *'], device, 'newLibraryWithSource:options:error:', text(source), null, null)
  const kernel = send('void *', ['void *'], library, 'newFunctionWithName:', text('k'))
  const pipeline = send('void *', ['void *', 'void *'], device, 'newComputePipelineStateWithFunction:error:', kernel, null)
  const y = send('void *', ['uint64', 'uint64'], device, 'newBufferWithLength:options:', 64, 0)
  const commands = send('void *', [], send('void *', [], device, 'newCommandQueue'), 'commandBuffer')
  const encoder = send('void *', [], commands, 'computeCommandEncoder')
  send('void', ['void *'], encoder, 'setComputePipelineState:', pipeline)
  send('void', ['void *', 'uint64', 'uint64'], encoder, 'setBuffer:offset:atIndex:', y, 0, 0)
  send('void', [Size, Size], encoder, 'dispatchThreadgroups:threadsPerThreadgroup:', { x: 1, y: 1, z: 1 }, { x: 16, y: 1, z: 1 })
  send('void', [], encoder, 'endEncoding')
  send('void', [], commands, 'commit')
  send('void', [], commands, 'waitUntilCompleted')
  const status = send('uint64', [], commands, 'status')
  console.log(JSON.stringify([status, ...new Float32Array(koffi.view(send('void *', [], y, 'contents'), 64))]))`

await describeSoftMetal('modes of soft-metal', (_, path) => {
  const run = (check: string, body: string) => {
    const env = { ...process.env, INGOT_SOFT_METAL_CHECK: check }
    const done = spawnSync(process.execPath, ['--input-type=module', '-e', client(path, body)], {
      cwd: new URL('../..', import.meta.url),
      env,
      encoding: 'utf8',
    })
    expect(done.stderr).toBe('')
    return JSON.parse(done.stdout) as number[]
  }
  const wanted = Array.from({ length: 16 }, (_, i) => i + 120)

  test('without checks', () => {
    const sum = 'y[i] = float(i) + simd_sum(float(i)); y[i + 16] = 1.0;' // the last write is beyond the length, inside the page
    expect(run('0', sum)).toEqual([4, ...wanted])
    expect(run('1', sum)[0]).toBe(5)
  })
})

describe.skipIf(process.env.INGOT_SANITIZE !== '1')('soft-metal with sanitizers (skipped unless INGOT_SANITIZE=1)', () => {
  test('the driver runs clean', { timeout: 600_000 }, async () => {
    const { driver = '', reason } = await build(true)
    expect(reason).toBe(undefined)
    const done = spawnSync(driver, { encoding: 'utf8' })
    expect(done.stderr).toBe('')
    expect(done.stdout).toMatch(/\n0 failed\n$/)
    expect(done.status).toBe(0)
  })
})
