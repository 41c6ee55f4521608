// `ingot merge`: puts an adapter into the weights of its base, as one model file.

import type { Command } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { mergeAdapter } from '../../llm/merge.ts'
import { WRITABLE } from '../../llm/quantize.ts'
import type { GgmlType } from '../../quant/type.ts'
import { openGguf } from '../../weights/gguf/gguf.ts'
import { adapterChoice, checkFile, defined } from '../option/shared.ts'
import { typeName } from '../option/type-name.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { type WriteFlags, addWriteOptions, writeWithBar } from '../output/model.ts'
import { showBytes } from '../output/style.ts'

interface MergeFlags extends WriteFlags {
  readonly type: GgmlType
  readonly outputType?: GgmlType
}

export function define(command: Command): void {
  command
    .argument('<base>', 'the GGUF file that the adapter is for')
    .argument('<adapter>', 'a GGUF file or a folder of PEFT; FILE:SCALE for more or less of it')
    .argument('<out>', 'the file to write')
    .option('-t, --type <type>', `weight format: ${WRITABLE.join(', ')}`, typeName(WRITABLE), 'f16')
    .option('--output-type <type>', 'format of the output layer (default: as --type)', typeName(WRITABLE))
  addWriteOptions(command).action(merge)
}

async function merge(base: string, adapter: string, output: string, flags: MergeFlags): Promise<void> {
  await checkFile(base)
  const { path, scale = 1 } = adapterChoice(adapter)
  const { type, outputType, force, json } = flags
  const { result, ms } = await writeWithBar('merging', async (watch) => {
    await using model = await openGguf(base)
    const inputs = [base, path, ...model.files.flatMap((file) => file.path ?? [])]
    const target = await checkOutput(output, { force: force === true, inputs })
    return await mergeAdapter(model, path, openOutput(target), { type, ...defined({ outputType }), scale, ...watch })
  })
  if (json === true) process.stdout.write(`${printableJson({ base, adapter: path, scale, out: output, ...result, ms })}\n`)
  else process.stdout.write(`${output}: ${showBytes(result.bytesAfter)} of ${type} in ${(ms / 1000).toFixed(1)} s\n`)
}
