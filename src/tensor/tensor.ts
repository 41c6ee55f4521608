// What a user and a model write with: lazy tensors with methods (method/). A method adds one node to the graph; nothing is computed until
// somebody asks for values, or builds a plan. Shapes are checked here, at once; which kernel serves, and in which layout a weight is read,
// is decided when a plan is made for a device.

import { checkArgument, describeKind, isString } from '../base/argument.ts'
import { type ElementArrays, type ElementType, decodeElements, isElementType, takeElements } from '../base/element.ts'
import { IngotError } from '../base/error.ts'
import type { BufferHandle } from '../device/device.ts'
import { type CacheType, canCache } from '../kernel/attention/cache-type.ts'
import { type DeviceChoice, checkDevice, knownDevice } from './default-device.ts'
import { readNode, realizeNode } from './evaluate.ts'
import { type FromOptions, type NestedNumbers, type NumberSource, hostValues, nest } from './host.ts'
import { Holder } from './holder.ts'
import { makeNode } from './make-node.ts'
import type { SourcesOf } from './method/base.ts'
import { Methods } from './method/methods.ts'
import { type AttrsOf, type NodeOf, type OpName, type OperandsOf, type TensorNode, type TensorType, bytesOf } from './node.ts'
import { nameOfMap } from './op/map.ts'
import { checkDoubles, checkElementType, checkFinite, checkList, checkShape, checkWhole, fail, optionsOf, show } from './operand.ts'
import { valueOf } from './order.ts'
import { enlist } from './scope-store.ts'
import { sameShape } from './shape.ts'
import { showValues } from './show.ts'
import { Storage } from './storage.ts'
import { currentTrace } from './trace.ts'

/** Where a new tensor lies. */
export interface MakeOptions {
  readonly dtype?: ElementType
  /** default: wherever what it is computed with lies, or the default device */
  readonly device?: DeviceChoice
}

/** An array of numbers that is computed when somebody asks for it, on any device. `Tensor.from` and its kin make one. */
export class Tensor extends Methods implements Disposable {
  #node: TensorNode
  #device: DeviceChoice | undefined
  #isWanted = true
  /** how its node knows of it; nodes do not keep tensors alive */
  #holder: Holder<Tensor> | undefined

  /** Use `Tensor.from` and its kin. */
  constructor(node: TensorNode, device?: DeviceChoice) {
    super()
    if (device !== undefined) checkDevice('tensor', device)
    if (typeof device === 'object' && node.dtype === 'f64') checkDoubles(node, device)
    this.#node = node
    this.#device = device
    enlist(this)
  }

  /**
   * Numbers, nested lists of them, or a typed array. `dtype` is that of the array, but for doubles, which become f32; of lists it is f32,
   * or bool if they hold nothing else.
   */
  static from(values: NumberSource, options: FromOptions & MakeOptions = {}): Tensor {
    const { bytes, shape, dtype } = hostValues(values, optionsOf('from', options))
    const node: NodeOf<'leaf'> = { op: 'leaf', shape, dtype, src: [], attrs: { storage: Storage.onHost(bytes), layout: 'plain' } }
    return new Tensor(node, options.device).#hold(node)
  }

