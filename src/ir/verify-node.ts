// The rules of a single node: operands, types, arguments and the memory it names, whatever surrounds it. Scopes, order and
// control flow are verify.ts's part. Gives a `Fault` instead of throwing, so that the caller can say where.

import {
  type DType,
  type Storage,
  type Width,
  WIDTHS,
  isTile,
  registerOf,
  scalarOf,
  storageScalar,
  vector,
  widthOf,
} from '../base/dtype.ts'
import { type BufferParam, type Kernel, type SharedArray, isShared, memoryOf } from './kernel.ts'
import type { Node } from './node.ts'
import { ATOMICS, type Arg, INDICES, opRecord } from './op.ts'

export interface Fault {
  readonly what: string
  readonly got?: unknown
  readonly wanted?: unknown
  readonly hint?: string
}

/** What is wrong with a node, taken alone; undefined if nothing is. */
export function faultOf(node: Node, kernel: Kernel): Fault | undefined {
  const { arity, type } = opRecord(node.op)
  if (arity >= 0 && node.src.length !== arity) {
    return { what: 'wrong number of operands', got: node.src.length, wanted: arity }
  }
  const ruled = type(
    node.src.map(({ dtype }) => dtype),
    node.arg,
    node.dtype,
  )
  if (typeof ruled !== 'string') return { what: ruled.wrong, hint: 'convert with .to() or .as()' }
  if (ruled !== node.dtype) return { what: 'wrong type', got: node.dtype, wanted: ruled }
  return special(node, kernel)
}

function special(node: Node, kernel: Kernel): Fault | undefined {
  const { op, arg, dtype } = node
  const [first, second] = node.src
  switch (op) {
    case 'const':
      return constant(dtype, arg)
    case 'index':
      return index(arg, kernel)
    case 'uniform': {
      const found = kernel.params.find(({ kind, name }) => kind === 'uniform' && name === arg)
      if (found?.kind !== 'uniform') return { what: 'no such uniform', got: arg }
      return found.dtype === dtype ? undefined : { what: 'wrong type of a uniform', got: dtype, wanted: found.dtype }
    }
    case 'table':
      if (!isNumbers(arg) || arg.length === 0) return { what: 'a table needs numbers', got: arg }
      if (dtype !== 'f32' && dtype !== 'i32' && dtype !== 'u32') return { what: 'a table holds f32, i32 or u32', got: dtype }
      return arg.map((value) => constant(dtype, value)).find((fault) => fault !== undefined)
    case 'lookup16':
      return isNumbers(arg) && arg.length === 16 && arg.every((value) => Number.isInteger(value) && value >= -128 && value < 256)
        ? undefined
        : { what: 'bad table', got: arg, wanted: '16 bytes' }
    case 'cast':
    case 'bitcast':
      return [dtype, first?.dtype].some((one) => one === undefined || one === 'void' || isTile(one))
        ? { what: 'cannot convert', got: `${first?.dtype} to ${dtype}` }
        : undefined
    case 'slice':
      return isCount(arg) && first !== undefined && arg + widthOf(dtype) <= widthOf(first.dtype)
        ? undefined
        : { what: 'slice past the end', got: arg, wanted: `at most ${first === undefined ? 0 : widthOf(first.dtype) - widthOf(dtype)}` }
    case 'subBroadcast':
    case 'subShuffleXor':
    case 'subShuffleDown':
      return isCount(arg) && arg < Math.max(1, kernel.subgroup)
        ? undefined
        : { what: 'lane is not in the subgroup', got: arg, wanted: `0 to ${kernel.subgroup - 1}` }
    case 'load':
    case 'store':
      return access(node, kernel, op === 'load' ? dtype : (second?.dtype ?? 'void'))
    case 'tileLoad':
    case 'tileStore':
      return tileAccess(node, kernel)
    case 'atomic':
      return atomic(node, kernel)
    case 'let':
    case 'var':
    case 'set':
      return first?.dtype === 'void' ? { what: 'a statement is no value', got: first.op } : undefined
    case 'breakIf':
      return first?.dtype === 'bool' ? undefined : { what: 'wrong type of a condition', got: first?.dtype, wanted: 'bool' }
    case 'if':
      return condition(node)
    case 'for':
      return loopBounds(node)
    case 'loop':
      return first?.op === 'block' ? undefined : { what: 'a loop needs a block', got: first?.op }
    case 'barrier':
      return arg === 'workgroup' || arg === 'subgroup' ? undefined : { what: 'unknown barrier', got: arg, wanted: 'workgroup or subgroup' }
    default:
      return undefined
  }
}

function isNumbers(arg: Arg): arg is readonly number[] {
  return Array.isArray(arg) && arg.every((value) => typeof value === 'number')
}

function isCount(arg: Arg): arg is number {
  return typeof arg === 'number' && Number.isInteger(arg) && arg >= 0
}

function constant(dtype: DType, arg: Arg): Fault | undefined {
  if (typeof arg !== 'number' && typeof arg !== 'boolean') return { what: 'a constant needs a number', got: arg }
  const value = Number(arg)
  const limits = { i32: [-(2 ** 31), 2 ** 31], u32: [0, 2 ** 32], bool: [0, 2] } as const
  if (dtype === 'f32' || dtype === 'f16') return undefined
  if (dtype !== 'i32' && dtype !== 'u32' && dtype !== 'bool') {
    return { what: 'no constants of this type', got: dtype, wanted: 'a scalar' }
  }
  const [low, high] = limits[dtype]
  return Number.isInteger(value) && value >= low && value < high
    ? undefined
    : { what: 'constant does not fit its type', got: value, wanted: dtype }
}

