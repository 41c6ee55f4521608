// A kernel as a WGSL module with one entry point. Optional features (f16, subgroups) are enabled only by kernels that use them.
// Buffers are bindings 0, 1, 2... of group 0, the uniforms follow as one struct. The language itself is in dialect/wgsl.ts.

import { scalarOf, storageScalar } from '../base/dtype.ts'
import { type Kernel, buffersOf, uniformsOf, uses } from '../ir/kernel.ts'
import { AXES } from '../ir/op/position.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import { writeBody } from './clike/clike.ts'
import { constantText } from './clike/constant.ts'
import type { Body } from './clike/dialect.ts'
import { describe, targetFor, usesSubgroups } from './clike/program.ts'
import { opsOf } from './clike/spelling.ts'
import { CONSTANTS, POSITION, spell, storageType, wgslDialect } from './dialect/wgsl.ts'
import type { Caps, Source } from './source.ts'

/** What the passes must know about WGSL on a device with these abilities. */
export function wgslTarget(caps: Caps): Target {
  return { name: 'wgsl', spells: opsOf(spell), lanes: true, subgroup: caps.subgroup, tiles: false, half: caps.f16, narrow: false, width: 4 }
}

/** A kernel as a complete WGSL module with one entry point. */
export function emitWgsl(kernel: Kernel, caps: Caps): Source {
  return writeWgsl(lower(kernel, targetFor(kernel, wgslTarget(caps))))
}

/** The text of a kernel that is lowered already. */
export function writeWgsl(kernel: Kernel): Source {
  const dialect = wgslDialect(kernel)
  const body = writeBody(kernel, dialect, 1, [kernel.name])
  const entry = dialect.reserved.has(kernel.name) ? `${kernel.name}_kernel` : kernel.name
  const lines = [`// ${describe(kernel)}`]
  const half =
    [...buffersOf(kernel), ...kernel.shared].some(({ storage }) => storageScalar(storage) === 'f16') ||
    uses(kernel, ({ dtype }) => dtype !== 'void' && scalarOf(dtype) === 'f16')
  if (half) lines.push('enable f16;')
  // subgroups are whole wherever the verifier let a subgroup operation stand, which WGSL's own analysis cannot see
  if (usesSubgroups(kernel)) {
    lines.push('enable subgroups;', 'diagnostic(off, subgroup_uniformity);')
  }
  lines.push('', ...bindings(kernel, body), '')
  for (const { name, storage, length, atomic } of kernel.shared) {
    lines.push(`var<workgroup> ${body.names.get(name)}: array<${storageType(storage, atomic)}, ${length}>;`)
  }
  for (const { name, scalar, values } of body.tables) {
    const items = values.map((value) => constantText(CONSTANTS, value, scalar).text)
    lines.push(`const ${name} = array<${scalar}, ${values.length}>(${items.join(', ')});`)
  }
  if (kernel.shared.length + body.tables.length > 0) lines.push('')
  for (const helper of body.helpers) lines.push(...helper, '')
  const size = kernel.workgroup.slice(0, kernel.workgroup[2] > 1 ? 3 : kernel.workgroup[1] > 1 ? 2 : 1)
  const parameters = builtins(body)
  lines.push(`@compute @workgroup_size(${size.join(', ')})`)
  lines.push(...(parameters.length === 0 ? [`fn ${entry}() {`] : [`fn ${entry}(`, ...parameters.map((line) => `  ${line},`), ') {']))
  lines.push(...body.lines, '}', '')
  return { text: lines.join('\n'), entry, workgroup: kernel.workgroup }
}

function bindings(kernel: Kernel, body: Body): string[] {
  const buffers = buffersOf(kernel)
  const uniforms = uniformsOf(kernel)
  const lines = buffers.map(({ name, storage, role, atomic }, index) => {
    const access = role === 'read' && !atomic ? 'read' : 'read_write'
    return `@group(0) @binding(${index}) var<storage, ${access}> ${body.names.get(name)}: array<${storageType(storage, atomic)}>;`
  })
  if (uniforms.length === 0) return lines
  // uniform blocks come in units of 16 bytes
  const padding = Array.from({ length: (4 - (uniforms.length % 4)) % 4 }, (_, index) => `  _pad${index}: u32,`)
  const fields = uniforms.map(({ name, dtype }) => `  ${body.names.get(name)}: ${dtype},`)
  return ['struct Args {', ...fields, ...padding, '}', ...lines, `@group(0) @binding(${buffers.length}) var<uniform> args: Args;`]
}

function builtins({ indices }: Body): string[] {
  const lines = (['global', 'workgroup', 'grid', 'lane'] as const).flatMap((of) => {
    const { name, builtin } = POSITION[of]
    return AXES.some((axis) => indices.has(`${of}.${axis}`)) ? [`@builtin(${builtin}) ${name}: vec3u`] : []
  })
  if (indices.has('lane') || indices.has('subgroup')) lines.push('@builtin(local_invocation_index) lane: u32')
  if (indices.has('sublane')) lines.push('@builtin(subgroup_invocation_id) sublane: u32')
  return lines
}
