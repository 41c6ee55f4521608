// Files that are half written when the process ends: gone where nobody else hears the signal, and left to those who do.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { checkOutput, openOutput } from '../../src/weights/output.ts'

let dir = ''
beforeEach(async () => void (dir = await mkdtemp(join(tmpdir(), 'output-'))))
afterEach(() => rm(dir, { recursive: true }))

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

test.each(SIGNALS)('%s is left to a program that listens to it', async (signal) => {
  const heard: string[] = []
  const listen = (name: string): void => void heard.push(name)
  const kill = vi.spyOn(process, 'kill').mockReturnValue(true) // a fault shall fail this test, not end it
  process.on(signal, listen)
  try {
    const sink = openOutput(await checkOutput(join(dir, 'a')))
    await sink.write(Uint8Array.of(1))
    process.emit(signal, signal)
    expect([heard, kill.mock.calls]).toEqual([[signal], []])
    await sink.write(Uint8Array.of(2))
    await sink.finish?.()
    expect(await readdir(dir)).toEqual(['a'])
    expect(process.listeners(signal)).toEqual([listen])
  } finally {
    process.off(signal, listen)
    kill.mockRestore()
  }
})

const built = fileURLToPath(new URL('../../dist/weights/output.js', import.meta.url))
const notBuilt = existsSync(built) ? undefined : 'dist/ is not built'

/** A program that writes half a file and waits, or does what else is said. */
async function half(then: string): Promise<ReturnType<typeof spawn>> {
  const script = `
    import { checkOutput, openOutput } from ${JSON.stringify(built)}
    const sink = openOutput(await checkOutput(${JSON.stringify(join(dir, 'a'))}))
    await sink.write(Uint8Array.of(1))
    const timer = setInterval(() => {}, 1000)
    console.log('half')
    ${then}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_NO_WARNINGS: '1' },
  })
  await once(child.stdout, 'data')
  return child
}

describe.skipIf(notBuilt !== undefined)(`a program${notBuilt === undefined ? '' : `: ${notBuilt}`}`, () => {
  test.each(SIGNALS)('that hears no %s is ended by it, and leaves nothing', async (signal) => {
    const child = await half('')
    expect(await readdir(dir)).toHaveLength(1)
    child.kill(signal)
    expect(await once(child, 'exit')).toEqual([null, signal])
    expect(await readdir(dir)).toEqual([])
  })

  test.each([
    ['exits', 'process.exit(3)', 3],
    ['exits on a signal', `process.on('SIGTERM', () => process.exit(4)); process.kill(process.pid, 'SIGTERM')`, 4],
    [
      'stops its work on a signal',
      `process.on('SIGTERM', () => sink.abort().then(() => clearInterval(timer))); process.kill(process.pid, 'SIGTERM')`,
      0,
    ],
  ])('that %s leaves nothing', async (_, then, code) => {
    const child = await half(then)
    if (child.exitCode === null) await once(child, 'exit')
    expect(child.exitCode).toBe(code)
    expect(await readdir(dir)).toEqual([])
  })
})
