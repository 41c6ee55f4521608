// Decides where each value of a kernel is written down. Expressions are a DAG; text is a tree. A pure expression that is used
// twice, or that would make a line too long, gets a name of its own, declared in the innermost block that sees all its uses.
// A load or a read of a variable that is used once is written right where it is used, if nothing it depends on changes in
// between. What nobody uses is left out. Knows no language.

import { type Kernel, memoryOf } from '../ir/kernel.ts'
import type { Node } from '../ir/node.ts'
import { opRecord } from '../ir/op.ts'

/** One occurrence of a block. The same block node may stand in several places. */
export interface Place {
  readonly block: Node
  readonly parent: Place | undefined
  /** which statement of the parent it belongs to */
  readonly index: number
  readonly depth: number
  /** the blocks of each statement */
  readonly inner: readonly (readonly Place[])[]
  /** expressions to declare before each statement, operands first */
  readonly binds: readonly Node[][]
}

export interface Plan {
  readonly root: Place
  /** value of each `let` that is written where it is used, by id */
  readonly inlined: ReadonlyMap<number, Node>
  /** names wished for a `let`, by id, when the author named it in a second `let` */
  readonly renamed: ReadonlyMap<number, string>
  /** pure expressions that have a name: after their `let` or declaration they are spoken of by it */
  readonly named: ReadonlySet<Node>
  /** true for a `let` or `var` that something depends on */
  isLive(id: number): boolean
}

export interface PlanOptions {
  /** True if the expression is as short as a name. */
  readonly isShort: (node: Node) => boolean
  /** How often the text of `node` repeats its operand; more than once asks for a name. */
  readonly repeats: (node: Node, operand: number) => number
}

interface Site { readonly place: Place; readonly index: number; readonly fixed: boolean }

/** Longest expression on one line, in operations and operands. */
const LONGEST = 22

export function plan(kernel: Kernel, options: PlanOptions): Plan {
  const root = layOut(kernel.body, undefined, 0)
  const definitions = new Map<number, Node>()
  const sets = new Map<number, Node[]>()
  visitPlaces(root, (place) => place.block.src.forEach((statement) => {
    if (statement.op === 'let' || statement.op === 'var') definitions.set(idOf(statement), statement)
    if (statement.op === 'set') sets.set(idOf(statement), [...(sets.get(idOf(statement)) ?? []), statement])
  }))
  const live = findLive(root, definitions, sets)
  const isLive = (id: number): boolean => live.has(id)
  const { renamed, aliases } = findAliases(root, definitions, isLive)

  const sites = new Map<Node, Site[]>()
  const addSite = (node: Node, site: Site, times = 1): void => {
    const known = sites.get(node) ?? []
    for (let count = 0; count < times; count++) known.push(site)
    sites.set(node, known)
  }
  visitPlaces(root, (place) => place.block.src.forEach((statement, index) => {
    if (!isKept(statement, isLive)) return
    const site = { place, index, fixed: false }
    for (const [parent, operand, node] of operandsOf(statement)) addSite(node, site, options.repeats(parent, operand))
  }))
  const named = placeExpressions(sites, addSite, options)
  const inlined = inlineLets(kernel, root, sites, aliases, isLive)
  for (const [id, value] of aliases) inlined.set(id, value)
  return { root, inlined, renamed, named, isLive }
}

/** True for statements that must be written; `let`s and variables nobody reads are not. */
export function isKept(statement: Node, isLive: (id: number) => boolean): boolean {
  switch (statement.op) {
    case 'let': return isLive(idOf(statement)) || statement.src[0]?.op === 'atomic'
    case 'var': case 'set': return isLive(idOf(statement))
    default: return true
  }
}

export function idOf(node: Node): number {
  return typeof node.arg === 'number' ? node.arg : Number((node.arg as { id: number }).id)
}

function layOut(block: Node, parent: Place | undefined, index: number): Place {
  const inner: Place[][] = []
  const place: Place = { block, parent, index, depth: parent === undefined ? 0 : parent.depth + 1, inner, binds: block.src.map(() => []) }
  block.src.forEach((statement, at) => {
    inner.push(statement.op === 'block' ? [layOut(statement, place, at)]
      : statement.src.filter(({ op }) => op === 'block').map((child) => layOut(child, place, at)))
  })
  return place
}

function visitPlaces(place: Place, visit: (place: Place) => void): void {
  visit(place)
  for (const places of place.inner) for (const child of places) visitPlaces(child, visit)
}

