// A kernel as a program in the Metal Shading Language with one entry point. The language itself is in dialect/msl.ts; the device
// sets the language version and the maths mode.

import { type Kernel, type SharedArray, buffersOf, lanesOf, uniformsOf, uses } from '../ir/kernel.ts'
import { AXES, indexRecord } from '../ir/op/position.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import { writeBody } from './clike/clike.ts'
import { constantText } from './clike/constant.ts'
import type { Body, Table } from './clike/dialect.ts'
import { BARE } from './clike/expression.ts'
import { describe, targetFor } from './clike/program.ts'
import { opsOf, shaderScalar } from './clike/spelling.ts'
import { CONSTANTS, POSITION, SCALAR_TYPE, SINGLE, mslDialect, spell, storageType } from './dialect/msl.ts'
import type { Caps, Source } from './source.ts'

/** What the passes must know about Metal. */
export function mslTarget(caps: Partial<Caps> = {}): Target {
  return {
    name: 'msl',
    spells: opsOf(spell),
    lanes: true,
    subgroup: caps.subgroup ?? 32,
    tiles: caps.tiles ?? true,
    half: caps.f16 ?? true,
    narrow: true,
    width: 4,
  }
}

/** A kernel as a complete MSL program with one entry point. */
export function emitMsl(kernel: Kernel, caps: Partial<Caps> = {}): Source {
  return writeMsl(lower(kernel, targetFor(kernel, mslTarget(caps))))
}

/** The text of a kernel that is lowered already. */
export function writeMsl(kernel: Kernel): Source {
  const flat = !uses(kernel, ({ op, arg }) => op === 'index' && (indexRecord(arg).axis ?? 'x') !== 'x')
  const dialect = mslDialect(flat)
  const body = writeBody(kernel, dialect, 1, [kernel.name])
  const uniforms = uniformsOf(kernel)
  const entry = dialect.reserved.has(kernel.name) ? `${kernel.name}_kernel` : kernel.name
  const lines = [`// ${describe(kernel)}`, '#include <metal_stdlib>', 'using namespace metal;', '']
  if (uniforms.length > 0) {
    lines.push(`struct ${entry}_args {`, ...uniforms.map(({ name, dtype }) => `  ${SCALAR_TYPE[dtype]} ${body.names.get(name)};`), '};', '')
  }
  for (const helper of body.helpers) lines.push(...helper, '')
  for (const table of body.tables) lines.push(tableLine(table), '')
  const lanes = lanesOf(kernel)
  if (lanes >= 64) lines.push(`[[max_total_threads_per_threadgroup(${lanes})]]`) // 32 or less has made compilers fail
  const parameters = [...parametersOf(kernel, body, entry), ...builtins(body, flat)]
  lines.push(`kernel void ${entry}(`, parameters.map((line) => `    ${line}`).join(',\n'), ') {')
  for (const array of kernel.shared) lines.push(`  ${sharedLine(array, kernel, body)}`)
  lines.push(...body.lines, '}', '')
  return { text: lines.join('\n'), entry, workgroup: kernel.workgroup }
}

function parametersOf(kernel: Kernel, body: Body, entry: string): string[] {
  const buffers = buffersOf(kernel)
  const lines = buffers.map(({ name, storage, role, atomic }, index) => {
    const type = atomic ? `atomic_${storage === 'i32' ? 'int' : 'uint'}` : storageType(storage)
    return `device ${role === 'read' && !atomic ? 'const ' : ''}${type}* ${body.names.get(name)} [[buffer(${index})]]`
  })
  return uses(kernel, ({ op }) => op === 'uniform') || uniformsOf(kernel).length > 0
    ? [...lines, `constant ${entry}_args& args [[buffer(${buffers.length})]]`]
    : lines
}

/** The positions that are used. */
function builtins(body: Body, flat: boolean): string[] {
  const positions = (['global', 'workgroup', 'grid', 'lane'] as const).flatMap((of) => {
    const { name, attribute } = POSITION[of]
    return AXES.some((axis) => body.indices.has(`${of}.${axis}`)) ? [`${flat ? 'uint' : 'uint3'} ${name} [[${attribute}]]`] : []
  })
  const singles = (['lane', 'subgroup', 'sublane'] as const).flatMap((of) =>
    body.indices.has(of) ? [`uint ${SINGLE[of].name} [[${SINGLE[of].attribute}]]`] : [],
  )
  return [...positions, ...singles]
}

function sharedLine({ name, storage, length, atomic }: SharedArray, kernel: Kernel, body: Body): string {
  const type = atomic ? `atomic_${storage === 'i32' ? 'int' : 'uint'}` : storageType(storage)
  const inVectors = uses(kernel, ({ op, arg }) => (op === 'load' || op === 'store') && arg.mem === name && arg.width !== undefined)
  return `${inVectors ? 'alignas(16) ' : ''}threadgroup ${type} ${body.names.get(name)}[${length}];`
}

function tableLine({ name, scalar, values }: Table): string {
  const items = values.map((value) => constantText(CONSTANTS, value, scalar, BARE).text)
  return `constant ${SCALAR_TYPE[shaderScalar(scalar)]} ${name}[${values.length}] = { ${items.join(', ')} };`
}
