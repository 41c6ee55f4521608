// From a graph to the commands of a device: rewritten, ordered, scheduled, its kernels compiled. What is done with the commands, recorded
// for many runs (plan.ts) or submitted once (evaluate.ts), is up to the caller.

import { IngotError, isIngotError } from '../base/error.ts'
import type { Device, Program } from '../device/device.ts'
import { packUniforms } from '../ir/kernel.ts'
import { type Work, boundBuffers } from '../kernel/family.ts'
import { graphOf, replaceNodes } from './graph.ts'
import { type OpName, type TensorNode, bytesOf, operandsOf } from './node.ts'
import { hasKernels, inputNames, lower } from './op/index.ts'
import { checkDoubles } from './operand.ts'
import { type Order, isAlias, orderNodes } from './order.ts'
import {
  type Blank,
  type BlankCommand,
  type BlankValue,
  type OpenStorages,
  type Recipe,
  type SlottedWork,
  fillLeaves,
  isPlain,
  textOf,
} from './recipe.ts'
import { rewriteGraph } from './rewrite/index.ts'
import { type Allocation, type Step, schedule } from './schedule.ts'
import { type Asked, type Numbered, SignatureMap, numberNodes, signatureOf } from './signature.ts'
import { definitionOf } from './sketch.ts'

interface Prepared {
  readonly work: Work
  readonly programs: readonly Program[]
}

/** What a device has learnt. */
interface Known {
  /** prepared work by operation, shapes and formats: layers of a model share it */
  readonly work: Map<string, Promise<Prepared>>
  readonly recipes: SignatureMap<Recipe>
  /** fused operations that it could not compile: their definitions run instead */
  readonly replaced: Set<OpName>
}
const known = new WeakMap<Device, Known>()
/** Recipes kept for each device: a program's loops have few different steps. */
const RECIPES_KEPT = 256

function knownOf(device: Device): Known {
  const found = known.get(device)
  if (found !== undefined) return found
  const made: Known = { work: new Map(), recipes: new SignatureMap(RECIPES_KEPT, forget), replaced: new Set() }
  known.set(device, made)
  return made
}

/** Operations of this device that run as their definitions, because the fused kernel could not be had. */
export function replacedOperations(device: Device): readonly string[] {
  return [...knownOf(device).replaced]
}

/** Lowers a graph that is planned for itself: nothing of it is remembered but its kernels. */
export async function lowerOnce(device: Device, roots: readonly TensorNode[], reads: number, open: OpenStorages): Promise<SlottedWork> {
  const graph = numberNodes(roots)
  for (const node of graph.nodes) checkDoubles(node, device)
  const back = Array.from({ length: reads }, (_, root) => root)
  return fillLeaves(device, await makeRecipe(device, graph, { reads, back, keep: () => false }), graph, open)
}

/** How to compute a graph that may come again, with other memory: at once if that is known, else it is found out and remembered. */
export function recipeFor(device: Device, graph: Numbered, asked: Asked): Recipe | Promise<Recipe> {
  const { recipes } = knownOf(device)
  const signature = signatureOf(graph, asked)
  return (
    recipes.get(signature) ??
    makeRecipe(device, graph, asked).then((recipe) => {
      recipes.set(signature, recipe)
      return recipe
    })
  )
}

function forget({ recorded }: Recipe): void {
  recorded?.recording[Symbol.dispose]()
}

async function makeRecipe(device: Device, graph: Numbered, options: Asked): Promise<Recipe> {
  const { replaced } = knownOf(device)
  for (;;) {
    try {
      return await tryRecipe(device, graph, options, new Set(replaced))
    } catch (error) {
      if (!(error instanceof OperationFailure)) throw error
      if (replaced.has(error.node.op) || definitionOf(error.node) === undefined) throw error.cause
      replaced.add(error.node.op)
    }
  }
}

/** A kernel that could not be written or compiled, with the operation it was for. */
class OperationFailure extends Error {
  readonly node: TensorNode

  constructor(node: TensorNode, cause: unknown) {
    super(`${node.op} failed`, { cause })
    this.node = node
  }
}

/** Every operation named in `ops` as its definition. */
export function expand(roots: readonly TensorNode[], ops: ReadonlySet<OpName>): (node: TensorNode) => TensorNode {
  return replaceNodes(graphOf(roots), (node) => (ops.has(node.op) ? definitionOf(node) : undefined))
}

async function tryRecipe(device: Device, graph: Numbered, { reads, back, keep }: Asked, ops: ReadonlySet<OpName>): Promise<Recipe> {
  const roots = ops.size === 0 ? graph.roots : graph.roots.map(expand(graph.roots, ops))
  const order = orderNodes(rewriteGraph(roots, device.caps), reads)
  const { steps, allocate } = schedule(order)
  const ready = await prepareAll(device, steps)
  const allocation = allocate((step) => ready.get(step)?.work.scratch ?? {}, keep)
  const places = new Places(allocation, graph)
  const isRead = (root: number): boolean => back.includes(root)
  const commands = [
    ...steps.flatMap((step) => encode(step, places, ready.get(step))),
    ...order.roots.flatMap((root, i): BlankCommand[] =>
      isRead(i) ? [{ kind: 'read', from: places.blankOf(root), bytes: words(bytesOf(root)) }] : [],
    ),
  ]
  return {
    commands,
    isPlain: commands.every(isPlain),
    slotBytes: allocation.slotBytes.map((bytes) => Math.max(words(bytes), 4)),
    keptSlots: new Set(allocation.kept.values()),
    values: findValues(order, allocation, graph),
  }
}

