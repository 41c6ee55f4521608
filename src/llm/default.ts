// Choices that `load` makes where the caller makes none. Apart from it, so that describing a file need not load what computes.

import { IngotError } from '../base/error.ts'
import { packageFile } from '../base/place.ts'

/** Tokens a sequence may have, where the model was trained for more. */
export const DEFAULT_CONTEXT = 4096
/** Prompt tokens of one submission. */
export const DEFAULT_CHUNK = 128
/** Bytes that the cache of a default context may take whatever the weights take: more than that of any model so small. */
export const MOST_CACHE = 2 ** 28
/** And as a multiple of the weights: more than that of any large one. */
export const MOST_CACHE_SHARE = 4

/** The model that the package carries, by its path there: a Llama of 3.1 M parameters that tells stories (docs/default-model.md). */
const MODEL = 'models/ingot-tiny.gguf'

/** The path of the model that the package carries. */
export async function defaultModelPath(): Promise<string> {
  const url = packageFile(MODEL)
  if (url.protocol === 'file:') return (await import('node:url')).fileURLToPath(url)
  throw new IngotError('bad-argument', 'there is no file system to read the default model from', {
    op: 'load',
    got: 'no file',
    hint: 'give `load` a source: `fromUrl` or `fromBlob`',
  })
}
