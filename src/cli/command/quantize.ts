// `ingot quantize`: writes a model file in another weight format. The new file appears when it is complete.

import type { Command } from 'commander'
import { printable, printableJson } from '../../base/printable.ts'
import { type QuantizeResult, WRITABLE, quantizeModel } from '../../llm/quantize.ts'
import type { GgmlType } from '../../quant/type.ts'
import { openGguf } from '../../weights/gguf/gguf.ts'
import { checkFile, defined } from '../option/shared.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { type WriteFlags, addWriteOptions, writeWithBar } from '../output/model.ts'
import { showBytes } from '../output/style.ts'
import { typeName } from '../option/type-name.ts'

interface QuantizeFlags extends WriteFlags {
  readonly type: GgmlType
  readonly outputType?: GgmlType
}

export function define(command: Command): void {
  command
    .argument('<in>', 'a GGUF file; any part of a split one')
    .argument('<out>', 'the file to write')
    .requiredOption('-t, --type <type>', `weight format: ${WRITABLE.join(', ')}`, typeName(WRITABLE))
    .option('--output-type <type>', 'format of the output layer, which q6_k keeps more precise (default: as --type)', typeName(WRITABLE))
  addWriteOptions(command).action(quantize)
}

async function quantize(input: string, output: string, flags: QuantizeFlags): Promise<void> {
  await checkFile(input)
  const { type, outputType, force, json } = flags
  const { result, ms } = await writeWithBar('quantizing', async (watch) => {
    await using model = await openGguf(input)
    const inputs = [input, ...model.files.flatMap(({ path }) => path ?? [])]
    const target = await checkOutput(output, { force: force === true, inputs })
    return await quantizeModel(model, openOutput(target), { type, ...defined({ outputType }), ...watch })
  })
  if (json === true) process.stdout.write(`${printableJson({ in: input, out: output, type, ...result, ms })}\n`)
  else describe(output, result, ms)
}

const NOTES_SHOWN = 4

function describe(output: string, { bytesBefore, bytesAfter, tensors, notes }: QuantizeResult, ms: number): void {
  const counts = Object.entries(tensors)
    .map(([type, count]) => `${count} ${type}`)
    .join(', ')
  process.stdout.write(
    `${output}: ${showBytes(bytesBefore)} -> ${showBytes(bytesAfter)} in ${(ms / 1000).toFixed(1)} s; tensors: ${counts}\n`,
  )
  for (const note of notes.slice(0, NOTES_SHOWN)) process.stderr.write(`note: ${printable(note)}\n`)
  if (notes.length > NOTES_SHOWN) process.stderr.write(`note: ${notes.length - NOTES_SHOWN} more like these; --json lists them\n`)
}
