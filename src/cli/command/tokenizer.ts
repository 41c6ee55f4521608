// `ingot tokenizer train`: learns a vocabulary from texts and writes it as a GGUF file without tensors.

import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { printableJson } from '../../base/printable.ts'
import { DEFAULT_SPECIAL, tokenizerMetadata, trainTokenizer } from '../../llm/tokenizer/train.ts'
import { createTokenizer } from '../../llm/tokenizer/tokenizer.ts'
import { PRE_TOKENIZERS } from '../../llm/tokenizer/pretokenize.ts'
import { writeGguf } from '../../weights/gguf/write.ts'
import { Failure } from '../failure.ts'
import { whole } from '../option/number.ts'
import { checkFile } from '../option/shared.ts'
import { checkOutput, openOutput } from '../output/file.ts'
import { showBytes } from '../output/style.ts'

interface TrainFlags {
  readonly vocab: number
  readonly out: string
  readonly pre: string
  readonly force?: true
  readonly json?: true
}

export function define(command: Command): void {
  command
    .command('train')
    .description('learn a byte-level BPE vocabulary from text files')
    .argument('<data...>', 'text files, in UTF-8')
    .requiredOption('-o, --out <file>', 'the GGUF file to write')
    .option('--vocab <n>', 'tokens in all', whole({ least: 1, most: 1 << 20 }), 2048)
    .option('--pre <name>', 'how text is cut into words before merging, by the name in GGUF files', 'gpt-2')
    .option('-f, --force', 'replace an existing file')
    .option('--json', 'print the summary as one JSON object')
    .action(train)
}

async function train(data: readonly string[], { vocab, out, pre, force, json }: TrainFlags): Promise<void> {
  if (!PRE_TOKENIZERS.includes(pre)) throw new Failure(`no such pre-tokenizer: ${pre}; known are ${PRE_TOKENIZERS.join(', ')}`)
  for (const path of data) await checkFile(path)
  const target = await checkOutput(out, { force: force === true, inputs: data })
  const texts = await Promise.all(data.map((path) => readFile(path, 'utf8')))
  const begun = performance.now()
  const trained = trainTokenizer(texts, { vocabulary: vocab, pre, special: DEFAULT_SPECIAL })
  const ms = performance.now() - begun
  const metadata = tokenizerMetadata(trained)
  const bytes = await writeGguf(openOutput(target), {
    metadata: [['general.architecture', { type: 'string', value: 'tokenizer' }], ...metadata],
    tensors: [],
  })
  const tokenizer = createTokenizer(new Map(metadata))
  const size = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  const tokens = texts.reduce((sum, text) => sum + tokenizer.encode(text).length, 0)
  const summary = { out, vocabulary: trained.tokens.length, bytes, ms, bytesPerToken: tokens === 0 ? 0 : size / tokens }
  if (json === true) process.stdout.write(`${printableJson(summary)}\n`)
  else {
    const fewer = trained.tokens.length < vocab ? `; the data has no more pairs than for these, ${vocab} were asked for` : ''
    process.stdout.write(
      `${out}: ${trained.tokens.length} tokens from ${showBytes(size)} in ${(ms / 1000).toFixed(1)} s, ` +
        `${summary.bytesPerToken.toFixed(2)} bytes per token${fewer}\n`,
    )
  }
}
