// Data to learn from: records and their faults, what of them is learnt, lines and blocks of files, packing, order. Real templates and
// vocabularies are in test/data/answers.test.ts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { createTemplate } from '../../src/llm/template.ts'
import { createTokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { IGNORED } from '../../src/train/batch.ts'
import { type Rendered, renderAnswers } from '../../src/train/data/conversation.ts'
import { type DataSource, type Dataset, describeDropped, readDataset } from '../../src/train/data/dataset.ts'
import { createSampleEncoder } from '../../src/train/data/encode.ts'
import { readBlocks, readLines } from '../../src/train/data/lines.ts'
import { shuffled, splitData } from '../../src/train/data/order.ts'
import { RecordFault, readRecord } from '../../src/train/data/record.ts'
import { type RowOptions, fillRows, makeBatches, makeRows } from '../../src/train/data/rows.ts'
import { TokenStore, spansOf } from '../../src/train/data/store.ts'
import { fromBytes } from '../../src/weights/source.ts'
import { spmMetadata } from '../llm/vocabulary-fixture.ts'

const folder = mkdtempSync(join(tmpdir(), 'ingot-data-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const tokenizer = createTokenizer(spmMetadata())
const template = createTemplate(
  '{% for m in messages %}{{ m.role[0] + "!" + m.content + "<|end|>\n" }}{% endfor %}{% if add_generation_prompt %}a!{% endif %}',
)
const encoderFor = (context = 64): ReturnType<typeof createSampleEncoder> =>
  createSampleEncoder({ tokenizer, template: () => template, context })
const read = (data: DataSource, { context = 64, strict = false } = {}): Promise<Dataset> =>
  readDataset(data, { encoder: encoderFor(context), vocabulary: tokenizer.vocabSize, strict })

/** A file of these lines. */
function file(name: string, ...lines: readonly (string | object)[]): string {
  const path = join(folder, name)
  writeFileSync(path, lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
  return path
}

/** What of a sequence is learnt, as text. */
function learntOf({ store }: Dataset, at: number): string[] {
  const sequence = store.sequence(at)
  return spansOf(sequence).map(([from, to]) => tokenizer.decode(sequence.ids.slice(from, to), { special: true, continuation: true }))
}

describe('records', () => {
  test('each form is known by its fields, and what is learnt of it', async () => {
    const data = await read([
      { messages: [{ role: 'user', content: 'ab' }, { role: 'assistant', content: 'cd' }, { role: 'user', content: 'dd' }, { role: 'assistant', content: 'ca' }] }, // prettier-ignore
      { prompt: 'abc', completion: ' dd' },
      { text: 'abcd' },
      { prompt: [{ role: 'user', content: 'ab' }], completion: 'bc' },
    ])
    expect(data.summary).toMatchObject({ records: 4, sequences: 4, dropped: [] })
    expect(learntOf(data, 0)).toEqual(['cd<|end|>', 'ca<|end|>'])
    expect(learntOf(data, 1)).toEqual([' dd</s>'])
    expect(learntOf(data, 2)).toEqual([' abcd</s>'])
    expect(learntOf(data, 3)).toEqual(['bc<|end|>'])
    expect(data.store.sequence(0).ids[0]).toBe(tokenizer.bos)
  })

  test('pairs are two sequences, and do not mix with others', async () => {
    const pair = { prompt: 'ab', chosen: ' c', rejected: ' d' }
    const data = await read([pair, { text: 'abc' }])
    expect(data).toMatchObject({ kind: 'pairs', units: 1 })
    expect([learntOf(data, 0), learntOf(data, 1)]).toEqual([[' c</s>'], [' d</s>']])
    expect(data.summary.dropped[0]!.reason).toContain('not of the kind')
  })

  test.for([
    ['no object', [1]],
    ['no field that says what to learn', { question: 'x' }],
    ['messages is no list of messages', { messages: 'hi' }],
    ['messages is empty', { messages: [] }],
    ['a message has no role', { messages: [{ content: 'x' }] }],
    ['the content of a message is no text', { messages: [{ role: 'assistant', content: 5 }] }],
    ['no message of the assistant to learn', { messages: [{ role: 'user', content: 'x' }] }],
    ['completion is no text', { prompt: 'x', completion: 5 }],
    ['completion is empty', { prompt: 'x', completion: '' }],
    ['prompt is no text', { completion: 'x' }],
    ['text is empty', { text: '' }],
    ['rejected is no text', { prompt: 'a', chosen: 'b' }],
    ['tools is no list', { text: 'a', tools: {} }],
  ] as const)('%s', ([reason, record]) => {
    expect(() => readRecord(record)).toThrow(RecordFault)
    expect(() => readRecord(record)).toThrow(reason)
  })

  test('any JSON is a sample or a fault', () => {
    const field = fc.constantFrom('messages', 'prompt', 'completion', 'text', 'chosen', 'rejected', 'tools', 'other')
    const message = fc.record({ role: fc.constantFrom('user', 'assistant', 5), content: fc.jsonValue() }, { requiredKeys: [] })
    const value = fc.oneof(fc.jsonValue(), fc.string(), fc.array(fc.oneof(message, fc.jsonValue()), { maxLength: 4 }))
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.dictionary(field, value)), (record) => {
        try {
          const sample = readRecord(record)
          for (const each of sample.kind === 'pair' ? [sample.chosen, sample.rejected] : [sample]) encoderFor().encode(each)
        } catch (error) {
          if (!(error instanceof RecordFault)) throw error
        }
      }),
      { numRuns: 500 },
    )
  })
})

describe('answers', () => {
  const render = (source: string) => {
    const { render: own } = createTemplate(source)
    return (messages: readonly { role: string; content?: unknown }[], given = 0): Rendered[] =>
      renderAnswers(messages, given, (some, open) => own(some, { addGenerationPrompt: open }), ['<end>'])
  }
  const talk = ['u', 'assistant', 'u', 'assistant'].map((role, i) => ({ role, content: `<${i}>` }))
  const shown = (texts: readonly Rendered[]): [string, string[]][] =>
    texts.map(({ text, spans }) => [text, spans.map(([from, to]) => text.slice(from, to))])

  test('one text where messages are always written alike', () => {
    const plain = render(
      '{% for m in messages %}[{{ m.role }}]{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}',
    )
    expect(shown(plain(talk))).toEqual([['[u]<0><end>[assistant]<1><end>[u]<2><end>[assistant]<3><end>', ['<1><end>', '<3><end>']]])
    expect(shown(plain(talk, 2))).toEqual([['[u]<0><end>[assistant]<1><end>[u]<2><end>[assistant]<3><end>', ['<3><end>']]])
    expect(shown(plain(talk.slice(0, 3)))).toEqual([['[u]<0><end>[assistant]<1><end>', ['<1><end>']]])
  })
  test('texts of their own where the last one is written otherwise', () => {
    const think = render('{% for m in messages %}{{ m.role[0] }}:{% if loop.last and m.role != "u" %}hm{% endif %}{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}a:{% endif %}') // prettier-ignore
    expect(shown(think(talk))).toEqual([
      ['u:<0><end>a:hm<1><end>', ['hm<1><end>']],
      ['u:<0><end>a:<1><end>u:<2><end>a:hm<3><end>', ['hm<3><end>']],
    ])
  })
  test('the very prompt, where what was given is written otherwise once there is an answer', () => {
    const last = render('{% for m in messages %}{% if loop.last and m.role == "u" %}(system){% endif %}{{ m.content }}{% if m.role != "u" %}<end>{% endif %}{% endfor %}') // prettier-ignore
    expect(shown(last(talk.slice(0, 2)))).toEqual([['(system)<0><1><end>', ['<1><end>']]])
  })
  test('without a mark that is known, all but the white space at the end', () => {
    const plain = render('{% for m in messages %}{{ m.content }}|\n{% endfor %}')
    expect(shown(plain(talk.slice(0, 2)))).toEqual([['<0>|\n<1>|', ['<1>|']]])
  })
  test('a mark within the content does not end it', () => {
    const plain = render('{% for m in messages %}{{ m.content }}<end>{% endfor %}')
    expect(shown(plain([{ role: 'assistant', content: 'a<end>b' }]))).toEqual([['a<end>b<end>', ['a<end>b<end>']]])
  })
})

describe('places of tokens', () => {
  test('lie side by side, and decode to their part of the text', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', 'b', 'c', ' ', 'é', '▁', '🙂', 'd', '<s>', '<tool>', '\n', '\ud800'),
      maxLength: 30,
    })
    fc.assert(
      fc.property(text, fc.boolean(), (given, parseSpecial) => {
        const { ids, starts, ends } = tokenizer.locate(given, { parseSpecial, addSpecial: true })
        expect(ids).toEqual(tokenizer.encode(given, { parseSpecial, addSpecial: true }))
        expect(starts[0]).toBe(0)
        expect(ends.at(-1) ?? 0).toBe(given.length)
        starts.forEach((start, i) => {
          expect(start).toBeLessThanOrEqual(ends[i]!)
          if (i > 0) expect(start <= ends[i - 1]! && start >= starts[i - 1]!).toBe(true)
          const own = tokenizer.decode([ids[i]!], { special: true, continuation: true })
          if (own.includes('\ufffd') || ends[i] === start || own.startsWith('<')) return
          const part = given.slice(start, ends[i]).replaceAll('▁', ' ')
          expect([part, ` ${part}`]).toContain(own)
        })
      }),
    )
  })
})

