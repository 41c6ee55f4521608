// What the hashes of the code answer for: content, not clocks.

import { mkdir, mkdtemp, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hashRunningCode, hashSources, hashRunningSources } from '../../src/device/open/code-hash.ts'

const FOLDERS = ['base', 'ir', 'ir/pass', 'emit', 'quant', 'kernel', 'device']

describe('the hash of the sources', () => {
  let folder = ''
  const hash = (): Promise<string> => hashSources(pathToFileURL(`${folder}/`))
  const put = (path: string, text: string): Promise<void> => writeFile(join(folder, path), text)

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ingot-hash-'))
    for (const each of FOLDERS) {
      await mkdir(join(folder, each), { recursive: true })
      await put(`${each}/one.js`, `export const one = '${each}'`)
    }
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('is the same for the same files, whatever their times', async () => {
    const before = await hash()
    await utimes(join(folder, 'ir/one.js'), 1, 1)
    expect(await hash()).toBe(before)
  })

  it('changes with a file of the same length and times', async () => {
    const path = join(folder, 'ir/pass/one.js')
    const look = async (): Promise<unknown[]> => {
      await utimes(path, 1, 1)
      const { size, mtimeMs } = await stat(path)
      return [size, mtimeMs]
    }
    const [facts, before] = [await look(), await hash()]
    await writeFile(path, "export const two = 'ir/pass'")
    expect(await look()).toEqual(facts)
    expect(await hash()).not.toBe(before)
  })

  it('changes when a file comes, goes or gets another name', async () => {
    const seen = [await hash()]
    await put('kernel/two.ts', '')
    seen.push(await hash())
    await rename(join(folder, 'kernel/two.ts'), join(folder, 'quant/two.ts'))
    seen.push(await hash())
    await rename(join(folder, 'quant/two.ts'), join(folder, 'quant/three.ts'))
    seen.push(await hash())
    expect(new Set(seen).size).toBe(4)
    await rm(join(folder, 'quant/three.ts'))
    expect(await hash()).toBe(seen[0])
  })

  it('leaves out what makes no kernels', async () => {
    const before = await hash()
    await put('device/two.js', 'export {}')
    await put('ir/one.d.ts', 'export {}')
    await put('ir/one.js.map', '{}')
    expect(await hash()).toBe(before)
  })
})

describe('the hash of this code', () => {
  it('holds the sources and the devices', async () => {
    expect(await hashRunningCode()).toMatch(new RegExp(`^\\d+\\.\\d+\\.\\d+.*-${await hashRunningSources()}-[0-9a-f]{64}$`))
    expect(await hashRunningCode()).toBe(await hashRunningCode())
  })
})
