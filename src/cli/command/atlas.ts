// `ingot atlas`: checks, runs, compiles and prints programs of the Atlas instruction set, from their text or serialised form.

import { readFile, writeFile } from 'node:fs/promises'
import { type Command, InvalidArgumentError, Option } from 'commander'
import {
  type AtlasProgram,
  Executor,
  type LaunchOptions,
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
}
interface RunFlags extends LaunchFlags {
  readonly device?: string
  readonly buffer?: ReadonlyMap<number, string>
  readonly out?: ReadonlyMap<number, string>
}

export function define(command: Command): void {
  command
    .command('check')
    .description('say what is wrong with a program, if anything')
    .argument('<file>', 'its text, or its bytes')
    .action(check)
  addLaunch(command.command('run').description('run a program on a device'))
    .addOption(new Option('-d, --device <name>', 'device to run on (default: auto)').argParser(deviceName))
    .option(
      '--buffer <handle=file>',
      'bytes of a buffer, such as 1=a.f32, or so many zeros: 3=4096; may be given several times',
      readBinding,
    )
    .option('--out <handle=file>', 'write a buffer to a file afterwards; may be given several times', readBinding)
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
}

async function check(file: string): Promise<void> {
  const program = await readProgram(file)
  process.stdout.write(`${file}: ${program.instructions.length} instructions, ${Object.keys(program.labels).length} labels\n`)
}

async function disassemble(file: string): Promise<void> {
  process.stdout.write(printProgram(await readProgram(file)))
}

async function emit(file: string, flags: LaunchFlags & { readonly to: TargetName }): Promise<void> {
  const compiled = compileProgram(await readProgram(file), launchOf(flags), flags)
  const notes = compiled.explain().split('\n')
  process.stderr.write(`${notes.join('\n')}\n`)
  process.stdout.write(emitSource(flags.to, [compiled.kernel]))
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const program = await readProgram(file)
  const launch = launchOf(flags)
  const executor = await Executor.open(flags.device === undefined ? {} : { backend: flags.device })
  try {
    const handles = new Map<number, number>()
    for (const [name, source] of flags.buffer ?? []) {
      const bytes = /^\d+$/.test(source) ? new Uint8Array(Number(source)) : await readBytes(source)
      const handle = executor.allocate(bytes.length)
      executor.copyTo(handle, bytes)
      handles.set(name, handle)
    }
    for (const name of flags.out?.keys() ?? []) if (!handles.has(name)) throw new Failure(`no --buffer ${name} to write to a file`)
    const begun = performance.now()
    await executor.execute(program, { ...launch, checks: flags.checks, buffers: Object.fromEntries(handles) })
    const ms = performance.now() - begun
    // known by now, so that this compiles nothing
    const { form } = await executor.device.compile(compileProgram(program, launch, flags).kernel)
    const bytes = [...handles.values()].reduce((sum, handle) => sum + executor.bytesOf(handle), 0)
    for (const [name, path] of flags.out ?? []) await writeFile(path, await executor.copyFrom(handles.get(name) ?? 0))
    process.stdout.write(
      `${totalLanes(resolveLaunch(launch))} lanes on ${executor.device.name}${form === undefined ? '' : ` as ${form}`} in ${ms.toFixed(1)} ms with compiling; ` +
        `buffers of ${showBytes(bytes)}, checks ${flags.checks ? 'on' : 'off'}\n`,
    )
  } finally {
    await executor.close()
  }
}

async function readProgram(file: string): Promise<AtlasProgram> {
  const bytes = await readBytes(file)
  const isSerialised = new TextDecoder().decode(bytes.subarray(0, 4)) === 'ATLS'
  return isSerialised ? decodeProgram(bytes) : parseProgram(new TextDecoder().decode(bytes))
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

/** `1=a.f32` */
function readBinding(text: string, before: ReadonlyMap<number, string> | undefined): ReadonlyMap<number, string> {
  const [, handle, value] = /^(\d+)=(.+)$/.exec(text) ?? []
  if (handle === undefined || value === undefined) throw new InvalidArgumentError('It must be the handle of a buffer, =, and a file.')
  return new Map([...(before ?? []), [Number(handle), value]])
}