  /** The same number everywhere. */
  static full(shape: readonly number[], value: number, options: MakeOptions = {}): Tensor {
    const { dtype = 'f32', device } = optionsOf('full', options)
    checkShape('full', shape)
    checkElementType('full', dtype)
    if (typeof value !== 'number') fail('full', 'the value is no number', describeKind(value), 'a number')
    return Tensor.#make('map', [], { expr: constantOf(value, dtype), type: dtype }, device).expand(...shape)
  }
  /** 0 everywhere. */
  static zeros(shape: readonly number[], options?: MakeOptions): Tensor {
    return Tensor.full(shape, 0, options)
  }
  /** 1 everywhere. */
  static ones(shape: readonly number[], options?: MakeOptions): Tensor {
    return Tensor.full(shape, 1, options)
  }
  /** Ones on a diagonal: the main one, or number `k` above it. */
  static eye(rows: number, columns: number = rows, options: MakeOptions & { k?: number } = {}): Tensor {
    const { k = 0, dtype = 'f32', device } = optionsOf('eye', options)
    const shape = [rows, columns]
    const [row, column] = [0, 1].map((axis) => Tensor.iota(shape, axis, device === undefined ? {} : { device }).to('i32')) as [
      Tensor,
      Tensor,
    ]
    return column.sub(row).eq(k).to(dtype)
  }
  /** start, start + step, ... below end. `arange(5)` is 0, 1, 2, 3, 4. */
  static arange(start: number, end?: number, step = 1, options: MakeOptions = {}): Tensor {
    const { dtype, device } = optionsOf('arange', options)
    for (const number of [start, end ?? 0, step]) checkFinite('arange', 'a number', number)
    const [from, to] = end === undefined ? [0, start] : [start, end]
    const count = Math.ceil((to - from) / step)
    if (!(count > 0) || !Number.isFinite(count)) fail('arange', 'there are no such numbers', [from, to, step], 'an end that steps lead to')
    if (dtype !== undefined) checkElementType('arange', dtype)
    const type = dtype ?? ([from, step].every(Number.isInteger) ? 'i32' : 'f32')
    const index = Tensor.iota([count], 0, device === undefined ? {} : { device })
    const isWhole = type !== 'f32' && type !== 'f16' && type !== 'bf16' && type !== 'f64'
    return index
      .to(isWhole ? 'i32' : type === 'f64' ? 'f64' : 'f32')
      .mul(step)
      .add(from)
      .to(type)
  }
  /** `count` numbers from `start` to `end`, both included, in even steps. */
  static linspace(start: number, end: number, count: number, options: MakeOptions = {}): Tensor {
    const { dtype = 'f32', device } = optionsOf('linspace', options)
    for (const number of [start, end]) checkFinite('linspace', 'an end', number)
    checkWhole('linspace', 'the count', count, 1)
    const index = Tensor.iota([count], 0, device === undefined ? {} : { device }).to(dtype === 'f64' ? 'f64' : 'f32')
    return (count === 1 ? index.add(start) : index.mul((end - start) / (count - 1)).add(start)).to(dtype)
  }
  /** The index of every element of a shape along an axis, as u32. */
  static iota(shape: readonly number[], axis?: number, options: Pick<MakeOptions, 'device'> = {}): Tensor {
    checkShape('iota', shape)
    return Tensor.#make('iota', [], { shape, axis: axis ?? shape.length - 1 }, optionsOf('iota', options).device)
  }
  /** Tensors one after the other along an axis. */
  static concat(tensors: readonly Tensor[], axis = 0): Tensor {
    checkTensors('concat', tensors)
    const [first, ...others] = tensors
    return first?.concat(others, axis) ?? fail('concat', 'nothing to join', 'no tensors', 'at least one')
  }
  /** Tensors of one shape side by side along a new axis. */
  static stack(tensors: readonly Tensor[], axis = 0): Tensor {
    checkTensors('stack', tensors)
    const rank = tensors[0]?.rank ?? 0
    checkWhole('stack', 'the axis', axis, -rank - 1, rank)
    const at = axis < 0 ? axis + rank + 1 : axis
    return Tensor.concat(
      tensors.map((tensor) => tensor.unsqueeze(at)),
      at,
    )
  }

  /** A tensor over memory that is there, or will be when a plan is built with it. */
  static leaf(storage: Storage, shape: readonly number[], dtype: TensorType = 'f32', label?: string): Tensor {
    checkShape('leaf', shape)
    return Tensor.#named({ op: 'leaf', shape, dtype, src: [], attrs: { storage, layout: 'plain' } }, label)
  }
  /** A tensor over a buffer that outlives every plan that uses it. */
  static over(buffer: BufferHandle, shape: readonly number[], dtype?: TensorType, label?: string): Tensor {
    return Tensor.leaf(new Storage('plain', buffer), shape, dtype, label)
  }
  /** A key or value cache [heads, capacity, dim]; its memory has `cacheBytes`. */
  static cache(storage: Storage, shape: readonly [number, number, number], dtype: CacheType, label?: string): Tensor {
    checkShape('cache', shape)
    if (!canCache(dtype, shape[2])) {
      const hint = 'use f16 or f32'
      throw new IngotError('unsupported', `heads of this size cannot be cached in ${dtype}`, { op: 'cache', got: shape[2], hint })
    }
    return Tensor.#named({ op: 'leaf', shape, dtype, src: [], attrs: { storage, layout: 'cache' } }, label)
  }

