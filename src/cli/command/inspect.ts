// `ingot inspect`: what is in a model file, what it needs, and whether it fits here. Reads headers only.

import { freemem, totalmem } from 'node:os'
import type { Command } from 'commander'
import { type MemoryNeed, type ModelFacts, describeModel } from '../../llm/describe.ts'
import { printableJson, printableLine } from '../../base/printable.ts'
import { type Gguf, openGguf } from '../../weights/gguf/gguf.ts'
import { type MetaArray, type MetaValue, describeMeta } from '../../weights/gguf/meta.ts'
import { whole } from '../option/number.ts'
import { checkFile } from '../option/shared.ts'
import { type Style, showBytes, styleFor } from '../output/style.ts'

interface InspectFlags {
  readonly ctx?: number
  readonly json?: true
}

/** The memory of this machine, and whether a model fits. */
interface MachineMemory {
  readonly totalBytes: number
  readonly freeBytes: number
  /** in the memory that is free now; in all there is */
  readonly fits: 'yes' | 'when other programs end' | 'no'
}

export function define(command: Command): void {
  command
    .argument('<file>', 'a GGUF file; any part of a split one')
    .option('--ctx <n>', 'context length to compute memory for (default: as trained, at most 4096)', whole({ least: 1, most: 1 << 24 }))
    .option('--json', 'print everything as one JSON object, with whole arrays')
    .action(inspect)
}

async function inspect(file: string, { ctx, json }: InspectFlags): Promise<void> {
  await checkFile(file)
  await using gguf = await openGguf(file)
  const facts = describeModel(gguf, ctx)
  const here = facts.memory === null ? null : checkMemory(facts.memory)
  const text = json === true ? printableJson(toJson(gguf, facts, here)) : describe(gguf, facts, here, styleFor(process.stdout)).join('\n')
  process.stdout.write(`${text}\n`)
}

function toJson(gguf: Gguf, facts: ModelFacts, here: MachineMemory | null): object {
  return {
    files: gguf.files.map(({ name, size }) => ({ name, bytes: size })),
    version: gguf.version,
    alignment: gguf.alignment,
    ...facts,
    here,
    metadata: Object.fromEntries([...gguf.metadata].map(([key, meta]) => [key, { type: describeMeta(meta), value: plain(meta) }])),
    tensors: [...gguf.tensors.values()].map(({ file, ...tensor }) => ({ ...tensor, file: file.name })),
  }
}

function checkMemory({ totalBytes }: MemoryNeed): MachineMemory {
  const [all, free] = [totalmem(), freemem()]
  return { totalBytes: all, freeBytes: free, fits: totalBytes <= free ? 'yes' : totalBytes <= all ? 'when other programs end' : 'no' }
}

/** As JSON can hold it. */
function plain(meta: MetaValue): unknown {
  if (meta.type !== 'array') return exact(meta.value)
  return meta.of === 'array' ? meta.value.map(plain) : itemsOf(meta).map(exact)
}

function itemsOf({ value }: MetaArray): unknown[] {
  const items: Iterable<unknown> = value
  return [...items]
}

/** Integers that a number cannot hold are written out. */
function exact(value: unknown): unknown {
  if (typeof value !== 'bigint') return value
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
}

function describe(gguf: Gguf, facts: ModelFacts, here: MachineMemory | null, style: Style): string[] {
  const size = gguf.files.reduce((sum, file) => sum + file.size, 0)
  const parts = gguf.files.length > 1 ? ` in ${gguf.files.length} files` : ''
  return [
    `${style.bold(printableLine(facts.name))}: ${showCount(facts.parameters)} parameters, ${showBytes(size)}${parts}, GGUF ${gguf.version}`,
    '',
    style.dim(`metadata (${gguf.metadata.size})`),
    ...alignColumns([...gguf.metadata].map(([key, meta]) => [printableLine(key), describeMeta(meta), brief(meta)])),
    '',
    style.dim(`tensors (${gguf.tensors.size})`),
    ...alignColumns(
      [...gguf.tensors.values()].map(({ name, type, dims, bytes }) => [printableLine(name), type, dims.join(' x '), showBytes(bytes)]),
      [3],
    ),
    '',
    style.dim('formats'),
    ...alignColumns(
      facts.formats.map(({ type, tensors, parameters, bytes, supported }) => [
        type,
        `${tensors} tensor${tensors === 1 ? '' : 's'}`,
        showCount(parameters),
        showBytes(bytes),
        supported ? '' : style.red('not supported'),
      ]),
      [1, 2, 3],
    ),
    '',
    ...alignColumns(summary(facts, here, style)),
  ]
}

