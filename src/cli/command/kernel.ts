// `ingot kernel`: lists the kernel library, or shows one of its kernels as a target's source. Runs nothing.

import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Caps } from '../../base/caps.ts'
import { WIDTHS, type Width } from '../../base/dtype.ts'
import { messageOf } from '../../base/error.ts'
import { hashKernel } from '../../ir/hash.ts'
import type { Family, Form } from '../../kernel/family.ts'
import { FAMILIES } from '../../kernel/index.ts'
import { FORMATS } from '../../quant/index.ts'
import { Failure } from '../failure.ts'
import { whole } from '../option/number.ts'
import { TARGETS, type TargetName, capsFor, emitSource } from '../source.ts'
import { styleFor } from '../output/style.ts'

/** Sizes that have a flag of their own; any other parameter goes through --set. */
const SIZES = ['m', 'k', 'n', 'rows', 'cols'] as const

interface KernelFlags extends Partial<Record<(typeof SIZES)[number], number>> {
  readonly list?: true
  readonly json?: true
  readonly emit?: TargetName
  readonly format?: string
  readonly dtype?: string
  readonly set?: Readonly<Record<string, unknown>>
  readonly form?: string
  readonly caps?: Partial<Caps>
}

export function define(command: Command): void {
  command
    .argument('[name]', 'name of a kernel')
    .option('-l, --list', 'list all kernels')
    .addOption(new Option('-e, --emit <target>', 'the language to show it in').choices(TARGETS))
    .addOption(new Option('--format <format>', 'format of its weights').choices(FORMATS.map(({ name }) => name)))
    .addOption(new Option('--dtype <type>', 'type of its elements, where there is a choice').choices(['f32', 'f16', 'bf16', 'u32', 'i32']))
  for (const size of SIZES) command.option(`--${size} <n>`, `the parameter ${size}`, whole({ least: 1 }))
  command
    .option('--set <key=value>', 'set any parameter; may be given several times', readSetting)
    .option('--form <name>', 'show this form, instead of the one that such a device takes')
    .option('--caps <caps>', 'what the device can do: subgroup=32,f16,tiles,lanes=256,width=4,dot; no-f16 switches it off', readCaps)
    .option('--json', 'print the list as JSON')
    .action(run)
}

function run(name: string | undefined, flags: KernelFlags): void {
  if (flags.list === true) {
    if (name !== undefined || flags.emit !== undefined) throw new Failure('--list takes no kernel and no --emit')
    return list(flags.json === true)
  }
  if (flags.json === true) throw new Failure('--json is for --list; a kernel is shown as its source')
  if (name === undefined) throw new Failure(`no kernel given; use one of ${names()}, or --list`)
  const family = FAMILIES.find((each) => each.name === name)
  if (family === undefined) throw new Failure(`no such kernel: ${name}; known are ${names()}`)
  if (flags.emit === undefined) throw new Failure(`no language given; use --emit ${TARGETS.join('|')}`)
  const params = paramsOf(family, flags)
  const caps = capsOf(family, params, flags)
  process.stdout.write(sourceOf(family, formOf(family, params, caps, flags.form), params, flags.emit, caps))
}

function names(): string {
  return FAMILIES.map(({ name }) => name).join(', ')
}

function list(json: boolean): void {
  if (json) {
    const entries = FAMILIES.map(({ name, about, cases: [example = {}], buffers, forms }) => ({
      name,
      about,
      forms: forms.map((form) => form.name),
      example,
      buffers: buffers(example),
    }))
    return void process.stdout.write(`${JSON.stringify(entries)}\n`)
  }
  const style = styleFor(process.stdout)
  const width = Math.max(...FAMILIES.map(({ name }) => name.length))
  const lines = FAMILIES.map(({ name, about, forms }) => {
    const listed = forms.length === 1 ? '' : `\n${' '.repeat(width + 2)}forms: ${forms.map((form) => form.name).join(', ')}`
    return `${style.bold(name.padEnd(width))}  ${about}${listed}\n`
  })
  return void process.stdout.write(lines.join(''))
}

/** What devices of the target usually can do, changed as the flags say; a single lane for families that are written for CPUs only. */
function capsOf({ forms }: Family, params: object, { emit = 'ir', caps = {}, form: asked }: KernelFlags): Caps {
  const usual = { ...capsFor(emit), ...caps }
  const candidates = forms.filter(({ name }) => asked === undefined || name === asked)
  const fits = (some: Caps): boolean => candidates.some((form) => form.fits(some, params))
  const serial = { ...usual, lanes: 1, subgroup: 0, ...caps }
  return !fits(usual) && fits(serial) ? serial : usual
}

/** The form that was asked for, or the one that a device with these caps takes. */
function formOf(family: Family, params: object, caps: Caps, asked: string | undefined): Form {
  const { name, forms } = family
  const known = forms.map((form) => form.name).join(', ')
  const found = asked === undefined ? attempt(name, params, () => family.form(caps, params)) : forms.find((form) => form.name === asked)
  if (found === undefined && asked !== undefined) throw new Failure(`${name} has no form ${asked}; it has ${known}`)
  if (found?.fits(caps, params)) return found
  const what = asked === undefined ? `no form of ${name} fits` : `the form ${asked} of ${name} does not fit`
  const hint = `its forms are ${known}; --caps sets what the device can do`
  throw new Failure(`${what} ${JSON.stringify(params)} on such a device; ${hint}`)
}

/** The kernels of a form's launches, each once. */
function sourceOf({ name }: Family, form: Form, params: object, target: TargetName, caps: Caps): string {
  return attempt(name, params, () => {
    const kernels = form.work(caps, params).launches.map(({ kernel }) => kernel)
    return emitSource(target, [...new Map(kernels.map((kernel) => [hashKernel(kernel), kernel])).values()], caps)
  })
}

/** Parameters and caps came from the command line: whatever is wrong with them is an error of the user. */
function attempt<T>(name: string, params: object, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Failure(`${name} cannot be built from ${JSON.stringify(params)}: ${messageOf(error)}`)
  }
}

/** The example parameters of the family, changed as the flags say. */
function paramsOf({ name, cases: [example = {}] }: Family, flags: KernelFlags): object {
  const known = new Map<string, unknown>(Object.entries(example))
  const given: Record<string, unknown> = { ...flags.set }
  for (const size of SIZES) if (flags[size] !== undefined) given[size] = flags[size]
  if (flags.format !== undefined) given['format'] = flags.format
  if (flags.dtype !== undefined) given[known.has('type') ? 'type' : 'format'] = flags.dtype
  for (const [key, value] of Object.entries(given)) {
    const sample = known.get(key)
    if (!known.has(key)) throw new Failure(`${name} has no parameter ${key}; it has ${[...known.keys()].join(', ')}`)
    if (typeof value !== typeof sample || Array.isArray(value) !== Array.isArray(sample)) {
      throw new Failure(`bad ${key} for ${name}: ${JSON.stringify(value)}; its example has ${JSON.stringify(sample)}`)
    }
  }
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

const SWITCHES = ['f16', 'tiles', 'dot', 'pairs'] as const
const NUMBERS = ['subgroup', 'lanes', 'width', 'registers', 'parallel', 'sharedBytes', 'bindings'] as const

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