  static #named(node: NodeOf<'leaf'>, label: string | undefined): Tensor {
    return new Tensor(label === undefined ? node : { ...node, label })
  }

  /** A tensor over memory that holds its values. */
  static onto(storage: Storage, shape: readonly number[], dtype: TensorType, device?: DeviceChoice): Tensor {
    const node: NodeOf<'leaf'> = { op: 'leaf', shape, dtype, src: [], attrs: { storage, layout: 'plain' } }
    return new Tensor(node, device).#hold(node)
  }
  /** A tensor that is given by this node, and that its value is kept for. */
  static holding(node: TensorNode, device?: DeviceChoice): Tensor {
    const tensor = new Tensor(node, device)
    return node.handle?.isWanted === true ? tensor : tensor.#hold(node)
  }
  /** A tensor that is given by this node. */
  static of(node: TensorNode, device?: DeviceChoice): Tensor {
    const tensor = new Tensor(node, device)
    return node.op === 'leaf' || node.handle !== undefined ? tensor : tensor.#hold(node)
  }

  static #make<O extends OpName>(op: O, src: SourcesOf<O, Tensor>, attrs: AttrsOf<O>, device?: DeviceChoice): Tensor {
    const operands = src as readonly Tensor[]
    const name = op === 'map' && 'expr' in attrs ? nameOfMap(attrs.expr) : op
    checkTensors(name, operands)
    const place = commonDevice(name, operands) ?? device
    const nodes: TensorNode[] = []
    for (const operand of operands) nodes.push(operand.node)
    return Tensor.of(makeNode(op, nodes as readonly TensorNode[] as OperandsOf<O>, attrs), place)
  }

  /** what gives it, for those who build plans */
  get node(): TensorNode {
    if (!this.#isWanted) throw new IngotError('closed', 'the tensor was disposed of', { op: 'tensor', got: show(this.#node) })
    return this.#node
  }
  override get shape(): readonly number[] {
    return this.#node.shape
  }
  override get dtype(): TensorType {
    return this.#node.dtype
  }
  /** where it is computed, if that is settled */
  get device(): DeviceChoice | undefined {
    // What a compiled function reads was brought to its device.
    return this.#device ?? (this.#node.op === 'leaf' ? this.#node.attrs.storage.device : undefined)
  }

  /** Gives the tensor a name that comparisons and errors show. */
  named(label: string): this {
    checkArgument('named', 'the name', label, 'a text', isString)
    this.#node.label = label
    return this
  }

  /** The values, row by row. */
  async data(): Promise<ElementArrays[ElementType]> {
    const dtype = this.#elementType('data')
    const host = this.#host()
    if (host !== undefined) return decodeElements(dtype, host, this.size)
    return takeElements(dtype, await readNode(this.node, this.device), this.size)
  }
  /** The same values as the bytes that memory has of them: little endian, two of a half. They belong to the caller. */
  async bytes(): Promise<Uint8Array> {
    this.#elementType('bytes')
    return this.#host()?.slice(0, bytesOf(this.node)) ?? readNode(this.node, this.device)
  }
  /** The value of a tensor of one element. */
  async item(): Promise<number> {
    if (this.size !== 1) fail('item', 'a tensor of several elements is no number', show(this.node), 'one element', 'use data()')
    return (await this.data())[0] ?? Number.NaN
  }
  /** The values as nested lists, one level per axis; of a tensor without axes, the number itself. */
  async toArray(): Promise<NestedNumbers> {
    return nest(await this.data(), this.shape)
  }
  /** The values as text, as NumPy prints them. */
  async show(): Promise<string> {
    return showValues(await this.data(), this.shape, this.dtype)
  }
  override toString(): string {
    return `Tensor(${this.dtype}[${this.shape.join(', ')}])`
  }
  /** What `console.log` writes in Node: not the values, which may not be computed yet. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString()
  }

  /** Computes the values and leaves them on the device, for what is computed from them later. */
  async realize(): Promise<this> {
    if (this.node.op !== 'leaf') await realizeNode(this.node, this.device)
    return this
  }

  /**
   * From now on this tensor has another value, of the same shape and type. What was computed from the old one keeps it. In a function that
   * is compiled, the tensor's memory is changed in place by every call.
   */
  assign(value: Tensor): this {
    if (!(value instanceof Tensor)) fail('assign', 'the value is no tensor', describeKind(value), 'a tensor')
    if (!sameShape(value.shape, this.shape)) fail('assign', 'shapes differ', show(value.node), show(this.node))
    if (value.dtype !== this.dtype) fail('assign', 'types differ', value.dtype, this.dtype)
    commonDevice('assign', [this, value])
    const trace = currentTrace()
    if (trace !== undefined && !trace.assigned.has(this)) trace.assigned.set(this, this.node)
    this.rebind(trace === undefined && value !== this ? ownValue(value.node) : value.node)
    return this
  }
  /** Makes another node what gives this tensor. */
  rebind(node: TensorNode): void {
    this.#holder?.leave(this)
    this.#node = node
    if (node.op !== 'leaf') this.#hold(node)
  }
  /** Tells a node that this tensor wants its value. */
  #hold(node: TensorNode): this {
    node.handle = this.#holder = new Holder(this)
    return this
  }

  /** false once it was disposed of */
  get isWanted(): boolean {
    return this.#isWanted
  }

  /** Gives its memory back now. What has been computed from it stays; what has not cannot be any more. */
  [Symbol.dispose](): void {
    if (this.#isWanted && this.#node.op === 'leaf') this.#node.attrs.storage.dispose()
    this.#isWanted = false
    this.#holder?.letGo()
  }

  #elementType(op: string): ElementType {
    const { dtype } = this.node
    return isElementType(dtype) ? dtype : fail(op, 'a weight has no single elements', dtype, undefined, `.to('f32') gives its values`)
  }
  /** its bytes, as long as no device has them */
  #host(): Uint8Array | undefined {
    return this.node.op === 'leaf' ? this.node.attrs.storage.host : undefined
  }

  protected override apply<O extends OpName>(op: O, src: SourcesOf<O, this>, attrs: AttrsOf<O>): this {
    const operands = src as readonly Tensor[]
    return Tensor.#make(op, src, attrs, operands.length === 0 ? this.#device : undefined) as this // nobody extends this class
  }
}

