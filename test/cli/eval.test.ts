// `ingot eval` and `ingot compare`: logits as bytes, perplexity, and tensors of two devices held against each other.

import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cutWindows } from '../../src/cli/perplexity.ts'
import { load } from '../../src/llm/model.ts'
import { type TinyFile, plainTensor, tinyBytes } from '../llm/tiny-model.ts'
import { ingot, useTinyFile } from './command-line.ts'

const files = useTinyFile()
const CPU = ['-d', 'cpu', '--threads', '1']
const TOKENS = [1, 260, 261, 270]

describe('ingot eval', () => {
  test('writes the logits of every position, to a file or to stdout', async () => {
    const out = join(files.folder, 'logits.bin')
    const summary = await ingot('eval', files.model, '--tokens', TOKENS.join(), '--out', out, '--json', ...CPU)
    await using model = await load(files.model, { device: 'cpu', threads: 1 })
    const want = new Float32Array(TOKENS.length * model.vocabulary)
    await model.evaluate(TOKENS, (logits, from) => want.set(logits, from * model.vocabulary))
    const bytes = await readFile(out)
    expect(new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))).toEqual(want)
    expect(JSON.parse(summary.stdout)).toMatchObject({
      device: 'cpu',
      tokens: 4,
      vocabulary: model.vocabulary,
      bytes: want.byteLength,
      out,
    })
    expect((await ingot('eval', files.model, '--tokens', TOKENS.join(), ...CPU)).bytes.equals(bytes)).toBe(true)
  })

  test('leaves no file behind when it fails', async () => {
    const { code, stdout } = await ingot('eval', files.model, '--tokens', '1,99999', '--out', join(files.folder, 'bad.bin'), ...CPU)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect((await readdir(files.folder)).filter((name) => name.startsWith('bad.bin'))).toEqual([])
    expect((await ingot('eval', files.model, '--tokens', '1', '--out', join(files.folder, 'none', 'x.bin'), ...CPU)).code).toBe(2)
  })

  test('gives the perplexity of a text, in windows', async () => {
    const text = join(files.folder, 'text.txt')
    await writeFile(text, 'abc abcd dd! '.repeat(12))
    const { stdout, stderr } = await ingot('eval', files.model, '--text', text, '--ctx', '16', '--json', ...CPU)
    const { perplexity, loss, windows, tokens } = JSON.parse(stdout) as Record<'perplexity' | 'loss' | 'windows' | 'tokens', number>
    expect(stderr).toBe('')
    expect(perplexity).toBeCloseTo(Math.exp(loss), 9)
    expect(loss).toBeCloseTo(await meanSurprise('abc abcd dd! '.repeat(12), 16), 4)
    expect(windows).toBe(Math.ceil(tokens / 15))
    const plain = await ingot('eval', files.model, '--text', text, '--ctx', '16', ...CPU)
    expect(plain.stdout).toMatch(
      new RegExp(`^perplexity ${perplexity.toFixed(4)} \\(${tokens} tokens in ${windows} windows of 16, cpu, .*\\)\n$`),
    )
  })

  test('says that the model computes garbage, and prints no null', async () => {
    const [text, model] = [join(files.folder, 'some.txt'), join(files.folder, 'nan.gguf')]
    await writeFile(text, 'abc abcd dd! ')
    const garbage = ({ tensors }: TinyFile): void =>
      void tensors.set('output_norm.weight', {
        ...plainTensor('output_norm.weight', [64]),
        data: () => new Uint8Array(new Float32Array(64).fill(NaN).buffer),
      })
    await writeFile(model, await tinyBytes({ change: garbage }))
    for (const what of [
      ['eval', model, '--text', text, '--json'],
      ['eval', model, '--tokens', '1,260'],
      ['run', model, '-p', 'abc', '--temp', '0'],
      ['run', model, '-p', 'abc'],
    ]) {
      expect(await ingot(...what, ...CPU)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('garbage') as string })
    }
  })

  test('refuses a text without two tokens', async () => {
    const text = join(files.folder, 'empty.txt')
    await writeFile(text, '')
    expect(await ingot('eval', files.model, '--text', text, ...CPU)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('too short') as string,
    })
  })

  test('cuts windows that begin with BOS where there is one', () => {
    expect(cutWindows([5, 6, 7, 8, 9], 3, [1])).toEqual([
      [1, 5, 6],
      [1, 7, 8],
      [1, 9],
    ])
    expect(cutWindows([5, 6, 7, 8, 9], 2, [])).toEqual([
      [5, 6],
      [7, 8],
    ])
    expect(() => cutWindows([5], 4, [])).toThrow(/too short/)
    expect(() => cutWindows([5, 6], 1, [1])).toThrow(/too short/)
  })
})

/** The same sum written another way: one prompt per token, all logits of its last position. */
async function meanSurprise(text: string, contextLength: number): Promise<number> {
  await using model = await load(files.model, { device: 'cpu', threads: 1, contextLength })
  let [sum, count] = [0, 0]
  for (const window of cutWindows(model.tokenize(text), contextLength, [1])) {
    for (let i = 1; i < window.length; i++) {
      model.engine.rewind([])
      const last = await model.engine.prefill(window.slice(0, i), 'logits')
      if (last.kind !== 'logits') throw new Error('no logits')
      const total = last.logits.reduce((all, logit) => all + Math.exp(logit), 0)
      sum += Math.log(total) - (last.logits[window[i] as number] as number)
      count++
    }
  }
  return sum / count
}

describe('ingot compare', () => {
  const compare = (...args: string[]) =>
    ingot('compare', files.model, '--devices', 'cpu,reference', '--prompt-tokens', TOKENS.join(), '--steps', '1', ...args)

  test('says that none differs', async () => {
    const { code, stdout, stderr } = await compare()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^none of 14 tensors differs between cpu and reference: .*\n$/)
  })

  test('names the first that does, and fails', async () => {
    const { code, stdout, stderr } = await compare('--threshold', '0', '--all')
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(15)
    expect(lines.at(-1)).toMatch(/^first to differ between cpu and reference: layer 0 attention \(prompt, 4 x 64\): NMSE .*allowed 0/)
    expect(lines[0]).toMatch(/^prompt +embedding +4 x 64 +NMSE +0\.0e\+0/)
  })

  test('speaks JSON', async () => {
    expect(JSON.parse((await compare('--json', '--all')).stdout)).toMatchObject({
      devices: ['cpu', 'reference'],
      threshold: 1e-4,
      promptTokens: 4,
      compared: 14,
      first: null,
      tensors: { length: 14 },
    })
    const differing = await compare('--json', '--threshold', '0')
    expect(differing.code).toBe(1)
    expect(JSON.parse(differing.stdout)).toMatchObject({
      first: { step: 'prompt', tensor: 'layer 0 attention', shape: [4, 64], differs: true },
    })
  })
})
