// Where a run stands, as a GGUF file: parameters, the optimiser's state, and the step. It replaces the last one when it is whole.

import { existsSync } from 'node:fs'
import { openGguf, readTensor } from '../../dist/weights/gguf/gguf.js'
import { metaString } from '../../dist/weights/gguf/meta.js'
import { writeGguf } from '../../dist/weights/gguf/write.js'
import { Tensor } from '../../dist/tensor/tensor.js'

/** @typedef {Readonly<Record<string, Tensor>>} Named */

const ARRAYS = /** @type {const} */ ({ f32: Float32Array, i32: Int32Array })

/** @param {string} path @param {Named} tensors @param {unknown} progress anything that JSON holds */
export async function saveCheckpoint(path, tensors, progress) {
  await writeGguf(path, {
    metadata: [
      ['general.architecture', { type: 'string', value: 'checkpoint' }],
      ['checkpoint.progress', { type: 'string', value: JSON.stringify(progress) }],
    ],
    tensors: Object.entries(tensors).map(([name, tensor]) => {
      const type = tensor.dtype === 'f32' ? 'f32' : 'i32'
      return { name, type, dims: tensor.shape.length === 0 ? [1] : tensor.shape.toReversed(), data: () => tensor.to(type).bytes() }
    }),
  })
}

/** Gives tensors the values of a checkpoint, if there is one; returns its progress. @param {string} path @param {Named} tensors */
export async function loadCheckpoint(path, tensors) {
  if (!existsSync(path)) return undefined
  const file = await openGguf(path)
  for (const [name, tensor] of Object.entries(tensors)) {
    const saved = file.tensors.get(name)
    if (saved === undefined) throw new Error(`${path} has no ${name}`)
    const bytes = await readTensor(saved)
    const values = new ARRAYS[saved.type === 'f32' ? 'f32' : 'i32'](bytes.slice().buffer)
    tensor.assign(Tensor.from(Array.from(values), { dtype: tensor.dtype, device: tensor.device }).reshape(...tensor.shape))
    await tensor.data()
  }
  await file.close()
  return JSON.parse(metaString(file, 'checkpoint.progress'))
}