describe('files', () => {
  test('lines are the same however the file is read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', '\n', 'é'), maxLength: 40 }),
        fc.integer({ min: 1, max: 9 }),
        async (text, chunk) => {
          const lines: string[] = []
          for await (const { number, bytes } of readLines(fromBytes(Buffer.from(text)), { chunk })) {
            lines.push(Buffer.from(bytes!).toString())
            expect(number).toBe(lines.length)
          }
          expect(lines).toEqual(text === '' ? [] : text.replace(/\n$/, '').split('\n'))
        },
      ),
    )
  })
  test('blocks together are the text, whatever it is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', '\n', 'é', ' ', '🙂'), maxLength: 60 }),
        fc.integer({ min: 4, max: 20 }),
        async (text, chunk) => {
          let joined = ''
          for await (const block of readBlocks(fromBytes(Buffer.from(text)), { chunk })) joined += block
          expect(joined).toBe(text)
        },
      ),
    )
  })
  test('a line that is too long is skipped, and not held', async () => {
    const lines: unknown[] = []
    for await (const { number, bytes } of readLines(fromBytes(Buffer.from(`a\n${'x'.repeat(50)}\nb`)), { longest: 20, chunk: 8 }))
      lines.push([number, bytes?.length])
    expect(lines).toEqual([[1, 1], [2, undefined], [3, 1]]) // prettier-ignore
  })

  test('bad lines are counted by fault, with the first place', async () => {
    const path = file('bad.jsonl', { text: 'abc' }, '{"text": ', '', { messages: [] }, { text: 'ab' }, '{oops', '\ufeff{"text":"a"}\r')
    const { summary } = await read(path)
    expect(summary).toMatchObject({ records: 3, sequences: 3 })
    expect(summary.dropped.map(({ reason, count, first }) => [reason, count, first.line])).toEqual([['no JSON', 2, 2], ['messages is empty', 1, 4]]) // prettier-ignore
    expect(describeDropped(summary.dropped[1]!)).toBe(`messages is empty (1 record at ${path}:4)`)
    await expect(read(path, { strict: true })).rejects.toThrow(`${path}:2: no JSON`)
    await expect(read(file('none.jsonl', '{}'))).rejects.toThrow('there is nothing to learn from')
    await expect(read(file('empty.jsonl', ''))).rejects.toThrow('the files are empty')
    await expect(read(join(folder, 'missing.jsonl'))).rejects.toThrow('cannot open')
    await expect(read([])).rejects.toThrow('there is no data')
  })
  test('bytes that are no UTF-8 are a fault of their line, or of a plain text', async () => {
    const path = join(folder, 'latin.jsonl')
    writeFileSync(path, Buffer.concat([Buffer.from('{"text":"a"}\n"'), Buffer.from([0xe9, 0x22, 0x0a]), Buffer.from('{"text":"b"}')]))
    expect((await read(path)).summary).toMatchObject({ records: 2, dropped: [{ reason: 'no UTF-8', first: { line: 2 } }] })
    writeFileSync(join(folder, 'latin.txt'), Buffer.from([0xe9, 0x20, 0x61]))
    await expect(read(join(folder, 'latin.txt'))).rejects.toThrow('is no text')
  })
  test('a plain text is cut into pieces in which each token is predicted once', async () => {
    const text = 'abcd ab aa dd ca '.repeat(20)
    const { store, summary } = await read(file('book.txt', text), { context: 10 })
    const ids = [...tokenizer.encode(text, { addSpecial: true }), tokenizer.eos!]
    const learnt = Array.from({ length: store.size }, (_, i) => Array.from(store.sequence(i).ids.subarray(1))).flat()
    expect(learnt).toEqual(ids.slice(1))
    expect(summary).toMatchObject({ learnt: ids.length - 1, cut: { sequences: 0, tokens: 0 } })
    expect((await read(file('noname', text))).store.size).toBe(Math.ceil((ids.length - 1) / 64))
    expect((await read(file('records', { text }))).summary.records).toBe(1)
  })
  test('an answer that is too long is cut, one whose prompt is too long is dropped', async () => {
    const data = await read(
      [
        { prompt: 'a b c', completion: ' d'.repeat(20) },
        { prompt: ' d'.repeat(20), completion: ' a' },
      ],
      { context: 10 },
    )
    expect(data.store.lengthOf(0)).toBe(11)
    expect(data.summary.cut).toEqual({ sequences: 1, tokens: expect.any(Number) as number })
    expect(data.summary.dropped[0]!.reason).toBe('what is given fills the context')
  })
  test('any bytes are records, faults, or an error of ours', async () => {
    const piece = fc.oneof(fc.constantFrom('{"text":"ab"}', '{"prompt":"a","completion":"b"}', '\n', '{', '"', '[]', 'null'), fc.string())
    await fc.assert(
      fc.asyncProperty(fc.array(piece), fc.boolean(), async (parts, isText) => {
        const path = file(isText ? 'fuzz' : 'fuzz.jsonl', parts.join(''))
        await read(path).catch((error: unknown) => expect((error as Error).name).toBe('IngotError'))
      }),
      { numRuns: 60 },
    )
  })
})