function summary(
  { architecture, tokenizer, chatTemplate, memory, contextTrained }: ModelFacts,
  here: MachineMemory | null,
  style: Style,
): string[][] {
  const split = tokenizer.pre === null ? '' : `, split as ${printableLine(tokenizer.pre)}`
  const support = architecture.supported ? style.green('supported') : style.red(`not supported; known: ${architecture.known.join(', ')}`)
  const rows = [
    ['architecture', `${printableLine(architecture.name)}, ${support}`],
    [
      'tokenizer',
      tokenizer.kind === null ? 'none: it runs on token ids' : `${printableLine(tokenizer.kind)}, ${tokenizer.tokens} tokens${split}`,
    ],
    ['chat template', chatTemplate ? 'yes' : 'no'],
  ]
  if (memory === null || here === null) return rows
  const { contextLength, weightBytes, cacheBytes, scratchBytes, totalBytes } = memory
  const trained = contextTrained === null ? '' : ` (trained for ${contextTrained})`
  return [
    ...rows,
    [
      'memory',
      `${showBytes(totalBytes)} for ${contextLength} tokens${trained}: ` +
        `weights ${showBytes(weightBytes)}, cache ${showBytes(cacheBytes)} (f16), scratch about ${showBytes(scratchBytes)}`,
    ],
    ['here', `${showFit(here, style)}: ${showBytes(here.freeBytes)} of ${showBytes(here.totalBytes)} free`],
    ...memory.notes.map((note) => ['note', note]),
  ]
}

function showFit({ fits }: MachineMemory, style: Style): string {
  if (fits === 'yes') return style.green('fits here')
  return fits === 'no' ? style.red('does not fit here') : style.yellow('fits here when other programs end')
}

const TEXT_SHOWN = 72
const ITEMS_SHOWN = 4

/** A value in one line: long texts and arrays by their beginning. */
function brief(meta: MetaValue): string {
  if (meta.type === 'string') return shorten(meta.value)
  if (meta.type === 'f32') return String(Number(meta.value.toPrecision(7)))
  if (meta.type !== 'array') return String(meta.value)
  const shown = itemsOf(meta)
    .slice(0, ITEMS_SHOWN)
    .map((item) => (typeof item === 'string' ? JSON.stringify(shorten(item)) : typeof item === 'object' ? '[...]' : String(item)))
  return meta.value.length > ITEMS_SHOWN ? `[${shown.join(', ')}, ... ${meta.value.length} in all]` : `[${shown.join(', ')}]`
}

function shorten(text: string): string {
  // Control characters of a file are not for the terminal.
  const line = text.replace(/[\p{Cc}\p{Cf}]+/gu, ' ')
  return line.length > TEXT_SHOWN ? `${line.slice(0, TEXT_SHOWN)}... (${text.length} characters)` : line
}

/** Rows with aligned columns; `right` names those of numbers. */
function alignColumns(rows: readonly (readonly string[])[], right: readonly number[] = []): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)))
  const pad = (cell: string, i: number): string => (right.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))
  return rows.map((row) => `  ${row.map(pad).join('  ')}`.trimEnd())
}

function showCount(count: number): string {
  for (const [unit, size] of [
    ['B', 1e9],
    ['M', 1e6],
    ['K', 1e3],
  ] as const)
    if (count >= size) return `${(count / size).toFixed(count >= 100 * size ? 0 : 2)} ${unit}`
  return String(count)
}
