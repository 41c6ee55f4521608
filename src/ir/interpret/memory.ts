// Loads, stores and atomics of all active lanes. Every access is checked for range; races are the shadow's part. First all
// lanes' places are found, then the elements are moved by a loop for the kind of array.
/* oxlint-disable typescript/no-non-null-assertion -- lanes are those of the mask, and every place has passed `locate` or its like */

import { displacement } from '../displacement.ts'
import { type Narrow, type Scalar, type Storage, storageBytes, storageScalar, widthOf } from '../../base/dtype.ts'
import { IngotError } from '../../base/error.ts'
import type { NodeOf } from '../node.ts'
import { opRecord } from '../op.ts'
import type { Meaning } from '../op/meaning.ts'
import { HALVES } from '../../base/half-table.ts'
import { encodeHalf } from '../../base/half.ts'
import type { Clock, Shadow } from './shadow.ts'
import type { Cells, Mask, State, Action } from './state.ts'

type Stored = Float32Array | Float64Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array

/** Bytes seen as elements. */
type View = (buffer: ArrayBufferLike, offset: number, count: number) => Stored
const bytes: View = (buffer, offset, count) => new Uint8Array(buffer, offset, count)
const words16: View = (buffer, offset, count) => new Uint16Array(buffer, offset, count)
const VIEWS = {
  f32: (buffer, offset, count) => new Float32Array(buffer, offset, count),
  f64: (buffer, offset, count) => new Float64Array(buffer, offset, count),
  i32: (buffer, offset, count) => new Int32Array(buffer, offset, count),
  u32: (buffer, offset, count) => new Uint32Array(buffer, offset, count),
  f16: words16,
  i16: (buffer, offset, count) => new Int16Array(buffer, offset, count),
  u16: words16,
  i8: (buffer, offset, count) => new Int8Array(buffer, offset, count),
  u8: bytes,
  bool: bytes,
} as const satisfies Record<Scalar | Narrow, View>

/** A buffer parameter or a shared array. The bytes of a buffer change with every dispatch. */
export class Memory {
  readonly name: string
  readonly half: boolean
  readonly storage: Storage
  /** scalars in one element */
  readonly width: number
  /** undefined where no race is possible or nobody wants to know */
  readonly shadow: Shadow | undefined
  cells: Stored
  /** elements */
  length = 0
  #unaligned: Uint8Array | undefined

  constructor(name: string, storage: Storage, shadow: Shadow | undefined) {
    this.name = name
    this.storage = storage
    this.half = storageScalar(storage) === 'f16'
    this.width = widthOf(storage)
    this.shadow = shadow
    this.cells = this.#view(new ArrayBuffer(0), 0, 0)
  }

  #view(buffer: ArrayBufferLike, offset: number, count: number): Stored {
    return VIEWS[storageScalar(this.storage)](buffer, offset, count)
  }

  allocate(length: number): void {
    this.bind(new Uint8Array(length * storageBytes(this.storage)))
  }

  bind(bytes: Uint8Array): void {
    this.length = Math.floor(bytes.byteLength / storageBytes(this.storage))
    const scalar = storageBytes(this.storage) / this.width
    this.#unaligned = bytes.byteOffset % scalar === 0 ? undefined : bytes
    const from = this.#unaligned === undefined ? bytes : bytes.slice()
    this.cells = this.#view(from.buffer, from.byteOffset, this.length * this.width)
    this.shadow?.fit(this.length)
  }

  /** Lets go of a dispatch's bytes. */
  release(): void {
    this.#unaligned?.set(new Uint8Array(this.cells.buffer, this.cells.byteOffset, this.cells.byteLength))
    this.#unaligned = undefined
    this.cells = this.#view(new ArrayBuffer(0), 0, 0)
    this.length = 0
  }
}

/** Finds the first cell of each active lane's access of `count` elements, after checking the range. */
function locate(
  memory: Memory,
  index: Cells,
  least: number,
  count: number,
  places: Int32Array,
  { lanes, count: active }: Mask,
  state: State,
): void {
  const { length, width } = memory
  for (let at = 0; at < active; at++) {
    const lane = lanes[at]!
    const element = index[lane]!
    if (element + count > length) outOfRange(memory, element, count, lane, state)
    if (element < least) wrapped(memory, element, least, lane, state)
    places[lane] = element * width
  }
}

function outOfRange({ name, length }: Memory, element: number, count: number, lane: number, state: State): never {
  const span = count === 1 ? `${name}[${element}]` : `${name}[${element}..+${count}]`
  return state.fault('out-of-range', `access out of range: ${span}`, lane, {
    got: element,
    wanted: `an index below ${Math.max(0, length - count + 1)}`,
  })
}

/** A sum that is smaller than what was added has wrapped. */
function wrapped({ name }: Memory, element: number, plus: number, lane: number, state: State): never {
  return state.fault('out-of-range', `the index of ${name} wraps around`, lane, {
    got: element,
    wanted: `at least the ${plus} that was added last`,
  })
}

export function load({ src, arg }: NodeOf<'load'>, out: Cells, index: Cells, memory: Memory, state: State): Action {
  const count = arg.width ?? 1
  const width = count * memory.width
  const places = new Int32Array(state.lanes)
  const least = displacement(src[0])?.plus ?? 0
  const { shadow } = memory
  const move = memory.half
    ? moveHalves
    : out instanceof Float32Array
      ? moveFloats
      : out instanceof Float64Array
        ? moveDoubles
        : moveIntegers
  return (mask) => {
    locate(memory, index, least, count, places, mask, state)
    if (shadow !== undefined) {
      for (let at = 0; at < mask.count; at++) {
        const lane = mask.lanes[at]!
        for (let e = 0; e < count; e++) shadow.read(index[lane]! + e, lane)
      }
    }
    move(out, memory.cells, places, width, mask)
  }
}

