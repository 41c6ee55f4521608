// What it takes to compute a graph on a device, whatever memory its leaves have: commands with blanks. Graphs that say the same share a
// recipe, so that a loop which builds its graph anew each time has it rewritten, ordered and compiled once.

import { IngotError } from '../base/error.ts'
import type { BufferHandle, Command, Device, Dispatch, Range } from '../device/device.ts'
import { operandsFirst } from './graph.ts'
import { type TensorNode, operandsOf } from './node.ts'
import type { Layout } from './storage.ts'

/** Memory that is filled in later: a slot of the arena, or that of a leaf, by its number in the graph. */
export type Blank = { readonly slot: number; readonly bytes: number } | { readonly leaf: number; readonly layout: Layout }

export type BlankCommand =
  | (Omit<Dispatch, 'buffers'> & { readonly buffers: readonly Blank[] })
  | { readonly kind: 'copy'; readonly from: Blank; readonly to: Blank; readonly bytes: number }

/** A value that somebody may ask for again: a node by number, and where it is when the commands are done. */
export interface BlankValue {
  readonly node: number
  readonly from: { readonly slot: number } | { readonly leaf: number }
}

export interface Recipe {
  readonly commands: readonly BlankCommand[]
  readonly slotBytes: readonly number[]
  /** slots that outlive the commands */
  readonly keptSlots: ReadonlySet<number>
  readonly roots: readonly { readonly at: Blank; readonly bytes: number }[]
  readonly values: readonly BlankValue[]
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
export interface Lowered {
  readonly commands: readonly Command[]
  /** Where the value of a root is when the commands are done. */
  rangeOf(root: number): Range & { readonly bytes: number }
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

export function fillIn(device: Device, recipe: Recipe, { nodes }: Numbered): Lowered {
  const buffers: BufferHandle[] = []
  try {
    for (const bytes of recipe.slotBytes) buffers.push(device.alloc(bytes))
    const nodeAt = (number: number): TensorNode => nodes[number] ?? missing('node', number)
    const bufferAt = (slot: number): BufferHandle => buffers[slot] ?? missing('slot', slot)
    const rangeAt = (blank: Blank): Range => {
      if ('slot' in blank) return { buffer: bufferAt(blank.slot), bytes: blank.bytes }
      const leaf = nodeAt(blank.leaf)
      return leaf.op === 'leaf' ? leaf.attrs.storage.at(blank.layout, device) : missing('leaf', blank.leaf)
    }
    const kept = new Map(
      [...recipe.keptSlots].map((slot): [number, KeptBuffer] => [slot, { buffer: bufferAt(slot), bytes: recipe.slotBytes[slot] ?? 0 }]),
    )
    return {
      commands: recipe.commands.map((command) =>
        command.kind === 'copy'
          ? { kind: 'copy', from: rangeAt(command.from), to: rangeAt(command.to), bytes: command.bytes }
          : { ...command, buffers: command.buffers.map(rangeAt) },
      ),
      rangeOf: (root) => {
        const { at, bytes } = recipe.roots[root] ?? missing('root', root)
        return { ...rangeAt(at), bytes }
      },
      values: recipe.values.map(({ node, from }) => ({
        node: nodeAt(node),
        from: 'slot' in from ? (kept.get(from.slot) ?? missing('slot', from.slot)) : nodeAt(from.leaf),
      })),
      slots: buffers.filter((_, slot) => !recipe.keptSlots.has(slot)),
      slotBytes: recipe.slotBytes.reduce((sum, bytes) => sum + bytes, 0),
    }
  } catch (error) {
    for (const buffer of buffers) device.free(buffer)
    throw error
  }
}

function missing(what: string, number: number): never {
  throw new IngotError('bad-argument', `a recipe names a ${what} that is not there`, { op: 'plan', got: number })
}
