// Data to learn from: files or records in memory, read once, line by line, into a store of tokens. A line that cannot be used is dropped
// and counted, with the first places of each fault; `strict` makes the first one an error. Knows faults and formats of files; how a record
// becomes tokens is encode.ts.

import { isObject, isString } from '../../base/argument.ts'
import { IngotError, messageOf } from '../../base/error.ts'
import { type ByteSource, openFile } from '../../weights/source.ts'
import type { SampleEncoder, Tokens } from './encode.ts'
import { readBlocks, readLines } from './lines.ts'
import { RecordFault, type TrainingRecord, readRecord } from './record.ts'
import { type Origin, TokenStore } from './store.ts'

/** Paths of files, or records. */
export type DataSource = string | readonly string[] | readonly TrainingRecord[]

/** A fault that lines had. */
export interface Dropped {
  readonly reason: string
  readonly count: number
  /** the first line that had it, and more about that one */
  readonly first: Origin & { readonly detail?: string }
}

/** What was read. */
export interface DataSummary {
  /** records, or pieces of plain text, that are used */
  readonly records: number
  readonly sequences: number
  readonly tokens: number
  /** tokens that are predicted */
  readonly learnt: number
  /** sequences that were too long for the context, and tokens that they lost by that */
  readonly cut: { readonly sequences: number; readonly tokens: number }
  readonly dropped: readonly Dropped[]
}

export interface Dataset {
  readonly store: TokenStore
  /** `pairs`: sequences 2 i and 2 i + 1 are a better and a worse answer */
  readonly kind: 'sequences' | 'pairs'
  /** how many units there are: records, or pieces of plain text */
  readonly units: number
  readonly summary: DataSummary
}

export interface ReadDataOptions {
  readonly encoder: SampleEncoder
  readonly vocabulary: number
  /** the first line that cannot be used is an error (default false) */
  readonly strict?: boolean
  readonly signal?: AbortSignal
  /** bytes read so far, and of all files */
  readonly onProgress?: (done: number, total: number) => void
}

/** Reads all data. Rejects with `bad-file` where nothing of it can be used. */
export async function readDataset(data: DataSource, options: ReadDataOptions): Promise<Dataset> {
  const reader = new DataReader(options)
  const items: readonly (string | TrainingRecord)[] = isString(data) ? [data] : data
  if (items.length === 0) throw new IngotError('bad-argument', 'there is no data', { op: 'train', got: 'an empty list' })
  const files: ByteSource[] = []
  try {
    for (const item of items) if (isString(item)) files.push(await openFile(item))
    if (files.length > 0 && files.length < items.length)
      throw new IngotError('bad-argument', 'data is paths or records, not both', { op: 'train' })
    reader.total = files.reduce((sum, { size }) => sum + size, 0)
    for (const file of files) await reader.readFile(file)
  } finally {
    await Promise.all(files.map((file) => file.close()))
  }
  if (files.length === 0) items.forEach((record, i) => reader.addRecord(record, { file: 'data', line: i + 1 }))
  return reader.finish()
}

const decoder = new TextDecoder('utf-8', { fatal: true })

class DataReader {
  readonly #options: ReadDataOptions
  readonly #store: TokenStore
  readonly #dropped = new Map<string, { count: number; first: Dropped['first'] }>()
  readonly #cut = { sequences: 0, tokens: 0 }
  #units = 0
  #kind: Dataset['kind'] | undefined
  #done = 0
  total = 0

  constructor(options: ReadDataOptions) {
    this.#options = options
    this.#store = new TokenStore(options.vocabulary)
  }

  async readFile(file: ByteSource): Promise<void> {
    if (await holdsRecords(file)) await this.#readLines(file)
    else await this.#readText(file)
    this.#done += file.size
  }

