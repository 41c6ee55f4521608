// `ingot synth`: writes a model file with random weights, of a known or a given shape, for benchmarks.

import { type Command, InvalidArgumentError } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { isIngotError } from '../../base/error.ts'
import type { GgmlType } from '../../quant/type.ts'
import type { LlamaShape } from '../../weights/synth/llama.ts'
import { SHAPES, checkShape, synthesize } from '../../weights/synth/synth.ts'
import { SYNTHETIC } from '../../weights/synth/block.ts'
import { whole } from '../option/number.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { type WriteFlags, addWriteOptions, writeWithBar } from '../output/model.ts'
import { showBytes } from '../output/style.ts'
import { typeName } from '../option/type-name.ts'

interface SynthFlags extends WriteFlags {
  readonly shape: { readonly name: string; readonly sizes: LlamaShape }
  readonly type: GgmlType
  readonly seed: number
  readonly ctx: number
}

export function define(command: Command): void {
  command
    .argument('<out>', 'the GGUF file to write')
    .requiredOption('--shape <shape>', `${Object.keys(SHAPES).join(', ')}, or width,layers,heads,kv-heads,hidden,vocabulary`, readShape)
    .requiredOption('-t, --type <type>', `weight format: ${SYNTHETIC.join(', ')}`, typeName(SYNTHETIC))
    .option('-s, --seed <n>', 'the same seed gives the same file', whole({ least: 0, most: 0xffffffff }), 1)
    .option('--ctx <n>', 'context length that the file states, in tokens', whole({ least: 1, most: 1 << 24 }), 2048)
  addWriteOptions(command).action(synth)
}

function readShape(text: string): SynthFlags['shape'] {
  const known = SHAPES[text.toLowerCase()]
  if (known !== undefined) return { name: text.toLowerCase(), sizes: known }
  const parts = text.split(',').map((part) => (/^\s*\d+\s*$/.test(part) ? Number(part) : NaN))
  const [width = NaN, layers = NaN, heads = NaN, kvHeads = NaN, hidden = NaN, vocabulary = NaN] = parts
  if (parts.length !== 6 || parts.some(Number.isNaN)) {
    throw new InvalidArgumentError(
      `It must be ${Object.keys(SHAPES).join(' or ')}, or six whole numbers: width,layers,heads,kv-heads,hidden,vocabulary.`,
    )
  }
  const sizes = { width, layers, heads, kvHeads, hidden, vocabulary }
  try {
    checkShape(sizes)
  } catch (error) {
    if (isIngotError(error)) throw new InvalidArgumentError(error.message)
    throw error
  }
  return { name: parts.join('x'), sizes }
}

async function synth(output: string, { shape, type, seed, ctx, force, json }: SynthFlags): Promise<void> {
  const target = await checkOutput(output, { force: force === true })
  const name = `synth-${shape.name}-${type}`
  const { result, ms } = await writeWithBar('writing', (watch) =>
    synthesize(openOutput(target), { shape: shape.sizes, type, seed, contextLength: ctx, name, ...watch }),
  )
  if (json === true) process.stdout.write(`${printableJson({ out: output, shape: shape.sizes, type, seed, ...result, ms })}\n`)
  else
    process.stdout.write(
      `${output}: ${millions(result.parameters)} random parameters, ${type}, ${showBytes(result.bytes)} in ${(ms / 1000).toFixed(1)} s\n`,
    )
}

function millions(count: number): string {
  return `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} M`
}
