// A model after training as a GGUF file: what its file held, with the values that its parameters have now.

import { IngotError } from '../base/error.ts'
import type { Named } from '../nn/optim.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import { readTensor } from '../weights/gguf/gguf.ts'
import { fileTypeOf } from '../weights/gguf/file-type.ts'
import { writeGguf } from '../weights/gguf/write.ts'
import type { ByteSink } from '../weights/sink.ts'

/** Writes a model whose weights learnt, in f32; tensors that did not learn stay as they are. Gives the bytes written. */
export async function writeTrained(to: string | ByteSink, base: Gguf, parameters: Named): Promise<number> {
  const stranger = Object.keys(parameters).find((name) => !base.tensors.has(name))
  if (stranger !== undefined)
    throw new IngotError('unsupported', 'a parameter is a part of a tensor of the file, or none of it', {
      op: 'writeTrained',
      got: stranger,
      hint: 'models with joined matrices (Phi 3) cannot be written yet',
    })
  return writeGguf(to, {
    metadata: new Map(base.metadata).set('general.file_type', { type: 'u32', value: fileTypeOf('f32') }),
    tensors: [...base.tensors.values()].map((tensor) => {
      const { name, dims, type } = tensor
      const learnt = parameters[name]
      return { name, dims, type: learnt === undefined ? type : 'f32', data: () => learnt?.to('f32').bytes() ?? readTensor(tensor) }
    }),
  })
}
