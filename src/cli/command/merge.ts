// `ingot merge`: puts an adapter into the weights of its base, as one model file.

import type { Command } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { mergeAdapter } from '../../llm/merge.ts'
import { WRITABLE } from '../../llm/quantize.ts'
import type { GgmlType } from '../../quant/type.ts'
import { openGguf } from '../../weights/gguf/gguf.ts'
import { Failure } from '../failure.ts'
import { watchInterruption } from '../interruption.ts'
import { adapterChoice, checkFile } from '../option/shared.ts'
import { typeName } from '../option/type-name.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { showProgress } from '../output/progress.ts'
import { showBytes } from '../output/style.ts'

interface MergeFlags {
  readonly type: GgmlType
  readonly outputType?: GgmlType
  readonly force?: true
  readonly json?: true
}

export function define(command: Command): void {
  command
    .argument('<base>', 'the GGUF file that the adapter is for')
    .argument('<adapter>', 'a GGUF file or a folder of PEFT; FILE:SCALE for more or less of it')
    .argument('<out>', 'the file to write')
    .option('-t, --type <type>', `weight format: ${WRITABLE.join(', ')}`, typeName(WRITABLE), 'f16')
    .option('--output-type <type>', 'format of the output layer (default: as --type)', typeName(WRITABLE))
    .option('-f, --force', 'replace an existing file')
    .option('--json', 'print the summary as one JSON object')
    .action(merge)
}

async function merge(base: string, adapter: string, output: string, flags: MergeFlags): Promise<void> {
  await checkFile(base)
  const { path, scale = 1 } = adapterChoice(adapter)
  const interruption = watchInterruption()
  const bar = showProgress('merging')
  const begun = performance.now()
  try {
    await using model = await openGguf(base)
    const inputs = [base, path, ...model.files.flatMap((file) => file.path ?? [])]
    const target = await checkOutput(output, { force: flags.force === true, inputs })
    const result = await mergeAdapter(model, path, openOutput(target), {
      type: flags.type,
      ...(flags.outputType === undefined ? {} : { outputType: flags.outputType }),
      scale,
      signal: interruption.signal,
      onProgress: ({ written, total }) => bar.update(written, total),
    })
    bar.end()
    const ms = performance.now() - begun
    if (flags.json === true) process.stdout.write(`${printableJson({ base, adapter: path, scale, out: output, ...result, ms })}\n`)
    else process.stdout.write(`${output}: ${showBytes(result.bytesAfter)} of ${flags.type} in ${(ms / 1000).toFixed(1)} s\n`)
  } catch (error) {
    if (!interruption.signal.aborted) throw error
    throw new Failure('interrupted; nothing was written', 130)
  } finally {
    bar.end()
    interruption[Symbol.dispose]()
  }
}
