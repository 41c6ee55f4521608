// ONNX models as bytes, as far as single operations need them: the fields of onnx.proto3 that a graph of a few nodes has.

/**
 * @typedef {{ type: string, inputs: string[], outputs: string[], attributes?: Record<string, number | number[]>, domain?: string }} Node
 * @typedef {{ name: string, shape: readonly number[], type?: number }} Value
 * @typedef {{ name: string, shape: readonly number[], data: Float32Array | BigInt64Array }} Constant
 */

const OPSET = 18
const IR_VERSION = 9
export const FLOAT = 1
export const INT64 = 7
/** kinds of attributes */
const [ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_INTS] = [1, 2, 7]

/** @param {number | bigint} value */
function varint(value) {
  const bytes = []
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Uint8Array.of(...bytes, Number(rest))
}

/** @param {readonly Uint8Array[]} parts */
function join(parts) {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** @param {number} field @param {number} value */
const number = (field, value) => join([varint(field << 3), varint(value)])
/** @param {number} field @param {readonly Uint8Array[]} parts */
const message = (field, ...parts) => {
  const body = join(parts)
  return join([varint((field << 3) | 2), varint(body.length), body])
}
/** @param {number} field @param {string} value */
const text = (field, value) => message(field, new TextEncoder().encode(value))
/** @param {number} field @param {number} value */
const float = (field, value) => join([varint((field << 3) | 5), new Uint8Array(Float32Array.of(value).buffer)])

/** AttributeProto @param {[string, number | number[]]} attribute */
function attributeBytes([name, value]) {
  if (Array.isArray(value)) return message(5, text(1, name), ...value.map((each) => number(8, each)), number(20, ATTRIBUTE_INTS))
  return Number.isInteger(value)
    ? message(5, text(1, name), number(3, value), number(20, ATTRIBUTE_INT))
    : message(5, text(1, name), float(2, value), number(20, ATTRIBUTE_FLOAT))
}

/** NodeProto @param {Node} node */
function nodeBytes({ type, inputs, outputs, attributes = {}, domain }) {
  return message(
    1,
    ...inputs.map((name) => text(1, name)),
    ...outputs.map((name) => text(2, name)),
    text(4, type),
    ...Object.entries(attributes).map(attributeBytes),
    ...(domain === undefined ? [] : [text(7, domain)]),
  )
}

/** TensorProto @param {Constant} constant */
function constantBytes({ name, shape, data }) {
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  const type = data instanceof Float32Array ? FLOAT : INT64
  return message(5, ...shape.map((size) => number(1, size)), number(2, type), text(8, name), message(9, raw))
}

/** ValueInfoProto @param {number} field @param {Value} value */
function valueBytes(field, { name, shape, type = FLOAT }) {
  const dimensions = shape.map((size) => message(1, number(1, size)))
  return message(field, text(1, name), message(2, message(1, number(1, type), message(2, ...dimensions))))
}

/** @param {{ nodes: Node[], inputs: Value[], outputs: Value[], constants?: Constant[] }} graph */
export function modelBytes({ nodes, inputs, outputs, constants = [] }) {
  const graph = message(
    7,
    ...nodes.map(nodeBytes),
    text(2, 'operation'),
    ...constants.map(constantBytes),
    ...inputs.map((value) => valueBytes(11, value)),
    ...outputs.map((value) => valueBytes(12, value)),
  )
  return join([number(1, IR_VERSION), graph, message(8, number(2, OPSET))])
}
