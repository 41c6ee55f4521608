// The rules of a single node: operands, types, arguments and the memory it names, whatever surrounds it. Scopes, order and
// control flow are verify.ts's part. Gives a `Fault` instead of throwing, so that the caller can say where.

import { type DType, type Storage, type Width, isTile, registerOf, scalarOf, storageScalar, vector, widthOf } from '../../base/dtype.ts'
import { type BufferParam, type Kernel, type SharedArray, isShared, memoryOf } from '../kernel.ts'
import { type Node, type NodeOf, changesMemory } from '../node.ts'
import { opRecord } from '../op.ts'
import { NONE } from '../op/arg.ts'

export interface Fault {
  readonly what: string
  readonly got?: unknown
  readonly wanted?: unknown
  readonly hint?: string
}

/** What is wrong with a node, taken alone; undefined if nothing is. */
export function faultOf(node: Node, kernel: Kernel): Fault | undefined {
  const { arity, more = 0, type, arg = NONE } = opRecord(node.op)
  const count = node.src.length
  if (count < arity || count > arity + more) {
    const wanted = more === 0 ? arity : more === Infinity ? `at least ${arity}` : `${arity} to ${arity + more}`
    return { what: 'wrong number of operands', got: count, wanted }
  }
  const ruled = type(
    node.src.map(({ dtype }) => dtype),
    node.arg,
    node.dtype,
  )
  if (typeof ruled !== 'string') return { what: ruled.wrong, hint: 'convert with .to() or .as()' }
  if (ruled !== node.dtype) return { what: 'wrong type', got: node.dtype, wanted: ruled }
  return arg.wrong(node.arg) ?? special(node, kernel)
}

function special(node: Node, kernel: Kernel): Fault | undefined {
  const { dtype } = node
  switch (node.op) {
    case 'const':
      return constant(dtype, Number(node.arg))
    case 'index':
      return node.arg === 'subgroup' || node.arg === 'sublane' ? subgroupFault(kernel) : undefined
    case 'uniform': {
      const found = kernel.params.find(({ kind, name }) => kind === 'uniform' && name === node.arg)
      if (found?.kind !== 'uniform') return { what: 'no such uniform', got: node.arg }
      return found.dtype === dtype ? undefined : { what: 'wrong type of a uniform', got: dtype, wanted: found.dtype }
    }
    case 'table':
      if (dtype !== 'f32' && dtype !== 'i32' && dtype !== 'u32') return { what: 'a table holds f32, i32 or u32', got: dtype }
      return node.arg.map((value) => constant(dtype, value)).find((fault) => fault !== undefined)
    case 'cast':
    case 'bitcast': {
      const [{ dtype: from }] = node.src
      return [dtype, from].some((one) => one === 'void' || isTile(one)) ? { what: 'cannot convert', got: `${from} to ${dtype}` } : undefined
    }
    case 'slice': {
      const last = widthOf(node.src[0].dtype) - widthOf(dtype)
      return node.arg <= last ? undefined : { what: 'slice past the end', got: node.arg, wanted: `at most ${last}` }
    }
    case 'subBroadcast':
    case 'subShuffleXor':
    case 'subShuffleDown':
      return node.arg < Math.max(1, kernel.subgroup)
        ? undefined
        : { what: 'lane is not in the subgroup', got: node.arg, wanted: `0 to ${kernel.subgroup - 1}` }
    case 'load':
      return access(node, kernel, dtype)
    case 'store':
      return access(node, kernel, node.src[1].dtype)
    case 'tileLoad':
      return tileAccess(node, kernel, dtype)
    case 'tileStore':
      return tileAccess(node, kernel, node.src[2].dtype)
    case 'atomic':
      return atomic(node, kernel)
    case 'let':
    case 'var':
    case 'set':
      return node.src[0].dtype === 'void' ? { what: 'a statement is no value', got: node.src[0].op } : undefined
    case 'breakIf':
      return condition(node.src[0])
    case 'if':
      return condition(node.src[0]) ?? blocks(node.src.slice(1), 'a branch must be a block')
    case 'for':
      return loopBounds(node) ?? blocks([node.src[3]], 'a for needs a block')
    case 'loop':
      return blocks([node.src[0]], 'a loop needs a block')
    default:
      return undefined
  }
}

function constant(dtype: DType, value: number): Fault | undefined {
  const limits = { i32: [-(2 ** 31), 2 ** 31], u32: [0, 2 ** 32], bool: [0, 2] } as const
  if (dtype === 'f32' || dtype === 'f16' || dtype === 'f64') return undefined
  if (dtype !== 'i32' && dtype !== 'u32' && dtype !== 'bool') {
    return { what: 'no constants of this type', got: dtype, wanted: 'a scalar' }
  }
  const [low, high] = limits[dtype]
  return Number.isInteger(value) && value >= low && value < high
    ? undefined
    : { what: 'constant does not fit its type', got: value, wanted: dtype }
}

