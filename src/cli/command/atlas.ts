// `ingot atlas`: checks, runs, compiles and prints programs of the Atlas instruction set, from their text or serialised form.

import { readFile, writeFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import {
  type AtlasProgram,
  Executor,
  type LaunchOptions,
  bufferNames,
  compileProgram,
  decodeProgram,
  parseProgram,
  printProgram,
  resolveLaunch,
  totalLanes,
} from '../../atlas.ts'
import { Failure } from '../failure.ts'
import { whole } from '../option/number.ts'
import { checkFile, deviceName } from '../option/shared.ts'
import { showBytes } from '../output/style.ts'
import { TARGETS, type TargetName, emitSource } from '../source.ts'

interface LaunchFlags {
  readonly grid?: LaunchOptions['grid']
  readonly block?: LaunchOptions['block']
  readonly shared?: number
  readonly checks: boolean
  readonly f64AsF32?: boolean
}
interface RunFlags extends LaunchFlags {
  readonly device?: string
  readonly repeat: number
  readonly buffer?: Bindings
  readonly pool?: Bindings
  readonly out?: Bindings
}
/** A file, or a number of zeros, by the name or handle of memory. */
type Bindings = ReadonlyMap<string, string>

export function define(command: Command): void {
  command
    .command('check')
    .description('say what is wrong with a program, if anything')
    .argument('<file>', 'its text, or its bytes')
    .action(check)
  addLaunch(command.command('run').description('run a program on a device'))
    .addOption(new Option('-d, --device <name>', 'device to run on (default: auto)').argParser(deviceName))
    .option(
      '--buffer <name=file>',
      'bytes of a buffer, by its handle or by its name in the first lines of the file: x=a.f32, 1=a.f32; or so many zeros: 3=4096; ' +
        'may be given several times',
      readBinding,
    )
    .option('--pool <handle=file>', 'the same for a pool; may be given several times', readBinding)
    .option('--out <name=file>', 'write a buffer to a file afterwards; may be given several times', readBinding)
    .option('--repeat <n>', 'run it so many times and show the quickest', whole({ least: 1 }), 1)
    .action(run)
  addLaunch(command.command('emit').description('show the kernel that a program becomes'))
    .addOption(new Option('--to <target>', 'the language').choices(TARGETS).default('msl'))
    .action(emit)
  command.command('disasm').description('print a program as text').argument('<file>', 'its text, or its bytes').action(disassemble)
}

function addLaunch(command: Command): Command {
  return command
    .argument('<file>', 'its text, or its bytes')
    .option('--grid <x,y,z>', 'blocks along each axis', readExtent)
    .option('--block <x,y,z>', 'lanes of a block along each axis', readExtent)
    .option('--shared <bytes>', 'shared memory of a block', whole({ least: 0 }))
    .option('--no-checks', 'look for no errors while it runs')
    .option('--f64-as-f32', 'compute f64 as f32 where there is no f64')
}

async function check(file: string): Promise<void> {
  const { program } = await readProgram(file)
  process.stdout.write(`${file}: ${program.instructions.length} instructions, ${Object.keys(program.labels).length} labels\n`)
}

async function disassemble(file: string): Promise<void> {
  process.stdout.write(printProgram((await readProgram(file)).program))
}

async function emit(file: string, flags: LaunchFlags & { readonly to: TargetName }): Promise<void> {
  const { program, names } = await readProgram(file)
  const handles = { buffers: [...names.values()] }
  const compiled = compileProgram(program, launchOf(flags), { ...flags, ...(names.size === 0 ? {} : { handles }) })
  process.stderr.write(`${compiled.explain()}\n`)
  process.stdout.write(emitSource(flags.to, [compiled.kernel]))
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const { program, names } = await readProgram(file)
  const outs = new Map([...(flags.out ?? [])].map(([name, path]) => [handleOf(name, names), path]))
  const given = new Map([...(flags.buffer ?? [])].map(([name, source]) => [handleOf(name, names), source]))
  for (const handle of outs.keys()) if (!given.has(handle)) throw new Failure(`no --buffer ${handle} to write to a file`)
  const pooled = new Map([...(flags.pool ?? [])].map(([name, source]) => [handleOf(name, new Map()), source]))
  checkGiven(program, flags, names, given, pooled)
  const executor = await Executor.open(flags.device === undefined ? {} : { backend: flags.device })
  try {
    const buffers: Record<number, number> = {}
    for (const [handle, source] of given) {
      const bytes = await bytesOf(source)
      buffers[handle] = executor.allocate(bytes.length)
      executor.copyTo(buffers[handle], bytes)
    }
    const pools: Record<number, number> = {}
    for (const [handle, source] of pooled) {
      const bytes = await bytesOf(source)
      pools[handle] = executor.allocatePool(bytes.length)
      executor.copyToPool(pools[handle], bytes)
    }
    const { checks, f64AsF32 = false } = flags
    const launch = { ...launchOf(flags), checks, f64AsF32, buffers, pools }
    const [words, compiling] = await timed(() => executor.explain(program, launch))
    const runs = new Array<number>()
    for (let i = 0; i < flags.repeat; i++) runs.push((await timed(() => executor.execute(program, launch)))[1])
    for (const [handle, path] of outs) await writeFile(path, await executor.copyFrom(buffers[handle] ?? 0))
    const bound = [
      ...Object.values(buffers).map((handle) => executor.bytesOf(handle)),
      ...Object.values(pools).map((pool) => executor.poolBytes(pool)),
    ].reduce((sum, bytes) => sum + bytes, 0)
    const [ms, lanes] = [Math.min(...runs), totalLanes(resolveLaunch(launch))]
    process.stdout.write(
      `${lanes === 1 ? '1 lane' : `${lanes} lanes`} in ${ms.toFixed(3)} ms, compiled in ${compiling.toFixed(1)} ms; ` +
        `${showBytes(bound)} of memory, ${(bound / ms / 1e6).toPrecision(3)} GB/s\n${words}\n`,
    )
  } finally {
    await executor.close()
  }
}

/** What a call gives, and the milliseconds that it took. */
async function timed<T>(call: () => Promise<T>): Promise<[result: T, ms: number]> {
  const begun = performance.now()
  const result = await call()
  return [result, performance.now() - begun]
}

/** Memory that the program names and nobody gave: in an executor, that handle could be another one's. */
function checkGiven(
  program: AtlasProgram,
  flags: RunFlags,
  names: ReadonlyMap<string, number>,
  buffers: ReadonlyMap<number, string>,
  pools: ReadonlyMap<number, string>,
): void {
  const handles = { buffers: [...buffers.keys()], pools: [...pools.keys()] }
  for (const binding of compileProgram(program, launchOf(flags), { ...flags, handles }).bindings) {
    if (typeof binding === 'number' && !buffers.has(binding)) {
      const name = [...names].find(([, handle]) => handle === binding)?.[0]
      throw new Failure(`the program uses buffer ${binding}: give it by --buffer ${name ?? binding}=FILE`)
    }
    const [, pool] = /^pool(\d+)$/.exec(String(binding)) ?? []
    if (pool !== undefined && !pools.has(Number(pool))) throw new Failure(`the program uses pool ${pool}: give it by --pool ${pool}=FILE`)
  }
}

/** The handle of a name; a number is one. */
function handleOf(name: string, names: ReadonlyMap<string, number>): number {
  const handle = /^\d+$/.test(name) ? Number(name) : names.get(name)
  if (handle !== undefined) return handle
  throw new Failure(`no memory is called ${name}; ${names.size === 0 ? 'use its handle' : `there are ${[...names.keys()].join(', ')}`}`)
}

/** The bytes of a file, or zeros. */
async function bytesOf(source: string): Promise<Uint8Array> {
  return /^\d+$/.test(source) ? new Uint8Array(Number(source)) : readBytes(source)
}

/** A program, and what its text calls its buffers. */
async function readProgram(file: string): Promise<{ program: AtlasProgram; names: ReadonlyMap<string, number> }> {
  const bytes = await readBytes(file)
  const isSerialised = new TextDecoder().decode(bytes.subarray(0, 4)) === 'ATLS'
  if (isSerialised) return { program: decodeProgram(bytes), names: new Map() }
  const text = new TextDecoder().decode(bytes)
  return { program: parseProgram(text), names: bufferNames(text) }
}

async function readBytes(file: string): Promise<Uint8Array> {
  await checkFile(file)
  return readFile(file)
}

function launchOf({ grid, block, shared }: LaunchFlags): LaunchOptions {
  return {
    ...(grid === undefined ? {} : { grid }),
    ...(block === undefined ? {} : { block }),
    ...(shared === undefined ? {} : { sharedBytes: shared }),
  }
}

function readExtent(text: string): [x: number, y: number, z: number] {
  const [x = 1, y = 1, z = 1, ...more] = text.split(/[,x]/).map(whole({ least: 1 }))
  if (more.length > 0) throw new InvalidArgumentError('It must be at most three whole numbers.')
  return [x, y, z]
}

/** `1=a.f32`, `x=a.f32` */
function readBinding(text: string, before: Bindings | undefined): Bindings {
  const [, name, value] = /^(\d+|[A-Za-z_]\w*)=(.+)$/.exec(text) ?? []
  if (name === undefined || value === undefined) throw new InvalidArgumentError('It must be a name or a handle, =, and a file.')
  if (before?.has(name) === true) throw new InvalidArgumentError(`${name} is given twice.`)
  return new Map([...(before ?? []), [name, value]])
}
