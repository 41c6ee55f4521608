// The architectures Ingot knows, one line each.

import { IngotError } from '../base/error.ts'
import { gemma3 } from './gemma3.ts'
import { llama } from './llama.ts'
import type { Architecture } from './model.ts'
import { phi3 } from './phi3.ts'
import { qwen2 } from './qwen2.ts'
import { qwen3 } from './qwen3.ts'

export const ARCHITECTURES: readonly Architecture[] = [llama, qwen2, qwen3, gemma3, phi3]

/** The architecture of this name, as `general.architecture` of a file gives it. */
export function architectureOf(name: string): Architecture {
  const found = ARCHITECTURES.find(({ names }) => names.includes(name))
  if (found !== undefined) return found
  throw new IngotError('unsupported', 'unknown architecture', {
    op: 'model',
    got: name,
    wanted: `one of ${ARCHITECTURES.flatMap(({ names }) => names).join(', ')}`,
  })
}