/** What keeps a kernel from using subgroups. */
export function subgroupFault({ subgroup, workgroup: [x, y, z] }: Kernel): Fault | undefined {
  if (subgroup === 0) return { what: 'the kernel states no subgroup size', hint: 'give kernel() a `subgroup`' }
  const lanes = x * y * z
  return lanes % subgroup === 0 ? undefined : { what: 'lanes do not fill whole subgroups', got: lanes, wanted: `a multiple of ${subgroup}` }
}

type Accessing = NodeOf<'load' | 'store' | 'atomic' | 'tileLoad' | 'tileStore'>

/** The memory that a node names, if it may do with it what it does. */
function find(node: Accessing, kernel: Kernel): BufferParam | SharedArray | Fault {
  const { mem } = node.arg
  const memory = memoryOf(kernel, mem)
  if (memory === undefined) {
    return { what: 'no such memory', got: mem, wanted: [...kernel.params, ...kernel.shared].map(({ name }) => name).join(', ') }
  }
  if (isShared(memory)) return memory
  const writes = changesMemory(node)
  if (writes && memory.role === 'read') return { what: `${mem} is only for reading`, hint: "declare it 'readwrite'" }
  if (!writes && memory.role === 'write') return { what: `${mem} is only for writing`, hint: "declare it 'readwrite'" }
  return memory
}

/** f16 memory may also be read into and written from f32, which rounds. */
function fits(dtype: DType, wanted: DType): boolean {
  return dtype === wanted || (scalarOf(wanted) === 'f16' && !isTile(wanted) && dtype === vector('f32', widthOf(wanted)))
}

function access(node: NodeOf<'load' | 'store'>, kernel: Kernel, dtype: DType): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  const [index] = node.src
  if (index.dtype !== 'u32') return { what: 'wrong type of an index', got: index.dtype, wanted: 'u32' }
  const wanted = elementType(memory.storage, node.arg.width)
  if (typeof wanted !== 'string') return wanted
  return fits(dtype, wanted)
    ? undefined
    : { what: `${memory.name} holds ${memory.storage}`, got: dtype, wanted, hint: 'convert with .to() or .as()' }
}

function elementType(storage: Storage, width: Width | undefined): DType | Fault {
  if (width === undefined) return registerOf(storage)
  if (widthOf(storage) !== 1) return { what: 'a width works on memory of scalars', got: storage }
  return vector(scalarOf(registerOf(storage)), width)
}

function tileAccess(node: NodeOf<'tileLoad' | 'tileStore'>, kernel: Kernel, dtype: DType): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  const { storage } = memory
  if (storage !== 'f32' && storage !== 'f16') return { what: 'tiles live in f32 and f16 memory', got: storage }
  const [index, row] = node.src
  if (index.dtype !== 'u32' || row.dtype !== 'u32') return { what: 'index and row length must be u32' }
  return dtype === `${storage}t` || (dtype === 'f32t' && storage === 'f16')
    ? undefined
    : { what: `${memory.name} holds ${storage}`, got: dtype, wanted: `${storage}t` }
}

function atomic(node: NodeOf<'atomic'>, kernel: Kernel): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  const scalar = storageScalar(memory.storage)
  if (memory.storage !== 'i32' && memory.storage !== 'u32') {
    return { what: 'atomics work on i32 and u32 memory', got: memory.storage }
  }
  if (!memory.atomic) return { what: `${memory.name} is not marked atomic` }
  const [, value] = node.src
  return value.dtype === scalar && node.dtype === scalar
    ? undefined
    : { what: 'wrong type of an atomic', got: `${value.dtype} -> ${node.dtype}`, wanted: scalar }
}

function condition({ dtype }: Node): Fault | undefined {
  return dtype === 'bool' ? undefined : { what: 'wrong type of a condition', got: dtype, wanted: 'bool' }
}

function blocks(nodes: readonly Node[], what: string): Fault | undefined {
  const other = nodes.find(({ op }) => op !== 'block')
  return other === undefined ? undefined : { what, got: other.op }
}

function loopBounds({ src: [from, to, step] }: NodeOf<'for'>): Fault | undefined {
  const types = [from, to, step].map(({ dtype }) => dtype)
  if (types.some((dtype) => dtype !== 'u32')) return { what: 'bounds must be u32', got: types.join(', ') }
  return step.op === 'const' && !(Number(step.arg) > 0) ? { what: 'step must be above 0', got: step.arg } : undefined
}
