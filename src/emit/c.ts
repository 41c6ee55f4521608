// Kernels as a C file. One function per kernel runs a range of workgroups:
//   void ingot_NAME(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch)
// Workgroups are numbered x first. Shared arrays lie in `scratch`, which must hold `scratchBytes` and be aligned to 64 bytes.
// The language itself is in dialect/c.ts; the compiler's flags are said in native/cpu/prelude.h.

import { storageBytes } from '../base/dtype.ts'
import { IngotError } from '../base/error.ts'
import { type Kernel, buffersOf, lanesOf, uniformsOf } from '../ir/kernel.ts'
import { AXES } from '../ir/op/position.ts'
import { lower } from '../ir/pass/index.ts'
import type { Target } from '../ir/target.ts'
import { writeBody } from './clike/clike.ts'
import { constantText } from './clike/constant.ts'
import type { Body, Table } from './clike/dialect.ts'
import { describe } from './clike/program.ts'
import { CONSTANTS, DOUBLE_SPELLS, SCALAR_TYPE, SPELLS, cDialect, elementType } from './dialect/c.ts'
import type { Source } from './source.ts'

/** C of one or more kernels, one function each. */
export interface CSource extends Source {
  readonly entries: readonly string[]
  /** bytes of scratch that each function needs */
  readonly scratch: readonly number[]
}
export interface COptions {
  /** how the prelude is included; default `prelude.h` */
  readonly prelude?: string
}

/** Places in scratch begin at multiples of this many bytes: one cache line, one wide vector. */
const LINE = 64

/** What the passes must know about C. */
export const C_TARGET: Target = {
  name: 'c',
  spells: SPELLS,
  lanes: false,
  subgroup: 0,
  tiles: false,
  half: false,
  double: { width: 16, spells: DOUBLE_SPELLS },
  narrow: true,
  width: 16,
}

/** One or more kernels as a C file. */
export function emitC(kernels: Kernel | readonly Kernel[], options: COptions = {}): CSource {
  const list = 'body' in kernels ? [kernels] : kernels
  const lowered = list.map((kernel) => lower(kernel, C_TARGET))
  const entries = lowered.map(({ name }) => `ingot_${name}`)
  const text = [`#include "${options.prelude ?? 'prelude.h'}"`, '', ...lowered.flatMap((kernel) => [...writeFunction(kernel), ''])].join(
    '\n',
  )
  return { text, entry: entries[0] ?? '', workgroup: [1, 1, 1], entries, scratch: lowered.map((kernel) => placeShared(kernel).bytes) }
}

/** Bytes of scratch that the function of a kernel needs. */
export function scratchBytes(kernel: Kernel): number {
  return placeShared(lower(kernel, C_TARGET)).bytes
}

function placeShared(kernel: Kernel): { bytes: number; offsets: number[] } {
  let bytes = 0
  const offsets = kernel.shared.map(({ storage, length }) => {
    const at = bytes
    bytes += Math.ceil((length * storageBytes(storage)) / LINE) * LINE
    return at
  })
  return { bytes, offsets }
}

function writeFunction(kernel: Kernel): string[] {
  if (lanesOf(kernel) !== 1)
    throw new IngotError('unsupported', 'C runs one lane per workgroup', { op: kernel.name, got: kernel.workgroup })
  const body = writeBody(kernel, cDialect, 2)
  const parameters = 'void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch'
  const signature = `void ingot_${kernel.name}(${parameters})`
  const lines = [`// ${describe(kernel)}`, `${signature};`, `${signature} {`]
  const axes = AXES.filter((axis) => body.indices.has(`workgroup.${axis}`))
  const unused = [
    ...(buffersOf(kernel).some(({ name }) => body.memories.has(name)) ? [] : ['buffers']),
    ...(body.uniforms.size === 0 ? ['uniforms'] : []),
    ...(axes.length === 0 && !AXES.some((axis) => body.indices.has(`grid.${axis}`)) ? ['grid'] : []),
    ...(kernel.shared.some(({ name }) => body.memories.has(name)) ? [] : ['scratch']),
  ]
  if (unused.length > 0) lines.push(`  ${unused.map((name) => `(void)${name};`).join(' ')}`)
  lines.push(...body.tables.map((table) => `  ${tableLine(table)}`), ...memoryLines(kernel, body).map((line) => `  ${line}`))
  lines.push('  for (uint32_t group = begin; group < end; group++) {')
  const position = { x: 'group % grid[0]', y: 'group / grid[0] % grid[1]', z: 'group / grid[0] / grid[1]' }
  for (const axis of axes) lines.push(`    const uint32_t group_${axis} = ${position[axis]};`)
  return [...lines, ...body.lines, '  }', '}']
}

function memoryLines(kernel: Kernel, body: Body): string[] {
  const lines = buffersOf(kernel).flatMap(({ name, storage, role, atomic }, index) => {
    const local = body.names.get(name)
    const type = `${role === 'read' && !atomic ? 'const ' : ''}${elementType(storage)} *`
    return body.memories.has(name) ? [`${type}${local} = buffers[${index}];`] : []
  })
  uniformsOf(kernel).forEach(({ name, dtype }, field) => {
    if (body.uniforms.has(name))
      lines.push(`const ${SCALAR_TYPE[dtype]} ${body.names.get(name)} = ((const ${SCALAR_TYPE[dtype]} *)uniforms)[${field}];`)
  })
  const { offsets } = placeShared(kernel)
  kernel.shared.forEach(({ name, storage }, at) => {
    if (body.memories.has(name))
      lines.push(`${elementType(storage)} *${body.names.get(name)} = (void *)((char *)scratch + ${offsets[at]});`)
  })
  return lines
}

function tableLine({ name, scalar, values, bytes }: Table): string {
  const items = values.map((value) => (bytes ? String(value & 255) : constantText(CONSTANTS, value, scalar).text))
  return `static const ${bytes ? 'uint8_t' : SCALAR_TYPE[scalar]} ${name}[${values.length}] = {${items.join(', ')}};`
}