// Four loops alike, so that each sees few kinds of arrays and the engine keeps them fast.
type Move = (out: Cells, cells: Stored, places: Int32Array, width: number, mask: Mask) => void

const moveFloats: Move = (out, cells, places, width, { lanes, count }) => {
  for (let at = 0; at < count; at++) {
    const lane = lanes[at]!
    const from = places[lane]!
    for (let e = 0, to = lane * width; e < width; e++) out[to + e] = cells[from + e]!
  }
}
const moveDoubles: Move = (out, cells, places, width, { lanes, count }) => {
  for (let at = 0; at < count; at++) {
    const lane = lanes[at]!
    const from = places[lane]!
    for (let e = 0, to = lane * width; e < width; e++) out[to + e] = cells[from + e]!
  }
}
const moveIntegers: Move = (out, cells, places, width, { lanes, count }) => {
  for (let at = 0; at < count; at++) {
    const lane = lanes[at]!
    const from = places[lane]!
    for (let e = 0, to = lane * width; e < width; e++) out[to + e] = cells[from + e]!
  }
}
const moveHalves: Move = (out, cells, places, width, { lanes, count }) => {
  for (let at = 0; at < count; at++) {
    const lane = lanes[at]!
    const from = places[lane]!
    for (let e = 0, to = lane * width; e < width; e++) out[to + e] = HALVES[cells[from + e]!]!
  }
}

export function store({ src, arg }: NodeOf<'store'>, index: Cells, value: Cells, memory: Memory, state: State, clock: Clock): Action {
  const count = arg.width ?? 1
  const width = count * memory.width
  const places = new Int32Array(state.lanes)
  const least = displacement(src[0])?.plus ?? 0
  const { shadow, half } = memory
  return (mask) => {
    locate(memory, index, least, count, places, mask, state)
    if (shadow !== undefined) {
      clock.now++
      let again = false
      for (let at = 0; at < mask.count; at++) {
        const lane = mask.lanes[at]!
        for (let e = 0; e < count; e++) again = shadow.write(index[lane]! + e, lane) || again
      }
      if (again) agree(index, value, count, memory, mask)
    }
    const { cells } = memory
    for (let at = 0; at < mask.count; at++) {
      const lane = mask.lanes[at]!
      const to = places[lane]!
      const from = lane * width
      if (half) for (let e = 0; e < width; e++) cells[to + e] = encodeHalf(value[from + e]!)
      else for (let e = 0; e < width; e++) cells[to + e] = value[from + e]!
    }
  }
}

/** Lanes may write one element in one store if they all write the same. */
function agree(index: Cells, value: Cells, count: number, memory: Memory, { lanes, count: active }: Mask): void {
  const seen = new Map<number, number>()
  const { width } = memory
  for (let at = 0; at < active; at++) {
    const lane = lanes[at]!
    for (let e = 0; e < count * width; e++) {
      const cell = index[lane]! * width + e
      const mine = value[lane * count * width + e]!
      const other = seen.get(cell)
      if (other !== undefined && !Object.is(other, mine)) memory.shadow?.raceInStore(Math.floor(cell / width), lane)
      seen.set(cell, mine)
    }
  }
}

/** What an atomic leaves in memory: what the op of its name makes of the old value and the operand. */
function meaningOf({ arg: { kind }, src: [, { dtype }] }: NodeOf<'atomic'>): Meaning {
  const scalar = dtype === 'i32' ? 'i32' : 'u32'
  const js = kind === 'exchange' ? undefined : opRecord(kind).js
  return js === undefined ? (_old, value) => value : js(scalar, scalar, null)
}

/** One lane after the other, in order of their numbers. */
export function atomic(node: NodeOf<'atomic'>, out: Cells, index: Cells, value: Cells, memory: Memory, state: State): Action {
  const meaning = meaningOf(node)
  return ({ lanes, count }) => {
    const { cells, length, shadow } = memory
    for (let at = 0; at < count; at++) {
      const lane = lanes[at]!
      const element = index[lane]!
      if (element >= length) outOfRange(memory, element, 1, lane, state)
      shadow?.read(element, lane)
      const old = cells[element]!
      out[lane] = old
      cells[element] = meaning(old, value[lane]!, 0)
    }
  }
}

/** Calls `visit(place, cell)` for the 64 elements of a subgroup's tile: `place` in memory, `cell` in the tile. */
export function eachOfTile(
  index: number,
  row: number,
  transposed: boolean,
  lane: number,
  memory: Memory,
  state: State,
  visit: (place: number, cell: number) => void,
): void {
  for (let r = 0; r < 8; r++) {
    for (let c = 0; c < 8; c++) {
      const place = index + (transposed ? c * row + r : r * row + c)
      if (place >= memory.length) outOfRange(memory, place, 1, lane, state)
      visit(place, r * 8 + c)
    }
  }
}

export function missing(kernel: string, what: string, name: string): IngotError {
  return new IngotError('bad-argument', `${what} ${name} is not given`, { op: kernel })
}
