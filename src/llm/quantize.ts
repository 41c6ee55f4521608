// Writes a model in another weight format, tensor by tensor and in pieces of rows, so that it needs little memory. Norms, biases and
// other small tensors become f32; what is no weight at all is copied. Knows nothing of terminals.

import { decodeElements } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import type { Device } from '../device/device.ts'
import { open } from '../device/open/open.ts'
import { runFamily } from '../device/open/run-family.ts'
import { dequantize } from '../kernel/linear/dequantize.ts'
import { FORMATS, formatOf } from '../quant/index.ts'
import { GGML_TYPES, type GgmlType, tensorBytes } from '../quant/type.ts'
import { QUANTIZATION_VERSION, fileTypeOf } from '../weights/gguf/file-type.ts'
import type { Gguf } from '../weights/gguf/gguf.ts'
import type { GgufTensor } from '../weights/gguf/header.ts'
import type { MetaValue } from '../weights/gguf/meta.ts'
import { type WriteOptions, writeGguf } from '../weights/gguf/write.ts'
import type { ByteSink } from '../weights/sink.ts'

export interface QuantizeOptions extends WriteOptions {
  readonly type: GgmlType
  /** of the output layer (the embedding, where it serves as both); default: `type` */
  readonly outputType?: GgmlType
  /** what some tensors hold instead of what the file has; others are as they were */
  readonly change?: (tensor: GgufTensor) => RowChange | undefined
  /** on which formats in blocks are decoded (default: one of its own) */
  readonly device?: Device
}

/** Gives the values of rows [from, from + count) of a tensor; `read` gives those that the file has. */
export type RowChange = (from: number, count: number, read: () => Promise<Float32Array>) => Promise<Float32Array>

export interface QuantizeResult {
  readonly bytesBefore: number
  readonly bytesAfter: number
  /** tensors by the type they now have */
  readonly tensors: Readonly<Record<string, number>>
  /** what was not done as asked, and why */
  readonly notes: readonly string[]
}

/** The formats that Ingot writes. */
export const WRITABLE: readonly GgmlType[] = FORMATS.filter(({ encode }) => encode !== undefined).map(({ name }) => name)

/** Weights of one piece: large enough to hide the overhead, small enough for any machine. */
const PIECE = 1 << 20
/** What a row that does not hold whole blocks becomes instead, as in llama.cpp. */
const INSTEAD: Partial<Record<GgmlType, GgmlType>> = { q4_k: 'q5_0', q5_k: 'q5_1', q6_k: 'q8_0' }
/** Small matrices that decide much: routers of experts, convolutions of state-space models, mixing coefficients. */
const DELICATE = /(^|\.)(ffn_gate_inp\w*|ssm_conv1d|time_mix_\w+|position_embd|token_types|altup\w*|laurel\w*)\.weight$|norm/

export async function quantizeModel(from: Gguf, to: string | ByteSink, options: QuantizeOptions): Promise<QuantizeResult> {
  const { type, outputType = type } = options
  for (const wanted of [type, outputType]) {
    if (WRITABLE.includes(wanted)) continue
    throw new IngotError('unsupported', 'this format cannot be written', {
      op: 'quantize',
      got: wanted,
      wanted: `one of ${WRITABLE.join(', ')}`,
    })
  }
  const notes: string[] = []
  const output = from.tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight'
  const conversions = [...from.tensors.values()].map((tensor) => ({
    tensor,
    type: chooseType(tensor, tensor.name === output ? outputType : type, notes),
  }))
  const lossy = conversions.filter(({ tensor, type: own }) => own !== tensor.type && GGML_TYPES[tensor.type].block > 1 && own !== 'f32')
  if (lossy.length > 0)
    notes.push(
      `${lossy.length} tensors were quantised before (${unique(lossy.map(({ tensor }) => tensor.type))}): better start from f16 or f32`,
    )
  let opened: Promise<Device> | undefined
  const decoder = async (): Promise<Device> => options.device ?? (opened ??= open('cpu').then(({ device }) => device))
  try {
    const bytesAfter = await writeGguf(
      to,
      {
        version: from.version,
        metadata: metadataFor(from, type),
        tensors: conversions.map(({ tensor, type: own }) => ({
          name: tensor.name,
          type: own,
          dims: tensor.dims,
          data: () => {
            const change = options.change?.(tensor)
            return own === tensor.type && change === undefined ? copy(tensor) : convert(tensor, own, decoder, change)
          },
        })),
      },
      options,
    )
    const tensors: Record<string, number> = {}
    for (const { type: own } of conversions) tensors[own] = (tensors[own] ?? 0) + 1
    return { bytesBefore: from.files.reduce((sum, { size }) => sum + size, 0), bytesAfter, tensors, notes }
  } finally {
    await (await opened)?.close()
  }
}

