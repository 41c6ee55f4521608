// `ingot kernel`: lists the kernel library, or shows one of its kernels as a target's source. Runs nothing.

import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Caps } from '../base/caps.ts'
import { WIDTHS, type Width } from '../base/dtype.ts'
import { isIngotError } from '../base/error.ts'
import { hashKernel } from '../ir/hash.ts'
import { kernelRecords } from '../kernel/index.ts'
import type { KernelRecord } from '../kernel/record.ts'
import { FORMATS } from '../quant/index.ts'
import { Failure } from './failure.ts'
import { whole } from './number.ts'
import { TARGETS, type TargetName, capsFor, emitSource } from './source.ts'
import { styleFor } from './terminal.ts'

/** Sizes that have a flag of their own; any other parameter goes through --set. */
const SIZES = ['m', 'k', 'n', 'rows', 'cols'] as const

interface KernelFlags extends Partial<Record<(typeof SIZES)[number], number>> {
  readonly list?: true
  readonly json?: true
  readonly emit?: TargetName
  readonly format?: string
  readonly dtype?: string
  readonly set?: Readonly<Record<string, unknown>>
  readonly caps?: Partial<Caps>
}

export function define(command: Command): void {
  command
    .argument('[name]', 'a kernel of the list')
    .option('-l, --list', 'the kernels there are')
    .addOption(new Option('-e, --emit <target>', 'the language to show it in').choices(TARGETS))
    .addOption(new Option('--format <format>', 'of its weights').choices(FORMATS.map(({ name }) => name)))
    .addOption(new Option('--dtype <type>', 'of its elements, where it has a choice').choices(['f32', 'f16', 'bf16', 'u32', 'i32']))
  for (const size of SIZES) command.option(`--${size} <n>`, `the parameter ${size}`, whole({ least: 1 }))
  command
    .option('--set <key=value>', 'any parameter; may be given several times', readSetting)
    .option('--caps <caps>', 'what the device can do: subgroup=32,f16,tiles,lanes=256,width=4,dot; no-f16 takes away', readCaps)
    .option('--json', 'the list as one array')
    .action(run)
}

function run(name: string | undefined, flags: KernelFlags): void {
  if (flags.list === true) {
    if (name !== undefined || flags.emit !== undefined) throw new Failure('--list takes no kernel and no --emit')
    return list(flags.json === true)
  }
  if (flags.json === true) throw new Failure('--json is for --list; a kernel is shown as its source')
  if (name === undefined) throw new Failure(`which kernel? Give one of ${names()}, or --list`)
  const record = kernelRecords().find((each) => each.name === name)
  if (record === undefined) throw new Failure(`no kernel ${name}; there are ${names()}`)
  if (flags.emit === undefined) throw new Failure(`in which language? Give --emit ${TARGETS.join('|')}`)
  process.stdout.write(sourceOf(record, paramsOf(record, flags), flags.emit, { ...capsFor(flags.emit), ...flags.caps }))
}

function names(): string {
  return kernelRecords()
    .map(({ name }) => name)
    .join(', ')
}

function list(json: boolean): void {
  const records = kernelRecords()
  if (json) {
    const entries = records.map(({ name, about, cases, buffers }) => ({
      name,
      about,
      example: cases[0] ?? {},
      buffers: cases[0] === undefined ? [] : buffers(cases[0]),
    }))
    return void process.stdout.write(`${JSON.stringify(entries)}\n`)
  }
  const style = styleFor(process.stdout)
  const wide = Math.max(...records.map(({ name }) => name.length))
  process.stdout.write(records.map(({ name, about }) => `${style.bold(name.padEnd(wide))}  ${about}\n`).join(''))
}

/** The kernels of the entry's launches, each once. */
function sourceOf(record: KernelRecord, params: object, target: TargetName, caps: Caps): string {
  try {
    const kernels = record.work(caps, params).launches.map(({ kernel }) => kernel)
    return emitSource(target, [...new Map(kernels.map((kernel) => [hashKernel(kernel), kernel])).values()], caps)
  } catch (error) {
    // Parameters and caps came from the command line; whatever is wrong with them is the user's to correct.
    throw new Failure(
      `${record.name} cannot be built from ${JSON.stringify(params)}: ${isIngotError(error) ? error.message : String(error)}`,
    )
  }
}

/** The example that the entry comes with, changed as the flags say. */
function paramsOf(record: KernelRecord, flags: KernelFlags): object {
  const example = (record.cases[0] ?? {}) as Readonly<Record<string, unknown>>
  const given: Record<string, unknown> = { ...flags.set }
  for (const size of SIZES) if (flags[size] !== undefined) given[size] = flags[size]
  if (flags.format !== undefined) given['format'] = flags.format
  if (flags.dtype !== undefined) given['type' in example ? 'type' : 'format'] = flags.dtype
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(example, key))
  if (unknown !== undefined) throw new Failure(`${record.name} has no parameter ${unknown}; it has ${Object.keys(example).join(', ')}`)
  const wrong = Object.keys(given).find(
    (key) => typeof given[key] !== typeof example[key] || Array.isArray(given[key]) !== Array.isArray(example[key]),
  )
  if (wrong !== undefined)
    throw new Failure(`bad ${wrong} for ${record.name}: ${JSON.stringify(given[wrong])}; its example has ${JSON.stringify(example[wrong])}`)
  return { ...example, ...given }
}

/** `key=value`: numbers, true, false and JSON as such, all else as text. */
function readSetting(text: string, before: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be key=value.')
  const value = text.slice(at + 1)
  try {
    return { ...before, [text.slice(0, at)]: JSON.parse(value) as unknown }
  } catch {
    return { ...before, [text.slice(0, at)]: value }
  }
}

const SWITCHES = ['f16', 'tiles', 'dot'] as const
const NUMBERS = ['subgroup', 'lanes', 'width', 'parallel', 'sharedBytes', 'bindings'] as const

function readCaps(text: string): Partial<Caps> {
  const caps: Record<string, number | boolean> = {}
  for (const part of text.split(',').map((each) => each.trim())) {
    const [key = '', value] = part.split('=')
    const switched = SWITCHES.find((name) => name === key || `no-${name}` === key)
    const counted = NUMBERS.find((name) => name === key)
    if (switched !== undefined && value === undefined) caps[switched] = key === switched
    else if (counted !== undefined && value !== undefined && /^\d+$/.test(value)) caps[counted] = Number(value)
    else throw new InvalidArgumentError(`It must be of ${NUMBERS.map((name) => `${name}=N`).join(', ')}, ${SWITCHES.join(', ')}.`)
  }
  if ('width' in caps && !WIDTHS.includes(caps['width'] as Width))
    throw new InvalidArgumentError(`width must be one of ${WIDTHS.join(', ')}.`)
  return caps
}
