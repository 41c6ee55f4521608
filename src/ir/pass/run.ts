// Finds loads that lie side by side: in one block, from one read-only buffer, at the same index but for constants that follow
// each other. Blocks of quantised weights are read like that. Knows nothing of how the elements are packed.

import type { Node } from '../node.ts'
import { constantOf } from './constant.ts'

/** Elements `first`, `first` + 1, ... of a buffer; `ids` are the locals that each of them is bound to. */
export interface Run {
  readonly mem: string
  /** the index of the first element */
  readonly first: Node
  readonly ids: readonly (readonly number[])[]
}

interface Found {
  readonly id: number
  readonly index: Node
  readonly offset: number
}

/** The runs of two elements or more among the statements of a block; `takes` says which buffers may be looked at. */
export function findRuns(statements: readonly Node[], takes: (mem: string) => boolean): Run[] {
  const found = new Map<string, Map<Node, Found[]>>()
  for (const { op, src, arg } of statements) {
    if (op !== 'let' || src[0].op !== 'load' || src[0].arg.width !== undefined) continue
    const {
      src: [index],
      arg: { mem },
    } = src[0]
    if (!takes(mem)) continue
    const { base, offset } = split(index)
    const ofMemory = found.get(mem) ?? new Map<Node, Found[]>()
    ofMemory.set(base, [...(ofMemory.get(base) ?? []), { id: arg.id, index, offset }])
    found.set(mem, ofMemory)
  }
  return [...found].flatMap(([mem, ofMemory]) => [...ofMemory.values()].flatMap((loads) => runsOf(mem, loads)))
}

function runsOf(mem: string, loads: readonly Found[]): Run[] {
  const runs: { readonly mem: string; readonly first: Node; readonly ids: number[][]; end: number }[] = []
  for (const { id, index, offset } of [...loads].sort((a, b) => a.offset - b.offset)) {
    const last = runs.at(-1)
    if (last !== undefined && offset === last.end) last.ids.at(-1)?.push(id)
    else if (last !== undefined && offset === last.end + 1) {
      last.ids.push([id])
      last.end = offset
    } else runs.push({ mem, first: index, ids: [[id]], end: offset })
  }
  return runs.filter(({ ids }) => ids.length > 1)
}

/** `x + 3` as `x` and 3. */
function split(index: Node): { base: Node; offset: number } {
  const added = index.op === 'add' ? constantOf(index.src[1]) : undefined
  // a constant this large was a subtraction
  if (index.op !== 'add' || added === undefined || added >= 2 ** 31) return { base: index, offset: 0 }
  const inner = split(index.src[0])
  return { base: inner.base, offset: inner.offset + added }
}