/** The expressions a statement evaluates itself. What an effect is given counts as the statement's own. */
function operandsOf(statement: Node): [parent: Node, operand: number, node: Node][] {
  if (statement.op === 'block') return []
  const first = statement.src[0]
  const holder = statement.op === 'let' && first !== undefined && opRecord(first.op).kind === 'effect' ? first : statement
  return holder.src.flatMap((node, operand) => (node.op === 'block' ? [] : [[holder, operand, node]]))
}

function findLive(root: Place, definitions: ReadonlyMap<number, Node>, sets: ReadonlyMap<number, readonly Node[]>): Set<number> {
  const live = new Set<number>()
  const seen = new Set<Node>()
  const mark = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    if (node.op === 'local' || node.op === 'get') {
      live.add(idOf(node))
      for (const statement of [definitions.get(idOf(node)), ...(sets.get(idOf(node)) ?? [])]) statement?.src.forEach(mark)
    }
    node.src.forEach(mark)
  }
  visitPlaces(root, (place) => place.block.src.forEach((statement) => {
    if (statement.op === 'var' || statement.op === 'set') return
    if (statement.op === 'let' && statement.src[0]?.op !== 'atomic') return
    for (const [, , node] of operandsOf(statement)) mark(node)
  }))
  return live
}

/** A `let` of a leaf says nothing new, except perhaps a better name for the `let` it repeats. */
function findAliases(root: Place, definitions: ReadonlyMap<number, Node>, isLive: (id: number) => boolean) {
  const aliases = new Map<number, Node>()
  const renamed = new Map<number, string>()
  visitPlaces(root, (place) => place.block.src.forEach((statement) => {
    const value = statement.src[0]
    if (statement.op !== 'let' || value === undefined || !isLive(idOf(statement))) return
    if (!['const', 'local', 'index', 'uniform'].includes(value.op)) return
    aliases.set(idOf(statement), value)
    if (value.op !== 'local') return
    const origin = aliases.get(idOf(value)) ?? value
    if (origin.op === 'local' && definitions.get(idOf(origin))?.op === 'let' && !renamed.has(idOf(origin))) {
      renamed.set(idOf(origin), (statement.arg as { name: string }).name)
    }
  }))
  return { aliases, renamed }
}

/** Spreads uses from parents to operands, and names what is used twice or too long. */
function placeExpressions(
  sites: Map<Node, Site[]>, addSite: (node: Node, site: Site, times?: number) => void, { isShort, repeats }: PlanOptions,
): Set<Node> {
  const nodes = reachable([...sites.keys()])
  const uses = new Map<Node, number>()
  const count = (node: Node, times: number): void => void uses.set(node, (uses.get(node) ?? 0) + times)
  for (const [node, list] of sites) count(node, list.length)
  for (const node of nodes) node.src.forEach((operand, at) => count(operand, repeats(node, at)))
  const bound = new Set(nodes.filter((node) => (uses.get(node) ?? 0) > 1 && !isShort(node)))
  splitLong(nodes, bound, isShort)

  const named = new Set<Node>()
  for (const node of nodes.toReversed()) {
    const own = sites.get(node) ?? []
    const first = own[0]
    if (first === undefined) continue
    let passed: readonly Site[] = own
    if (bound.has(node)) {
      const { place, index } = own.reduce(meet)
      const statement = place.block.src[index]
      named.add(node)
      const isLet = statement?.op === 'let' && statement.src[0] === node && own.some((site) => site.place === place && site.index === index && !site.fixed)
      if (isLet && own.every((site) => site.place !== place || site.index !== index || !site.fixed)) passed = [{ place, index, fixed: false }]
      else {
        place.binds[index]?.unshift(node)
        passed = [{ place, index, fixed: true }]
      }
    }
    node.src.forEach((operand, at) => { for (const site of passed) addSite(operand, site, repeats(node, at)) })
  }
  return named
}

/** Every pure expression below these, operands before what uses them. */
function reachable(roots: readonly Node[]): Node[] {
  const seen = new Set<Node>()
  const go = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    node.src.forEach(go)
  }
  roots.forEach(go)
  return [...seen].sort((a, b) => a.id - b.id)
}

