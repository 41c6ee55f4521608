// `ingot synth` and `ingot quantize`: files that load, and nothing left behind where it fails.

import { existsSync } from 'node:fs'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type LoadOptions, load } from '../../src/llm/model.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { metaNumber } from '../../src/weights/gguf/meta.ts'
import { synthesize } from '../../src/weights/synth/synth.ts'
import { finish, ingot, notBuilt, spawnIngot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const SHAPE = '256,1,4,2,512,300'
const PROMPT = [1, 20, 270, 280, 290]
const HERE: LoadOptions = { device: 'cpu', threads: 1, contextLength: 32 }

async function logitsOf(path: string): Promise<Float32Array> {
  await using model = await load(path, HERE)
  const rows: number[] = []
  await model.evaluate(PROMPT, (part) => {
    rows.push(...part)
  })
  return Float32Array.from(rows)
}

/** Of the squared size. */
function difference(got: Float32Array, want: Float32Array): number {
  const squares = (values: Float32Array): number => values.reduce((sum, value) => sum + value * value, 0)
  return squares(got.map((value, i) => value - want[i]!)) / squares(want)
}

describe('synth', () => {
  test('writes a model that runs', async () => {
    const path = join(files.folder, 'synth.gguf')
    const { code, stdout, stderr } = await ingot('synth', path, '--shape', SHAPE, '--type', 'Q4_K', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({ out: path, type: 'q4_k', seed: 1, shape: { width: 256, layers: 1, vocabulary: 300 } })
    const logits = await logitsOf(path)
    expect(logits.length).toBe(PROMPT.length * 300)
    const size = Math.sqrt(logits.reduce((sum, value) => sum + value * value, 0) / logits.length)
    expect(size).toBeGreaterThan(0.5)
    expect(size).toBeLessThan(2)
  })

  test('refuses in one line', async () => {
    const path = join(files.folder, 'never.gguf')
    for (const args of [
      ['synth', path, '--shape', '2b', '--type', 'q4_k'],
      ['synth', path, '--shape', '63,1,4,2,512,300', '--type', 'q4_k'],
      ['synth', path, '--shape', SHAPE, '--type', 'q9'],
      ['synth', path, '--type', 'q4_k'],
      ['synth', files.model, '--shape', SHAPE, '--type', 'q4_k'],
      ['synth', join(files.folder, 'none', 'x.gguf'), '--shape', SHAPE, '--type', 'q4_k'],
      ['synth', '--shape', SHAPE, '--type', 'q4_k'],
    ]) {
      const { code, stdout, stderr } = await ingot(...args)
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
      expect(stderr).toMatch(/^ingot: .+\n$/)
    }
    expect(existsSync(path)).toBe(false)
  })
})

describe('quantize', () => {
  test('keeps what a model says, as far as the format allows', async () => {
    const source = join(files.folder, 'source.gguf')
    // Scores that spread as they do by default would turn small differences of weights into large ones of logits.
    await synthesize(source, {
      shape: { width: 256, layers: 1, heads: 4, kvHeads: 2, hidden: 512, vocabulary: 300 },
      type: 'f32',
      scoreSpread: 1,
    })
    const want = await logitsOf(source)
    for (const [type, limit] of [
      ['q8_0', 2e-3],
      ['q4_k', 5e-2],
    ] as const) {
      const path = join(files.folder, `${type}.gguf`)
      const { code, stdout } = await ingot('quantize', source, path, '--type', type, '--output-type', 'q8_0', '--json')
      expect(code).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({ in: source, out: path, type, notes: [] })
      await using gguf = await openGguf(path)
      expect(gguf.tensors.get('output.weight')?.type).toBe('q8_0')
      expect(gguf.tensors.get('blk.0.attn_q.weight')?.type).toBe(type)
      expect(gguf.tensors.get('blk.0.attn_norm.weight')?.type).toBe('f32')
      expect(metaNumber(gguf, 'general.quantization_version')).toBe(2)
      expect(difference(await logitsOf(path), want)).toBeLessThan(limit)
    }
    // from blocks to blocks, with a warning
    const again = await ingot('quantize', join(files.folder, 'q8_0.gguf'), join(files.folder, 'again.gguf'), '-t', 'q5_k')
    expect(again.code).toBe(0)
    expect(again.stderr).toContain('quantised before')
    expect(difference(await logitsOf(join(files.folder, 'again.gguf')), want)).toBeLessThan(2e-2)
  })

  test('falls back where rows do not hold whole blocks, and says so', async () => {
    const path = join(files.folder, 'fallback.gguf')
    const { code, stdout } = await ingot('quantize', files.model, path, '--type', 'q4_k', '--json')
    const { notes } = JSON.parse(stdout) as { notes: string[] }
    expect(code).toBe(0)
    expect(notes.some((note) => note.startsWith('blk.0.attn_q.weight becomes q5_0: rows of 64'))).toBe(true)
    await using model = await load(path, HERE)
    expect(model.vocabulary).toBeGreaterThan(0)
  })

  test('refuses in one line, and leaves nothing', async () => {
    const path = join(files.folder, 'out.gguf')
    const text = join(files.folder, 'text.gguf')
    await writeFile(text, 'no model')
    for (const args of [
      ['quantize', files.model, files.model, '-t', 'q8_0', '--force'],
      ['quantize', 'none.gguf', path, '-t', 'q8_0'],
      ['quantize', files.model, path],
      ['quantize', files.model, path, '-t', 'q2_k'],
      ['quantize', files.model, text, '-t', 'q8_0'],
      ['quantize', files.model, '-t', 'q8_0'],
    ]) {
      const { code, stdout, stderr } = await ingot(...args)
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
      expect(stderr).toMatch(/^ingot: .+\n$/)
    }
    expect(await readFile(text, 'utf8')).toBe('no model')
    expect(await ingot('quantize', text, path, '-t', 'q8_0')).toMatchObject({ code: 1, stdout: '' })
    expect((await readdir(files.folder)).filter((name) => name.startsWith('out.gguf'))).toEqual([])
  })

  test.skipIf(notBuilt !== undefined)(`leaves nothing after Ctrl-C${notBuilt === undefined ? '' : ` (${notBuilt})`}`, async () => {
    const source = join(files.folder, 'large.gguf')
    await ingot('synth', source, '--shape', '1024,1,8,8,2048,2000', '--type', 'q8_0')
    const child = spawnIngot('quantize', source, join(files.folder, 'cut.gguf'), '-t', 'q6_k')
    const ended = finish(child)
    while (!(await readdir(files.folder)).some((name) => name.startsWith('cut.gguf.')))
      await new Promise((resolve) => setTimeout(resolve, 20))
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 130, stdout: '', stderr: 'ingot: interrupted; nothing was written\n' })
    expect((await readdir(files.folder)).filter((name) => name.startsWith('cut.gguf'))).toEqual([])
  })
})