/** Refuses a list of anything but tensors; `op` is who asks. */
export function checkTensors(op: string, tensors: readonly unknown[]): void {
  checkList(op, 'what holds tensors', tensors)
  for (let i = 0; i < tensors.length; i++) {
    const tensor = tensors[i]
    if (!(tensor instanceof Tensor)) fail(op, `operand ${i} is no tensor`, describeKind(tensor), 'a tensor')
  }
}

/**
 * A node with a value that is in nobody else's memory when it is computed: what compiled functions do to the memory of one tensor must not
 * be seen by another.
 */
function ownValue(node: TensorNode): TensorNode {
  const value = valueOf(node)
  const { dtype } = node
  return value instanceof Storage && isElementType(dtype) ? makeNode('map', [node], { expr: { input: 0 }, type: dtype }) : node
}

/** The device that the operands lie on, if any of them does. */
export function commonDevice(op: string, operands: readonly Tensor[]): DeviceChoice | undefined {
  let common: DeviceChoice | undefined
  for (const { device } of operands) {
    const known = device === undefined ? undefined : knownDevice(device)
    if (known === undefined || known === common) continue
    if (common !== undefined) return fail(op, 'operands lie on different devices', `${nameOf(common)} and ${nameOf(known)}`, 'one device')
    common = known
  }
  return common
}

function nameOf(device: DeviceChoice): string {
  return typeof device === 'object' ? device.name : device
}

function constantOf(value: number, dtype: ElementType): AttrsOf<'map'>['expr'] {
  const isBool = dtype === 'bool'
  const isInteger = ['i32', 'u32', 'i8', 'u8', 'i64'].includes(dtype)
  return isBool
    ? { const: value === 0 ? 0 : 1, type: 'bool' }
    : { cast: dtype, of: { const: value, type: isInteger && Number.isInteger(value) ? 'i32' : 'f32' } }
}