  async #readLines(file: ByteSource): Promise<void> {
    let read = 0
    for await (const { number, bytes } of readLines(file)) {
      this.#tell((read += (bytes?.length ?? 0) + 1))
      const origin = { file: file.name, line: number }
      this.#using(origin, () => {
        if (bytes === undefined) throw new RecordFault('the line is too long')
        const text = textOf(bytes)
        if (text !== '') this.#add(parse(text), origin)
      })
    }
  }

  async #readText(file: ByteSource): Promise<void> {
    let [read, line] = [0, 1]
    for await (const block of readBlocks(file)) {
      read += new TextEncoder().encode(block).length
      const origin = { file: file.name, line }
      const isEnd = read >= file.size
      this.#using(origin, () => {
        this.#be('sequences')
        for (const piece of this.#options.encoder.encodePlain(block, { isEnd })) this.#store.add(piece, origin, this.#units++)
      })
      line += block.split('\n').length - 1
      this.#tell(read)
    }
  }

  addRecord(record: unknown, origin: Origin): void {
    this.#using(origin, () => this.#add(record, origin))
  }

  #add(record: unknown, origin: Origin): void {
    const sample = readRecord(record)
    const { encoder } = this.#options
    const found =
      sample.kind === 'pair' ? this.#pair(encoder.encode(sample.chosen), encoder.encode(sample.rejected)) : encoder.encode(sample)
    this.#be(sample.kind === 'pair' ? 'pairs' : 'sequences')
    if (found.length === 0) throw new RecordFault('there is nothing to predict')
    const unit = this.#units++
    for (const each of found) {
      this.#store.add(each, origin, unit)
      if (each.cut === 0) continue
      this.#cut.sequences++
      this.#cut.tokens += each.cut
    }
  }

  #pair(chosen: readonly Tokens[], rejected: readonly Tokens[]): Tokens[] {
    const [better, worse] = [chosen.at(-1), rejected.at(-1)] // a long conversation is compared by its last answer
    if (better === undefined || worse === undefined) throw new RecordFault('there is nothing to predict')
    return [better, worse]
  }

  /** Records of one set are all pairs, or none is. */
  #be(kind: Dataset['kind']): void {
    this.#kind ??= kind
    if (this.#kind !== kind) throw new RecordFault(`not of the kind of the records before it, which are ${this.#kind}`)
  }

  /** Runs what reads a record; what is wrong with it is counted. */
  #using(origin: Origin, work: () => void): void {
    this.#options.signal?.throwIfAborted()
    try {
      work()
    } catch (error) {
      if (!(error instanceof RecordFault)) throw error
      const { reason, detail } = error
      if (this.#options.strict === true) throw badLine(origin, error.message)
      const known = this.#dropped.get(reason) ?? { count: 0, first: { ...origin, ...(detail === undefined ? {} : { detail }) } }
      this.#dropped.set(reason, { ...known, count: known.count + 1 })
    }
  }

  #tell(read: number): void {
    this.#options.onProgress?.(this.#done + read, this.total)
  }

  finish(): Dataset {
    const dropped = [...this.#dropped].map(([reason, { count, first }]): Dropped => ({ reason, count, first }))
    const { size, tokens, learnt } = this.#store
    if (size === 0) {
      const [first] = dropped
      const why = first === undefined ? 'the files are empty' : `${first.first.file}:${first.first.line}: ${describe(first)}`
      throw new IngotError('bad-file', 'there is nothing to learn from', { op: 'train', got: why })
    }
    const summary = { records: this.#units, sequences: size, tokens, learnt, cut: { ...this.#cut }, dropped }
    return { store: this.#store, kind: this.#kind ?? 'sequences', units: this.#units, summary }
  }
}

/** A fault in a line for people: `no JSON: ... (3 lines, first data.jsonl:7)` */
export function describeDropped(dropped: Dropped): string {
  const { count, first } = dropped
  return `${describe(dropped)} (${count} ${count === 1 ? 'record' : 'records, the first'} at ${first.file}:${first.line})`
}

function describe({ reason, first }: Dropped): string {
  return first.detail === undefined ? reason : `${reason}: ${first.detail}`
}

function badLine({ file, line }: Origin, why: string): IngotError {
  return new IngotError('bad-file', `${file}:${line}: ${why}`, { op: 'train', hint: 'without strict such lines are left out' })
}

function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes).trim() // a mark of byte order goes, too
  } catch {
    throw new RecordFault('no UTF-8')
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new RecordFault('no JSON', messageOf(error))
  }
}

/** By its name; else whether it begins with an object on a line. */
export async function holdsRecords(file: ByteSource): Promise<boolean> {
  if (/\.(jsonl|ndjson|json)$/i.test(file.name)) return true
  if (/\.(txt|md|text)$/i.test(file.name)) return false
  for await (const { bytes } of readLines(file)) {
    const text = bytes === undefined ? '' : new TextDecoder().decode(bytes).trim()
    if (text !== '') return text.startsWith('{') && isJson(text)
  }
  return false
}

function isJson(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
