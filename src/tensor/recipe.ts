// What it takes to compute a graph on a device, whatever memory its leaves have: commands with blanks. Graphs that say the same share a
// recipe, so that a loop which builds its graph anew each time has it rewritten, ordered and compiled once.

import { IngotError } from '../base/error.ts'
import {
  type Blank as DeviceBlank,
  type BufferHandle,
  type Command,
  type Device,
  type OpenCommand,
  type Range,
  type Recording,
  mapRanges,
  rangesOf,
} from '../device/device.ts'
import { type NodeOf, type TensorNode, bytesOf } from './node.ts'
import type { Numbered } from './signature.ts'
import type { Layout, Storage } from './storage.ts'

/** Memory that is filled in later: a slot of the arena, or that of a leaf, by its number in the graph. */
export type Blank = { readonly slot: number; readonly bytes: number } | { readonly leaf: number; readonly layout: Layout }

export type BlankCommand = Command<Blank>

/** A value that somebody may ask for again: a node by number, and where it is when the commands are done. */
export interface BlankValue {
  readonly node: number
  readonly from: { readonly slot: number } | { readonly leaf: number }
}

export interface Recipe {
  readonly commands: readonly BlankCommand[]
  /** whether all leaves lie as they are written down */
  readonly isPlain: boolean
  readonly slotBytes: readonly number[]
  /** slots that outlive the commands */
  readonly keptSlots: ReadonlySet<number>
  readonly values: readonly BlankValue[]
  /** all commands with every slot and leaf as a blank, once a device has recorded them that can fill them */
  recorded?: Recorded
}
interface Recorded {
  readonly recording: Recording
  /** whose memory fills the blanks behind those of the slots */
  readonly leaves: readonly number[]
}

/** Plain data as text, of which equal ones are equal. JSON knows no Infinity and no -0, and takes several times as long. */
export function textOf(value: unknown): string {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (typeof value !== 'object' || value === null) return String(value)
  let text = ''
  if (Array.isArray(value)) {
    for (const each of value) text += `${textOf(each)},`
    return `[${text}]`
  }
  for (const [key, each] of Object.entries(value)) text += `${key}:${textOf(each)},`
  return `{${text}}`
}

/** A recipe with its blanks filled in. */
export interface Lowered<W = readonly Command[] | Recording> {
  readonly recipe: Recipe
  /** the graph that it is for */
  readonly nodes: readonly TensorNode[]
  /** what is to be submitted, with `ranges` */
  readonly work: W
  readonly ranges: readonly Range[]
  /** memory of the slots, all of which whoever submits the commands frees but those that are kept */
  readonly buffers: readonly BufferHandle[]
}

/** Memory that whoever submits the commands names: numbers of blanks. */
export type OpenStorages = ReadonlyMap<Storage, number>

/** Gives a recipe memory. A device whose recordings may have blanks checks and encodes a recipe with plain leaves once. */
export function fillIn(device: Device, recipe: Recipe, { nodes }: Numbered): Lowered {
  const buffers: BufferHandle[] = []
  try {
    for (const bytes of recipe.slotBytes) buffers.push(device.alloc(bytes))
    // What there is no memory for is refused by now.
    const isRecorded = device.caps.blanks === true && recipe.isPlain
    return isRecorded ? fillRecording(device, recipe, nodes, buffers) : fillCommands(device, recipe, nodes, buffers)
  } catch (error) {
    for (const buffer of buffers) device.free(buffer)
    throw error
  }
}

function fillCommands(device: Device, recipe: Recipe, nodes: readonly TensorNode[], buffers: readonly BufferHandle[]): Lowered {
  const rangeAt = (blank: Blank): Range =>
    'slot' in blank ? slotRange(buffers, blank) : leafAt(nodes, blank.leaf).attrs.storage.at(blank.layout, device)
  return { recipe, nodes, work: recipe.commands.map((command) => mapRanges(command, rangeAt)), ranges: [], buffers }
}

function fillRecording(device: Device, recipe: Recipe, nodes: readonly TensorNode[], buffers: readonly BufferHandle[]): Lowered {
  const { recording, leaves } = (recipe.recorded ??= record(device, recipe, nodes))
  const ranges: Range[] = []
  for (const buffer of buffers) ranges.push({ buffer })
  for (const number of leaves) ranges.push(leafAt(nodes, number).attrs.storage.at('plain', device))
  return { recipe, nodes, work: recording, ranges, buffers }
}

/** Commands that lack the memory of their slots only. */
export interface SlottedWork {
  readonly slotBytes: readonly number[]
  /** how many commands there are */
  readonly count: number
  /** The commands with these buffers for slots; those of `open` storages stay open. */
  withSlots(buffers: readonly BufferHandle[]): readonly OpenCommand[]
}

type SlotBlank = Extract<Blank, { slot: number }>

/** The commands of a recipe with the memory of leaves, but for that of `open` storages. */
export function fillLeaves(device: Device, { commands, slotBytes }: Recipe, { nodes }: Numbered, open: OpenStorages): SlottedWork {
  const placeOf = (blank: Blank): Range | DeviceBlank | SlotBlank => {
    if ('slot' in blank) return blank
    const leaf = leafAt(nodes, blank.leaf)
    const number = open.get(leaf.attrs.storage)
    return number === undefined ? leaf.attrs.storage.at(blank.layout, device) : { blank: number, bytes: wordBytes(leaf) }
  }
  const placed = commands.map((command) => mapRanges(command, placeOf))
  return {
    slotBytes,
    count: commands.length,
    withSlots: (buffers) => placed.map((command) => mapRanges(command, (at) => ('slot' in at ? slotRange(buffers, at) : at))),
  }
}

function slotRange(buffers: readonly BufferHandle[], { slot, bytes }: SlotBlank): Range {
  return { buffer: buffers[slot] ?? missing('slot', slot), bytes }
}

/** Whether every leaf lies as it is written down: how many bytes others have is known to their kernels only. */
export function isPlain(command: BlankCommand): boolean {
  return rangesOf(command).every((blank) => 'slot' in blank || blank.layout === 'plain')
}

function record(device: Device, recipe: Recipe, nodes: readonly TensorNode[]): Recorded {
  const { commands, slotBytes } = recipe
  /** one for the memory of several leaves, since some may write to it */
  const numbers = new Map<Storage, number>()
  const leaves: number[] = []
  const blankOf = (blank: Blank): DeviceBlank => {
    if ('slot' in blank) return { blank: blank.slot, bytes: blank.bytes }
    const leaf = leafAt(nodes, blank.leaf)
    const { storage } = leaf.attrs
    const number = numbers.get(storage) ?? slotBytes.length + leaves.push(blank.leaf) - 1
    numbers.set(storage, number)
    return { blank: number, bytes: wordBytes(leaf) }
  }
  return { recording: device.record(commands.map((command) => mapRanges(command, blankOf))), leaves }
}

/** A leaf by number. */
export function leafAt(nodes: readonly TensorNode[], number: number): NodeOf<'leaf'> {
  const node = nodes[number]
  return node?.op === 'leaf' ? node : missing('leaf', number)
}

/** Bytes of a leaf as whole words, which is what its memory has. */
function wordBytes(leaf: TensorNode): number {
  return Math.max(4, Math.ceil(bytesOf(leaf) / 4) * 4)
}

function missing(what: string, number: number): never {
  throw new IngotError('bad-argument', `a recipe names a ${what} that is not there`, { op: 'plan', got: number })
}