/** Where the values are that handles ask for: in slots of their own, or in the memory of leaves. */
function findValues({ nodes }: Order, { kept }: Allocation, graph: Numbered): BlankValue[] {
  const leaves = leafNumbers(graph)
  const byHandle = new Map(graph.nodes.flatMap(({ handle, op }, number) => (handle && op !== 'leaf' ? [[handle, number] as const] : [])))
  const places = new Map<TensorNode, BlankValue['from']>()
  return nodes.flatMap((node): BlankValue[] => {
    const slot = kept.get(node)
    const leaf = node.op === 'leaf' && node.attrs.layout === 'plain' ? leaves.get(node.attrs.storage) : undefined
    const [operand] = isAlias(node) ? operandsOf(node) : []
    const from = slot !== undefined ? { slot } : leaf !== undefined ? { leaf } : operand && places.get(operand)
    if (from !== undefined) places.set(node, from)
    const number = node.op === 'leaf' || node.handle === undefined ? undefined : byHandle.get(node.handle)
    return from === undefined || number === undefined ? [] : [{ node: number, from }]
  })
}

function leafNumbers({ nodes }: Numbered): ReadonlyMap<unknown, number> {
  return new Map(nodes.flatMap((node, number) => (node.op === 'leaf' ? [[node.attrs.storage, number] as const] : [])))
}

/** Lowers and compiles the work of every step, once per distinct operation. */
async function prepareAll(device: Device, steps: readonly Step[]): Promise<Map<Step, Prepared>> {
  const { work: known } = knownOf(device)
  const pending = steps
    .filter(({ node }) => hasKernels(node.op))
    .map(async (step): Promise<[Step, Prepared]> => {
      const key = keyOf(step.node)
      const work = known.get(key) ?? prepare(device, step.node)
      known.set(key, work)
      work.catch(() => known.delete(key)) // a failed compile may be tried again
      return [step, await work]
    })
  return new Map(await Promise.all(pending))
}

async function prepare(device: Device, node: TensorNode): Promise<Prepared> {
  try {
    const work = lower(node, device.caps)
    const programs = await Promise.all(work.launches.map((launch) => device.compile(launch.kernel)))
    return { work, programs }
  } catch (error) {
    const refused = isIngotError(error, 'unsupported') || isIngotError(error, 'compile-failed') || isIngotError(error, 'bad-kernel')
    throw refused ? new OperationFailure(node, error) : error
  }
}

function keyOf(node: TensorNode): string {
  const operand = (child: TensorNode): string => `${child.dtype}[${child.shape.join()}]`
  return `${node.op} ${textOf(node.attrs)} ${operand(node)} ${operandsOf(node).map(operand).join(' ')}`
}

/** Where tensors and scratch memory of a graph will be. */
class Places {
  readonly #allocation: Allocation
  readonly #leaves: ReadonlyMap<unknown, number>

  constructor(allocation: Allocation, graph: Numbered) {
    this.#allocation = allocation
    this.#leaves = leafNumbers(graph)
  }

  blankOf(node: TensorNode): Blank {
    const place = this.#allocation.placeOf(node)
    if ('slot' in place) return { slot: place.slot, bytes: bytesOf(node) }
    const { storage, layout } = place.leaf.attrs
    const leaf = this.#leaves.get(storage)
    if (leaf === undefined) throw new IngotError('bad-argument', 'a rewrite made a leaf', { op: 'plan', got: place.leaf.label })
    return { leaf, layout }
  }

  scratchOf(step: Step, name: string, bytes: number): Blank | undefined {
    const slot = this.#allocation.scratchOf(step)[name]
    return slot === undefined ? undefined : { slot, bytes }
  }
}

function encode(step: Step, places: Places, ready: Prepared | undefined): BlankCommand[] {
  const { result, node } = step
  if (ready === undefined) return [copyInto(places, result)]
  const names = inputNames(node)
  // Which tensor each buffer is depends on the node; the work itself is shared between nodes.
  const bound = new Map([...operandsOf(node).map((operand, i) => [names[i] ?? '', operand] as const), ['y', result] as const])
  return ready.work.launches.map((launch, i): BlankCommand => {
    const program = ready.programs[i]
    if (program === undefined) throw new IngotError('bad-argument', `${launch.kernel.name} was not compiled`, { op: node.op })
    const buffers = boundBuffers(launch).map((name): Blank => {
      const tensor = bound.get(name)
      const blank = places.scratchOf(step, name, ready.work.scratch?.[name] ?? 4) ?? (tensor && places.blankOf(tensor))
      if (blank === undefined) throw new IngotError('bad-argument', `kernel ${launch.kernel.name} wants a buffer ${name}`, { op: node.op })
      return blank
    })
    return { kind: 'dispatch', program, buffers, uniforms: packUniforms(launch.kernel, launch.uniforms), grid: launch.grid }
  })
}

/** The bytes of an assigned value, or of what is copied, into the result's place. */
function copyInto(places: Places, result: TensorNode): BlankCommand {
  const from = operandsOf(result).at(-1)
  if (from === undefined) throw new IngotError('bad-argument', `${result.op} has nothing to copy`, { op: 'plan' })
  return { kind: 'copy', from: places.blankOf(from), to: places.blankOf(result), bytes: words(bytesOf(from)) }
}

/** Commands move whole words. */
function words(bytes: number): number {
  return Math.ceil(bytes / 4) * 4
}