function index(arg: Arg, kernel: Kernel): Fault | undefined {
  if (!(INDICES as readonly unknown[]).includes(arg)) return { what: 'unknown index', got: arg, wanted: INDICES.join(', ') }
  return arg === 'subgroup' || arg === 'sublane' ? subgroupFault(kernel) : undefined
}

/** What keeps a kernel from using subgroups. */
export function subgroupFault({ subgroup, workgroup: [x, y, z] }: Kernel): Fault | undefined {
  if (subgroup === 0) return { what: 'the kernel states no subgroup size', hint: 'give kernel() a `subgroup`' }
  const lanes = x * y * z
  return lanes % subgroup === 0 ? undefined : { what: 'lanes do not fill whole subgroups', got: lanes, wanted: `a multiple of ${subgroup}` }
}

interface MemoryArg {
  readonly mem: string
  readonly width?: Width
  readonly kind?: string
}

function find(node: Node, kernel: Kernel): BufferParam | SharedArray | Fault {
  const { mem } = (node.arg ?? {}) as Partial<MemoryArg>
  const memory = mem === undefined ? undefined : memoryOf(kernel, mem)
  if (memory === undefined) {
    return { what: 'no such memory', got: mem, wanted: [...kernel.params, ...kernel.shared].map(({ name }) => name).join(', ') }
  }
  if (isShared(memory)) return memory
  const writes = node.op === 'store' || node.op === 'tileStore' || node.op === 'atomic'
  if (writes && memory.role === 'read') return { what: `${mem} is only for reading`, hint: "declare it 'readwrite'" }
  if (!writes && memory.role === 'write') return { what: `${mem} is only for writing`, hint: "declare it 'readwrite'" }
  return memory
}

/** f16 memory may also be read into and written from f32, which rounds. */
function fits(dtype: DType, wanted: DType): boolean {
  return dtype === wanted || (scalarOf(wanted) === 'f16' && !isTile(wanted) && dtype === vector('f32', widthOf(wanted)))
}

function access(node: Node, kernel: Kernel, dtype: DType): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  if (node.src[0]?.dtype !== 'u32') return { what: 'wrong type of an index', got: node.src[0]?.dtype, wanted: 'u32' }
  const { width } = node.arg as unknown as MemoryArg
  const wanted = elementType(memory.storage, width)
  if (typeof wanted !== 'string') return wanted
  return fits(dtype, wanted)
    ? undefined
    : { what: `${memory.name} holds ${memory.storage}`, got: dtype, wanted, hint: 'convert with .to() or .as()' }
}

function elementType(storage: Storage, width: Width | undefined): DType | Fault {
  if (width === undefined) return registerOf(storage)
  if (widthOf(storage) !== 1) return { what: 'a width works on memory of scalars', got: storage }
  if (!(WIDTHS as readonly number[]).includes(width)) return { what: 'bad width', got: width, wanted: WIDTHS.join(', ') }
  return vector(scalarOf(registerOf(storage)), width)
}

function tileAccess(node: Node, kernel: Kernel): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  const { storage } = memory
  if (storage !== 'f32' && storage !== 'f16') return { what: 'tiles live in f32 and f16 memory', got: storage }
  if (node.src[0]?.dtype !== 'u32' || node.src[1]?.dtype !== 'u32') return { what: 'index and row length must be u32' }
  const dtype = node.op === 'tileLoad' ? node.dtype : node.src[2]?.dtype
  return dtype === `${storage}t` || (dtype === 'f32t' && storage === 'f16')
    ? undefined
    : { what: `${memory.name} holds ${storage}`, got: dtype, wanted: `${storage}t` }
}

function atomic(node: Node, kernel: Kernel): Fault | undefined {
  const memory = find(node, kernel)
  if ('what' in memory) return memory
  const { kind } = node.arg as unknown as MemoryArg
  const scalar = storageScalar(memory.storage)
  if (memory.storage !== 'i32' && memory.storage !== 'u32') {
    return { what: 'atomics work on i32 and u32 memory', got: memory.storage }
  }
  if (!(ATOMICS as readonly unknown[]).includes(kind)) return { what: 'unknown atomic', got: kind, wanted: ATOMICS.join(', ') }
  if (!memory.atomic) return { what: `${memory.name} is not marked atomic` }
  return node.src[1]?.dtype === scalar && node.dtype === scalar
    ? undefined
    : { what: 'wrong type of an atomic', got: `${node.src[1]?.dtype} -> ${node.dtype}`, wanted: scalar }
}

function condition({ src }: Node): Fault | undefined {
  if (src.length !== 2 && src.length !== 3) return { what: 'wrong number of operands', got: src.length, wanted: '2 or 3' }
  if (src[0]?.dtype !== 'bool') return { what: 'wrong type of a condition', got: src[0]?.dtype, wanted: 'bool' }
  return src.slice(1).every(({ op }) => op === 'block') ? undefined : { what: 'a branch must be a block' }
}

function loopBounds({ src }: Node): Fault | undefined {
  const bounds = src.slice(0, 3)
  if (bounds.some(({ dtype }) => dtype !== 'u32')) {
    return { what: 'bounds must be u32', got: bounds.map(({ dtype }) => dtype).join(', ') }
  }
  const step = src[2]
  if (step?.op === 'const' && !(Number(step.arg) > 0)) return { what: 'step must be above 0', got: step.arg }
  return src[3]?.op === 'block' ? undefined : { what: 'a for needs a block', got: src[3]?.op }
}