/** A store of sequences of so many tokens, whose ids tell them apart. */
function storeOf(lengths: readonly number[]): TokenStore {
  const store = new TokenStore(1 << 20)
  lengths.forEach((length, i) => store.add({ ids: Array.from({ length }, (_, j) => 1000 * i + j), spans: [[1, length]] }, { file: 'x', line: i + 1 }, i)) // prettier-ignore
  return store
}

describe('rows', () => {
  const lengths = fc.array(fc.integer({ min: 2, max: 9 }), { minLength: 1, maxLength: 60 })
  test.for([true, false])('have every sequence once, with its targets and positions; packed: %s', (packing) => {
    fc.assert(
      fc.property(lengths, fc.integer({ min: 0, max: 1000 }), (given, seed) => {
        const store = storeOf(given)
        const options: RowOptions = { context: 8, packing }
        const order = shuffled(Uint32Array.from(given.keys()), seed, 0)
        const rows = makeRows(store, order, options)
        expect(rows.flat().toSorted((a, b) => a - b)).toEqual([...given.keys()])
        const learnt: number[] = []
        for (const batch of makeBatches(rows, 3)) {
          const { shape, tokens, targets, positions } = fillRows(store, batch, options)
          targets.forEach((target, i) => {
            if (target === IGNORED) return
            expect(target).toBe(tokens[i]! + 1)
            expect(positions[i]).toBe(tokens[i]! % 1000)
            expect(i % shape[1]).toBeGreaterThanOrEqual(positions[i]!)
            learnt.push(target)
          })
        }
        expect(learnt).toHaveLength(given.reduce((sum, length) => sum + length - 1, 0))
        expect(new Set(learnt).size).toBe(learnt.length)
      }),
    )
  })
  test('packing wastes little', () => {
    const given = Array.from({ length: 1000 }, (_, i) => 2 + ((i * 7919) % 60))
    const rows = makeRows(storeOf(given), Uint32Array.from(given.keys()), { context: 128, packing: true })
    expect(given.reduce((sum, length) => sum + length - 1, 0) / (128 * rows.length)).toBeGreaterThan(0.95)
  })
  test('padded rows come in few lengths', () => {
    const store = storeOf(Array.from({ length: 500 }, (_, i) => i + 2))
    const found = new Set(Array.from({ length: 500 }, (_, i) => fillRows(store, [[i]], { context: 512, packing: false }).shape[1]))
    expect(found.size).toBeLessThan(25)
    expect([...found].every((length) => length <= 512)).toBe(true)
  })
})