/** The type that a tensor gets: the wanted one where it can have it; else notes why not. */
function chooseType({ name, type, dims }: GgufTensor, wanted: GgmlType, notes: string[]): GgmlType {
  const readable = FORMATS.some((format) => format.name === type)
  const [row = 1, rows = 1] = dims
  if (!readable) {
    if (!/^[if]\d+$/.test(type)) notes.push(`${name} stays ${type}: Ingot does not read that format`)
    return type
  }
  if (rows === 1 || !name.endsWith('.weight') || DELICATE.test(name)) return 'f32'
  let fitting = wanted
  if (row % GGML_TYPES[fitting].block !== 0) fitting = INSTEAD[fitting] ?? 'f16'
  if (row % GGML_TYPES[fitting].block !== 0) fitting = 'f16'
  if (fitting !== wanted) notes.push(`${name} becomes ${fitting}: rows of ${row} do not hold whole blocks of ${wanted}`)
  return fitting
}

/** The file's metadata with the new type in it. Of a split model one file is made. */
function metadataFor({ metadata }: Gguf, type: GgmlType): Map<string, MetaValue> {
  const copied = new Map([...metadata].filter(([key]) => !key.startsWith('split.')))
  copied.set('general.file_type', { type: 'u32', value: fileTypeOf(type) })
  copied.set('general.quantization_version', { type: 'u32', value: QUANTIZATION_VERSION })
  return copied
}

async function* copy(tensor: GgufTensor): AsyncGenerator<Uint8Array> {
  const piece = 4 * PIECE
  for (let at = 0; at < tensor.bytes; at += piece) yield await tensor.file.read(tensor.offset + at, Math.min(piece, tensor.bytes - at))
}

async function* convert(
  tensor: GgufTensor,
  type: GgmlType,
  device: () => Promise<Device>,
  change: RowChange = (_from, _count, read) => read(),
): AsyncGenerator<Uint8Array> {
  const { encode } = formatOf(type)
  if (encode === undefined) throw new IngotError('unsupported', 'this format cannot be written', { op: 'quantize', got: type })
  const row = tensor.dims[0] ?? 1
  const rows = tensor.elements / row
  const rowBytes = tensorBytes(tensor.type, [row])
  const each = Math.max(1, Math.floor(PIECE / row))
  for (let at = 0; at < rows; at += each) {
    const count = Math.min(each, rows - at)
    const read = async (): Promise<Float32Array> =>
      decode(tensor.type, await tensor.file.read(tensor.offset + at * rowBytes, count * rowBytes), count * row, device)
    yield encode(await change(at, count, read))
  }
}

/** Formats of single elements are read here; blocks by the kernel that gives their meaning everywhere. */
async function decode(type: GgmlType, bytes: Uint8Array, elements: number, device: () => Promise<Device>): Promise<Float32Array> {
  if (type === 'f32' || type === 'f16' || type === 'bf16') return decodeElements(type, bytes, elements)
  const { y } = await runFamily(await device(), dequantize, { format: type, elements }, { w: bytes })
  if (!(y instanceof Float32Array)) throw new IngotError('wrong-result', 'no floats came back', { op: 'quantize', got: type })
  return y
}

function unique(names: readonly string[]): string {
  return [...new Set(names)].join(', ')
}
