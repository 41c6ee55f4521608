// Adapters as files: what PyTorch's runs left behind, read and written again, in GGUF and in PEFT's form, byte for byte.

import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openReference } from '../../src/device/reference/reference.ts'
import type { AdapterSet } from '../../src/llm/adapter/adapter.ts'
import { readAdapterGguf, writeAdapterGguf } from '../../src/llm/adapter/gguf.ts'
import { readPeft, writePeft } from '../../src/llm/adapter/peft.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { metaString } from '../../src/weights/gguf/meta.ts'
import { dataFolder } from './folder.ts'

const root = join(dataFolder, 'training', 'lora-run')
const folders = existsSync(root)
  ? readdirSync(root, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('adapter.gguf'))
      .map((path) => join(path, '..'))
      .sort()
  : []

describe.skipIf(folders.length === 0)(`adapters of the data folder${folders.length === 0 ? ': there are none' : ''}`, () => {
  const device = openReference({ check: false })
  let out = ''
  beforeAll(() => {
    out = mkdtempSync(join(tmpdir(), 'adapter-'))
  })
  afterAll(async () => {
    rmSync(out, { recursive: true })
    await device.close()
  })

  test.for(folders)('%s', async (name) => {
    const folder = join(root, name)
    const base = readBase()
    const fromGguf = await readAdapterGguf(join(folder, 'adapter.gguf'), { device })
    const fromPeft = await readPeft(folder, base, { device })
    expect(await differing(fromGguf, fromPeft)).toEqual([])

    // Written from the other form each.
    const path = join(out, 'adapter.gguf')
    await using stored = await openGguf(join(folder, 'adapter.gguf'))
    const order = Object.fromEntries(Object.keys(fromGguf.tensors).map((tensor) => [tensor, fromPeft.tensors[tensor]!]))
    await writeAdapterGguf(path, { ...fromPeft, tensors: order }, metaString(stored, 'general.name'))
    expect(readFileSync(path).equals(readFileSync(join(folder, 'adapter.gguf')))).toBe(true)
    await writePeft(out, fromGguf, base, { force: true })
    const same = readFileSync(join(out, 'adapter_model.safetensors')).equals(readFileSync(join(folder, 'adapter_model.safetensors')))
    expect(same).toBe(true)
    const [got, want] = [out, folder].map((each) => JSON.parse(readFileSync(join(each, 'adapter_config.json'), 'utf8')) as Config)
    expect([got!.r, got!.lora_alpha, got!.target_modules.toSorted()]).toEqual([want!.r, want!.lora_alpha, want!.target_modules.toSorted()])
    expect(await differing(await readPeft(out, base, { device }), fromGguf)).toEqual([])
  })
})

interface Config {
  readonly r: number
  readonly lora_alpha: number
  readonly target_modules: readonly string[]
}

/** The heads of the base, as Hugging Face's settings of it say. */
function readBase(): { architecture: string; heads: number; kvHeads: number } {
  const config = JSON.parse(readFileSync(join(root, 'hf-base', 'config.json'), 'utf8')) as Record<string, number>
  return { architecture: 'llama', heads: config['num_attention_heads']!, kvHeads: config['num_key_value_heads']! }
}

/** Names of tensors that are not the same in both. */
async function differing(a: AdapterSet, b: AdapterSet): Promise<string[]> {
  expect(a.alpha).toBe(b.alpha)
  const names = [...new Set([...Object.keys(a.tensors), ...Object.keys(b.tensors)])]
  const same = await Promise.all(
    names.map(async (name) => {
      const [x, y] = [await a.tensors[name]?.bytes(), await b.tensors[name]?.bytes()]
      return x !== undefined && y !== undefined && Buffer.from(x).equals(y)
    }),
  )
  return names.filter((_, i) => !same[i])
}
