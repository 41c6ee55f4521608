// A model to train from nothing: a vocabulary learnt from the data, and random weights of a shape.

import { isString } from '../base/argument.ts'
import { IngotError } from '../base/error.ts'
import { trainTokenizer } from '../llm/tokenizer/train.ts'
import { openFile } from '../weights/source.ts'
import { type NewShape, createModel } from './create.ts'
import { holdsRecords } from './data/dataset.ts'
import { readBlocks, readLines } from './data/lines.ts'
import { type Pair, RecordFault, type Sample, readRecord } from './data/record.ts'

export interface BeginOptions {
  readonly shape: NewShape
  /** files, as training reads them; a record that cannot be used is left out here as it is there */
  readonly data: readonly string[]
  /** tokens in all (default 2048) */
  readonly vocabulary?: number
  readonly seed?: number
  readonly name?: string
}

/** Writes a new model for some data. */
export async function beginModel(to: string, options: BeginOptions): Promise<{ parameters: number; vocabulary: number }> {
  const { shape, data, vocabulary = 2048, seed = 0, name = 'new' } = options
  const texts = (await Promise.all(data.map(readTexts))).flat()
  if (texts.every((text) => text.trim() === ''))
    throw new IngotError('bad-argument', 'the data has no text to learn a vocabulary from', { op: 'beginModel', got: data.join(', ') })
  const tokenizer = trainTokenizer(texts, { vocabulary })
  const { parameters } = await createModel(to, { shape, tokenizer, seed, name })
  return { parameters, vocabulary: tokenizer.tokens.length }
}

async function readTexts(path: string): Promise<string[]> {
  const file = await openFile(path)
  try {
    const texts: string[] = []
    if (await holdsRecords(file)) for await (const { bytes } of readLines(file)) texts.push(...textsOfLine(bytes))
    else for await (const block of readBlocks(file)) texts.push(block)
    return texts
  } finally {
    await file.close()
  }
}

function textsOfLine(bytes: Uint8Array | undefined): string[] {
  try {
    return bytes === undefined ? [] : textsOf(readRecord(JSON.parse(new TextDecoder().decode(bytes))))
  } catch (error) {
    if (error instanceof RecordFault || error instanceof SyntaxError) return []
    throw error
  }
}

function textsOf(record: Sample | Pair): string[] {
  switch (record.kind) {
    case 'text':
      return [record.text]
    case 'chat':
      return record.messages.flatMap(({ content }) => (isString(content) ? [content] : []))
    case 'pair':
      return [record.chosen, record.rejected].flatMap(textsOf)
  }
}
