// What a start of the command line loads: a token must not wait for code that nobody asked for. Which files were loaded is what the
// engine itself says (NODE_V8_COVERAGE), so dynamic imports count as well.

import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { finish, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()

/** Files that a run of the command line loads, as `device/open/open.js`, whatever bundle they are in, and packages as `koffi`. */
async function loadedBy(...args: string[]): Promise<{ ours: string[]; packages: string[]; stderr: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'ingot-startup-'))
  vi.stubEnv('NODE_V8_COVERAGE', folder)
  vi.stubEnv('XDG_CACHE_HOME', files.folder) // where verdicts are left
  const running = finish(spawnIngot(...args))
  vi.unstubAllEnvs()
  const { code, stderr } = await running
  expect(code).toBe(0)
  const reports = await Promise.all(
    (await readdir(folder)).map(async (name) => JSON.parse(await readFile(join(folder, name), 'utf8')) as { result: { url: string }[] }),
  )
  await rm(folder, { recursive: true })
  const urls = reports.flatMap(({ result }) => result.map(({ url }) => url))
  const pick = (pattern: RegExp): string[] => [...new Set(urls.flatMap((url) => pattern.exec(url)?.[1] ?? []))]
  const bundles = await Promise.all(pick(/^(file:.*\/dist\/bundle\/.*)$/).map((url) => readFile(new URL(url), 'utf8')))
  const ours = bundles.flatMap((text) => [...text.matchAll(/^\/\/#region dist\/(.*)$/gm)].map(([, path = '']) => path))
  return { ours, packages: pick(/\/node_modules\/(@[^/]+\/[^/]+|[^/]+)\//), stderr }
}

describe.skipIf(notBuilt !== undefined)(`a start${notBuilt === undefined ? '' : `: ${notBuilt}`}`, () => {
  const run = (): ReturnType<typeof loadedBy> =>
    loadedBy('run', files.model, '-p', 'abc', '-n', '2', '--temp', '0', '--ignore-eos', '--stats', '-d', 'cpu', '--threads', '1')

  test('on the cpu loads no other device, and no other command', async () => {
    const { ours, packages } = await run()
    expect(ours).toContain('cli/command/run.js')
    expect(ours).toContain('device/cpu/cpu.js')
    expect(ours.filter((path) => /^(device\/(webgpu|metal|null)|bench|emit\/(msl|wgsl|c)\.js)/.test(path))).toEqual([])
    expect(
      ours.filter((path) => /^cli\/command\/(chat|eval|bench|quantize|doctor|kernel|start|synth|inspect|compare)\.js/.test(path)),
    ).toEqual([])
    expect(packages).not.toContain('webgpu')
    expect(packages).not.toContain('@clack/prompts')
  })

  test('with native kernels and a known verdict loads neither emitters nor the interpreter', async ({ skip }) => {
    await run() // leaves a verdict
    const { ours, stderr } = await run()
    if (!stderr.includes('native') || stderr.includes('as WebAssembly')) return skip('native kernels are not built for these sources')
    expect(ours).toContain('device/cpu/native/runtime.js')
    const needless = /^(emit\/(?!wasm\/page\.js)|ir\/(pass|interpret)\/|base\/half-table\.js|device\/(reference\/|cpu\/wasm\/runtime\.js))/
    expect(ours.filter((path) => needless.test(path))).toEqual([])
  })

  test('that shows help loads no model', async () => {
    const { ours } = await loadedBy('--help')
    expect(ours.filter((path) => !/^(cli|base)\//.test(path))).toEqual([])
  })
})