describe('order', () => {
  test('is of a seed and an epoch', () => {
    const items = Uint32Array.from({ length: 100 }, (_, i) => i)
    const order = shuffled(items, 7, 0)
    expect(order).toEqual(shuffled(items, 7, 0))
    expect(order).not.toEqual(shuffled(items, 7, 1))
    expect(order).not.toEqual(shuffled(items, 8, 0))
    expect(order.toSorted()).toEqual(items)
  })
  test('validation takes whole units, by share or by count', () => {
    const store = new TokenStore(100)
    for (let i = 0; i < 30; i++) store.add({ ids: [1, 2], spans: [[1, 2]] }, { file: 'x', line: i }, Math.floor(i / 3))
    const { train, validation } = splitData(store, 10, 0.2, 3)
    expect([train.length, validation.length]).toEqual([24, 6])
    const units = (some: Uint32Array): Set<number> => new Set(Array.from(some, (i) => store.unitOf(i)))
    expect([...units(train)].filter((unit) => units(validation).has(unit))).toEqual([])
    expect(splitData(store, 10, 3, 3).validation).toHaveLength(9)
    expect(splitData(store, 10, 0, 3).validation).toHaveLength(0)
    expect(() => splitData(store, 10, 10, 3)).toThrow('leaves nothing')
    expect(() => splitData(store, 10, 1.5, 3)).toThrow('no such validation split')
  })
})