function splitLong(nodes: readonly Node[], bound: Set<Node>, isShort: (node: Node) => boolean): void {
  const sizes = new Map<Node, number>()
  const sizeOf = (node: Node): number => (bound.has(node) ? 1 : (sizes.get(node) ?? 1))
  for (const node of nodes) {
    const total = (): number => node.src.reduce((sum, operand) => sum + sizeOf(operand), 1)
    while (total() > LONGEST) {
      const largest = node.src.reduce((a, b) => (sizeOf(b) > sizeOf(a) ? b : a))
      if (sizeOf(largest) < 4) break
      bound.add(largest)
    }
    sizes.set(node, isShort(node) ? 1 : total())
  }
}

/** The last place before both sites. */
function meet(a: Site, b: Site): Site {
  let [one, two] = [a, b]
  while (one.place !== two.place) {
    if (one.place.depth >= two.place.depth) one = outside(one)
    else two = outside(two)
  }
  return { place: one.place, index: Math.min(one.index, two.index), fixed: true }
}

function outside({ place }: Site): Site {
  if (place.parent === undefined) throw new Error('sites of different kernels')
  return { place: place.parent, index: place.index, fixed: true }
}

/** Which `let`s of loads and variables can be written where they are used. */
function inlineLets(
  kernel: Kernel, root: Place, sites: ReadonlyMap<Node, readonly Site[]>, aliases: ReadonlyMap<number, Node>, isLive: (id: number) => boolean,
): Map<number, Node> {
  const inlined = new Map<number, Node>()
  const locals = new Map<number, Site[]>()
  for (const [node, list] of sites) if (node.op === 'local') locals.set(idOf(node), [...list])
  const pinned = new Set<number>()
  for (const [id, value] of aliases) {
    if (value.op !== 'local') continue
    pinned.add(idOf(value))
    locals.set(idOf(value), [...(locals.get(idOf(value)) ?? []), ...(locals.get(id) ?? [])])
  }
  visitPlaces(root, (place) => {
    const { src: statements } = place.block
    const moved = new Map<number, number>() // statement -> where its value ends up
    for (let at = statements.length - 1; at >= 0; at--) {
      const statement = statements[at] as Node
      const value = statement.src[0]
      if (statement.op !== 'let' || value === undefined || (value.op !== 'load' && value.op !== 'get')) continue
      const uses = locals.get(idOf(statement)) ?? []
      if (uses.length === 0 || !isLive(idOf(statement))) continue
      if (value.op === 'load' && (uses.length > 1 || pinned.has(idOf(statement)) || deepSize(value) > 10)) continue
      const ends = uses.map((site) => endOf(site, place, moved))
      if (value.op === 'load' && ends.some(({ nested }) => nested)) continue
      const end = Math.max(...ends.map(({ index }) => index))
      const within = ends.some(({ index, nested }) => nested && index === end)
      const changes = statements.slice(at + 1, within ? end + 1 : end).some((between) => disturbs(kernel, between, value))
      if (changes) continue
      inlined.set(idOf(statement), value)
      moved.set(at, end)
    }
  })
  return inlined
}

/** The statement of `place` in which a use is written, and whether it may run there more than once or later. */
function endOf(site: Site, place: Place, moved: ReadonlyMap<number, number>): { index: number; nested: boolean } {
  let at = site
  while (at.place !== place) at = outside(at)
  const nested = site.place !== place
  if (nested || at.fixed) return { index: at.index, nested }
  const op = place.block.src[at.index]?.op
  return { index: moved.get(at.index) ?? at.index, nested: op === 'for' || op === 'loop' }
}

function deepSize(node: Node): number {
  return node.src.reduce((sum, operand) => sum + deepSize(operand), 1)
}

/** True if running `statement` may change what `value` (a load or a get) gives. */
function disturbs(kernel: Kernel, statement: Node, value: Node): boolean {
  if (statement.op === 'set' && value.op === 'get') return idOf(statement) === idOf(value)
  if (value.op === 'load') {
    const { mem } = value.arg as { mem: string }
    const memory = memoryOf(kernel, mem)
    if (memory !== undefined && 'role' in memory && memory.role === 'read') return false
    if (statement.op === 'barrier') return true
    const writer = statement.op === 'let' ? statement.src[0] : statement
    if (writer !== undefined && ['store', 'tileStore', 'atomic'].includes(writer.op) && (writer.arg as { mem: string }).mem === mem) return true
  }
  return statement.src.some((child) => (child.op === 'block' || statement.op === 'block') && disturbs(kernel, child, value))
}
