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
import { operandsFirst } from './graph.ts'
import { type NodeOf, type TensorNode, bytesOf, operandsOf } from './node.ts'
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

/** A graph with its nodes numbered. */
export interface Numbered {
  readonly nodes: readonly TensorNode[]
  readonly numbers: ReadonlyMap<TensorNode, number>
  readonly roots: readonly TensorNode[]
}

export function numberNodes(roots: readonly TensorNode[]): Numbered {
  const nodes = operandsFirst(roots)
  return { nodes, roots, numbers: new Map(nodes.map((node, number) => [node, number])) }
}

/** What graphs have in common that share a recipe: everything but which memory their leaves are. */
export function signatureOf({ nodes, numbers, roots }: Numbered, keep: (node: TensorNode) => boolean): string {
  const storages = new Map<unknown, number>()
  const parts = nodes.map((node) => {
    const type = `${node.dtype}[${node.shape.join()}]`
    if (node.op !== 'leaf') {
      const from = operandsOf(node).map((operand) => numbers.get(operand))
      return `${node.op} ${from.join()} ${textOf(node.attrs)} ${type}${keep(node) ? ' kept' : ''}`
    }
    // Two leaves may be the same memory.
    const { storage, layout } = node.attrs
    const known = storages.get(storage) ?? storages.size
    storages.set(storage, known)
    return `leaf ${known} ${layout} ${storage.has('packed') ? 'packed' : ''} ${type}`
  })
  return `${parts.join('\n')}\n${roots.map((root) => numbers.get(root)).join()}`
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
export interface Lowered<W> {
  /** what is to be submitted, with `ranges` */
  readonly work: W
  readonly ranges: readonly Range[]
  /** commands in it */
  readonly count: number
  /** nodes whose value may be asked for again, with the buffer that it has for itself, or the leaf whose memory it is */
  readonly values: readonly { readonly node: TensorNode; readonly from: KeptBuffer | TensorNode }[]
  /** buffers that serve meanwhile; whoever runs the commands frees them */
  readonly slots: readonly BufferHandle[]
  readonly slotBytes: number
}
export interface KeptBuffer {
  readonly buffer: BufferHandle
  readonly bytes: number
}

/** Memory that whoever submits the commands names: numbers of blanks. */
export type OpenStorages = ReadonlyMap<Storage, number>

export function fillIn(device: Device, recipe: Recipe, { nodes }: Numbered): Lowered<readonly Command[]> {
  return withSlots(device, recipe, nodes, (buffers) => {
    const rangeAt = (blank: Blank): Range =>
      'slot' in blank ? slotRange(buffers, blank) : leafAt(nodes, blank.leaf).attrs.storage.at(blank.layout, device)
    return { work: recipe.commands.map((command) => mapRanges(command, rangeAt)), ranges: [] }
  })
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

/** The same for a recipe with plain leaves, on a device whose recordings may have blanks: it checks and encodes a recipe once. */
export function fillRecording(device: Device, recipe: Recipe, { nodes }: Numbered): Lowered<Recording> {
  return withSlots(device, recipe, nodes, (buffers) => {
    recipe.recorded ??= record(device, recipe, nodes) // what there is no memory for is refused by now
    const { recording, leaves } = recipe.recorded
    const ranges: Range[] = buffers.map((buffer) => ({ buffer }))
    for (const number of leaves) ranges.push(leafAt(nodes, number).attrs.storage.at('plain', device))
    return { work: recording, ranges }
  })
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

/** Buffers for the slots, and who has which of them; they go back where anything fails. */
function withSlots<W>(
  device: Device,
  { slotBytes, keptSlots, values, commands }: Recipe,
  nodes: readonly TensorNode[],
  fill: (buffers: readonly BufferHandle[]) => Pick<Lowered<W>, 'work' | 'ranges'>,
): Lowered<W> {
  const buffers: BufferHandle[] = []
  try {
    for (const bytes of slotBytes) buffers.push(device.alloc(bytes))
    const kept = (slot: number): KeptBuffer => ({ buffer: buffers[slot] ?? missing('slot', slot), bytes: slotBytes[slot] ?? 0 })
    return {
      ...fill(buffers),
      count: commands.length,
      values: values.map(({ node, from }) => ({
        node: nodes[node] ?? missing('node', node),
        from: 'slot' in from ? kept(from.slot) : leafAt(nodes, from.leaf),
      })),
      slots: keptSlots.size === 0 ? buffers : buffers.filter((_, slot) => !keptSlots.has(slot)),
      slotBytes: slotBytes.reduce((sum, bytes) => sum + bytes, 0),
    }
  } catch (error) {
    for (const buffer of buffers) device.free(buffer)
    throw error
  }
}

function leafAt(nodes: readonly TensorNode[], number: number): NodeOf<'leaf'> {
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
