// An adapter from wherever it lies: a GGUF file, or a folder of PEFT, whose rows only the base explains.

import type { DeviceChoice } from '../../tensor/default-device.ts'
import { metaString } from '../../weights/gguf/meta.ts'
import type { Gguf } from '../../weights/gguf/gguf.ts'
import type { ByteSource } from '../../weights/source.ts'
import { readCount } from '../model-source.ts'
import type { AdapterSet } from './adapter.ts'
import { readAdapterGguf } from './gguf.ts'
import { type AdapterBase, readPeft } from './peft.ts'

/** What a folder of PEFT needs to know of its base. */
export function adapterBase(base: Gguf): AdapterBase {
  const architecture = metaString(base, 'general.architecture')
  const heads = readCount(base, `${architecture}.attention.head_count`)
  return { architecture, heads, kvHeads: readCount(base, `${architecture}.attention.head_count_kv`, { otherwise: heads }) }
}

/** Reads an adapter for a base. A source is closed. */
export async function readAdapter(
  from: string | ByteSource,
  base: Gguf,
  options: { readonly device?: DeviceChoice } = {},
): Promise<AdapterSet> {
  if (typeof from !== 'string') return readAdapterGguf(from, options)
  const { stat } = await import('node:fs/promises')
  const found = await stat(from).catch(() => undefined)
  return found?.isDirectory() === true ? readPeft(from, adapterBase(base), options) : readAdapterGguf(from, options)
}
