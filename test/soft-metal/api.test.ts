// Misuse of the API, as soft-metal reports it: what a Mac answers with an exception, an assert or a leak is a finding here
// and fails the command buffer; the process lives on.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { describeSoftMetal, type ComputeEncoder, type Size } from './harness.ts'

const ONE: Size = [1, 1, 1]
const SOURCE = `kernel void put(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 1.0; }
  kernel void shared(device float* y [[buffer(0)]], threadgroup float* t [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
    t[i] = 1.0; y[i] = t[i]; }`

await describeSoftMetal('misuse of Metal', (metal, path) => {
  let put = 0n
  beforeAll(() => {
    put = metal.pipeline(SOURCE, 'put')
  })
  beforeEach(() => metal.reset())

  /** Encode something wrong: the command buffer must fail with that text, and the finding must be listed. */
  const wrong = (kind: string, text: RegExp, encode: (e: ComputeEncoder, y: bigint) => void) => {
    const y = metal.buffer(256)
    const run = metal.run((e) => encode(e, y))
    metal.release(y)
    expect(run.status).toBe(5)
    expect(run.error).toMatch(text)
    expect(metal.kinds()).toContain(kind)
  }

  test('sizes beyond the limits', () => {
    wrong('limit', /threadsPerThreadgroup \(1025, 1, 1\) is more than 1024 threads/, (e, y) => e.use(put, [y]).groups(ONE, [1025, 1, 1]))
    wrong('limit', /threadsPerThreadgroup \(32, 32, 2\) is more than 1024/, (e, y) => e.use(put, [y]).groups(ONE, [32, 32, 2]))
    wrong('limit', /the grid \(0, 1, 1\) is empty/, (e, y) => e.use(put, [y]).groups([0, 1, 1], ONE))
    wrong('limit', /index 31 must be below 31/, (e, y) => e.send('setBuffer:offset:atIndex:', y, 0, 31))
    wrong('limit', /offset 256 is not inside the buffer's length 256/, (e, y) => e.send('setBuffer:offset:atIndex:', y, 256, 0))
    wrong('limit', /length 4097 must be between 1 and 4096/, (e) => e.send('setBytes:length:atIndex:', new Uint8Array(4097), 4097, 0))
    wrong('limit', /length 40000 must be a multiple of 16, at most 32768/, (e) => e.send('setThreadgroupMemoryLength:atIndex:', 40000, 0))
    wrong('limit', /threadgroup\(0\) 't' has no length/, (e, y) => {
      const p = metal.pipeline(SOURCE, 'shared')
      e.use(p, [y]).groups(ONE, ONE)
      metal.release(p)
    })
    expect(() =>
      metal.pipeline(
        `kernel void big(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
      threadgroup float t[8193]; t[i] = 1.0; y[i] = t[i]; }`,
        'big',
      ),
    ).toThrow(/32772.*exceeds the maximum threadgroup memory allowed \(32768\)/)
    expect(() => metal.buffer(0)).toThrow(/nil/)
    expect(metal.kinds().at(-1)).toBe('limit')
  })

  test('threadgroup memory of a length set while encoding', () => {
    const p = metal.pipeline(SOURCE, 'shared')
    const y = metal.buffer(64)
    expect(metal.run((e) => e.use(p, [y]).send('setThreadgroupMemoryLength:atIndex:', 64, 0).groups(ONE, [16, 1, 1])).error).toBe('')
    expect(metal.run((e) => e.use(p, [y]).send('setThreadgroupMemoryLength:atIndex:', 48, 0).groups(ONE, [16, 1, 1])).error).toMatch(
      /out of bounds: write of 4 bytes at offset 48 of threadgroup memory, whose length is 48/,
    )
    metal.release(p)
    metal.release(y)
  })

  test('encoding in the wrong order', () => {
    wrong('bad-order', /before setComputePipelineState:/, (e) => e.groups(ONE, ONE))
    wrong('unbound', /kernel 'put' wants buffer\(0\) 'y', nothing is bound there/, (e) => e.use(put, []).groups(ONE, ONE))
    wrong('after-end-encoding', /-\[MTLComputeCommandEncoder setBuffer:offset:atIndex:\] after endEncoding/, (e, y) =>
      e.end().send('setBuffer:offset:atIndex:', y, 0, 0),
    )
    metal.pooled(() => {
      const cb = metal.commandBuffer()
      metal.send(cb, 'MTLCommandBuffer', 'computeCommandEncoder')
      expect(metal.finish(cb).error).toMatch(/commit\] with an open Compute encoder: endEncoding is missing/)
      metal.send(cb, 'MTLCommandBuffer', 'commit')
      expect(metal.kinds()).toContain('double-commit')
      const second = metal.commandBuffer()
      metal.send(second, 'MTLCommandBuffer', 'computeCommandEncoder')
      metal.send(second, 'MTLCommandBuffer', 'blitCommandEncoder')
      expect(metal.finish(second).error).toMatch(/blitCommandEncoder\] while a Compute encoder is open/)
    })
  })

  test('a command buffer that is never committed', () => {
    metal.pooled(() => metal.commandBuffer())
    expect(metal.report().misuse).toEqual([{ kind: 'missing-commit', text: expect.stringMatching(/released without commit/) as string }])
  })

  test('buffers freed before their command buffer ran', () => {
    const y = metal.buffer(256)
    const run = metal.run(
      (e) => {
        e.use(put, [y]).groups(ONE, [64, 1, 1])
        metal.release(y)
      },
      false,
      false,
    )
    expect(run).toEqual({
      status: 5,
      error: expect.stringMatching(/kernel 'put': buffer\(0\) was freed before the command buffer ran/) as string,
    })
    // A command buffer that retains its references keeps it alive.
    const kept = metal.buffer(256)
    const fine = metal.run((e) => {
      e.use(put, [kept]).groups(ONE, [64, 1, 1])
      metal.release(kept)
    })
    expect(fine.error).toBe('')
  })

  test('selectors that do not exist, objects of the wrong class', () => {
    expect(metal.send(metal.device, 'MTLDevice', 'newTeapot:', 1)).toBe(null)
    metal.pooled(() => metal.send(metal.device, 'MTLDevice', 'newLibraryWithSource:options:error:', metal.device, null, null))
    wrong('bad-argument', /wants an MTLBuffer, got a MTLComputePipelineState/, (e) => e.send('setBuffer:offset:atIndex:', put, 0, 0))
    const { misuse } = metal.report()
    expect(misuse[0]).toEqual({ kind: 'unknown-selector', text: '-[MTLDevice newTeapot:]: unrecognized selector sent to instance' })
    expect(misuse[1]).toEqual({
      kind: 'bad-argument',
      text: '-[MTLDevice newLibraryWithSource:options:error:] wants a NSString, got a MTLDevice',
    })
    expect(metal.send(metal.device, 'NSObject', 'respondsToSelector:', metal.selector('newTeapot:'))).toBe(false)
    expect(metal.send(metal.device, 'NSObject', 'respondsToSelector:', metal.selector('newCommandQueue'))).toBe(true)
    expect(metal.send(null, 'MTLDevice', 'name')).toBe(null)
    expect(metal.send(0x1234n, 'MTLDevice', 'name')).toBe(null)
    metal.release(metal.send(metal.device, 'MTLBuffer', 'contents') as bigint)
    expect(metal.kinds()).toContain('bad-receiver')
  })

  test('the selector table says the types', () => {
    expect(metal.types('MTLComputeCommandEncoder', 'dispatchThreads:threadsPerThreadgroup:')).toBe('v@:{MTLSize=QQQ}{MTLSize=QQQ}')
    expect(metal.types('MTLCommandBuffer', 'GPUEndTime')).toBe('d@:')
    expect(metal.types('MTLBlitCommandEncoder', 'fillBuffer:range:value:')).toBe('v@:@{_NSRange=QQ}C')
    expect(metal.types('+NSString', 'stringWithUTF8String:')).toBe('@@:*')
    expect(metal.types('MTLBuffer', 'retain')).toBe('@@:')
    expect(metal.types('MTLBuffer', 'nothing')).toBe(null)
  })

  test('leaks, over-releases, messages to freed objects', () => {
    const a = metal.buffer(64)
    const b = metal.buffer(64)
    expect(metal.report().live).toEqual({ MTLBuffer: 2 })
    metal.release(a)
    metal.release(a)
    expect(metal.send(a, 'MTLBuffer', 'contents')).toBe(null)
    expect(metal.report()).toEqual({
      live: { MTLBuffer: 1 },
      overReleases: { MTLBuffer: 1 },
      misuse: [{ kind: 'freed-object', text: '-contents sent to a freed MTLBuffer' }],
    })
    metal.release(b)
    expect(metal.report().live).toEqual({})
  })

  test('autorelease pools', () => {
    metal.string('leaked')
    expect(metal.kinds()).toEqual(['no-pool'])
    expect(metal.report().live).toEqual({ NSString: 1 })
    const pool = metal.push()
    metal.string('held')
    const inner = metal.push()
    const s = metal.string('größer 😀')
    expect(metal.text(s)).toBe('größer 😀')
    expect(Number(metal.send(s, 'NSString', 'length'))).toBe(9)
    expect(Number(metal.send(s, 'NSString', 'lengthOfBytesUsingEncoding:', 4))).toBe(13)
    metal.pop(inner)
    expect(metal.report().live).toEqual({ NSString: 2 })
    metal.pop(pool)
    metal.pop(pool)
    expect(metal.report().live).toEqual({ NSString: 1 })
    expect(metal.kinds()).toEqual(['no-pool', 'bad-pool'])
  })

  test('no-copy buffers want pages', () => {
    const at = (bytes: number, offset = 0) => {
      const backing = metal.buffer(65536)
      const address = metal.send(backing, 'MTLBuffer', 'gpuAddress') as number | bigint
      const make = 'newBufferWithBytesNoCopy:length:options:deallocator:'
      const b = metal.send(metal.device, 'MTLDevice', make, BigInt(address) + BigInt(offset), bytes, 0, null) as bigint | null
      const length = b && Number(metal.send(b, 'MTLBuffer', 'length'))
      metal.release(b)
      metal.release(backing)
      return length
    }
    expect(at(32768)).toBe(32768)
    expect(metal.kinds()).toEqual([])
    expect(at(1000)).toBe(null)
    expect(at(32768, 64)).toBe(null)
    expect(metal.kinds()).toEqual(['bad-argument', 'bad-argument'])
  })

  test('injected faults', () => {
    metal.inject('oom', 1)
    expect(() => metal.buffer(64)).toThrow(/nil/)
    const y = metal.buffer(256)
    const go = () => metal.run((e) => e.use(put, [y]).groups(ONE, [64, 1, 1]))
    metal.inject('command-error', 1)
    expect(go().error).toMatch(/Internal Error \(injected\)/)
    expect(go().error).toBe('')
    metal.inject('compile-error', 1)
    expect(metal.library(SOURCE)).toMatch(/^program_source:1:1: error: injected/)
    metal.inject('device-lost', 1)
    expect([go().status, go().error]).toEqual([5, expect.stringMatching(/Device removed/) as string])
    metal.inject('device-lost', 0)
    expect(go().status).toBe(4)
    metal.inject('slow', 30)
    const start = performance.now()
    go()
    expect(performance.now() - start).toBeGreaterThan(29)
    metal.release(y)
    expect(metal.report()).toEqual({ live: {}, overReleases: {}, misuse: [] })
  })

  test('counters', () => {
    const y = metal.buffer(256)
    metal.reset()
    metal.run((e) => e.use(put, [y]).groups(ONE, [64, 1, 1]).barrier().groups(ONE, [64, 1, 1]))
    metal.release(y)
    // commandBuffer, encoder, pipeline, buffer, 2 dispatches, barrier, endEncoding, commit, wait, status, error
    expect(metal.counters()).toEqual({
      messages: 12,
      commandBuffers: 1,
      dispatches: 2,
      encoders: 1,
      barriers: 1,
      libraries: 0,
      compiles: 0,
    })
  })

  test('residency sets and captures', () => {
    const y = metal.buffer(256)
    const descriptor = metal.sendClass('MTLResidencySetDescriptor', 'new') as bigint
    const set = metal.send(metal.device, 'MTLDevice', 'newResidencySetWithDescriptor:error:', descriptor, null) as bigint
    metal.send(set, 'MTLResidencySet', 'addAllocation:', y)
    expect(Number(metal.send(set, 'MTLResidencySet', 'allocatedSize'))).toBe(0)
    metal.send(set, 'MTLResidencySet', 'commit')
    metal.send(set, 'MTLResidencySet', 'requestResidency')
    expect(Number(metal.send(set, 'MTLResidencySet', 'allocatedSize'))).toBe(16384)
    expect(metal.send(set, 'MTLResidencySet', 'containsAllocation:', y)).toBe(true)
    metal.send(metal.queue, 'MTLCommandQueue', 'addResidencySet:', set)
    metal.send(metal.queue, 'MTLCommandQueue', 'removeResidencySet:', set)
    for (const o of [y, descriptor, set]) metal.release(o)
    const captures = metal.sendClass('MTLCaptureManager', 'sharedCaptureManager') as bigint
    expect(metal.send(captures, 'MTLCaptureManager', 'supportsDestination:', 2)).toBe(false)
    expect(metal.report()).toEqual({ live: {}, overReleases: {}, misuse: [] })
  })

  test('a captured process writes its file, the report is written at exit', () => {
    const folder = mkdtempSync(join(tmpdir(), 'soft-metal-'))
    const file = join(folder, 'a.gputrace')
    const script = `
      import koffi from 'koffi'
      const lib = koffi.load(${JSON.stringify(path)})
      const cls = lib.func('objc_getClass', 'void *', ['str'])
      const sel = lib.func('sel_registerName', 'void *', ['str'])
      const send = (result, types, receiver, name, ...args) =>
        lib.func('objc_msgSend', result, ['void *', 'void *', ...types])(receiver, sel(name), ...args)
      const device = lib.func('MTLCreateSystemDefaultDevice', 'void *', [])()
      const pool = lib.func('objc_autoreleasePoolPush', 'void *', [])()
      const file = send('void *', ['str'], cls('NSString'), 'stringWithUTF8String:', ${JSON.stringify(file)})
      const descriptor = send('void *', [], cls('MTLCaptureDescriptor'), 'new')
      send('void', ['void *'], descriptor, 'setCaptureObject:', device)
      send('void', ['int64'], descriptor, 'setDestination:', 2)
      send('void', ['void *'], descriptor, 'setOutputURL:', send('void *', ['void *'], cls('NSURL'), 'fileURLWithPath:', file))
      const manager = send('void *', [], cls('MTLCaptureManager'), 'sharedCaptureManager')
      console.log(send('bool', ['void *', 'void *'], manager, 'startCaptureWithDescriptor:error:', descriptor, null))
      send('void', [], manager, 'stopCapture')
      lib.func('objc_autoreleasePoolPop', 'void', ['void *'])(pool)`
    const env = { ...process.env, METAL_CAPTURE_ENABLED: '1', INGOT_SOFT_METAL_REPORT: '1' }
    const cwd = new URL('../..', import.meta.url)
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', script], { cwd, env, encoding: 'utf8' })
    expect(run.stdout).toBe('true\n')
    expect(existsSync(file)).toBe(true)
    expect(run.stderr).toMatch(/soft-metal: \{"live":\{.*"MTLCaptureDescriptor":1/)
    rmSync(folder, { recursive: true })
  })
})
