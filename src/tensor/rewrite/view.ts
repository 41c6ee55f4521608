// Who reads a view of memory. Maps and reductions read any view as it is; for all others, and for who asked, what is seen is copied into
// memory of its own, once for all of them. The numbers of an `iota` are no memory at all: a map counts them.

import type { MapExpr, MapInput } from '../../kernel/map/map.ts'
import { withOperands } from '../graph.ts'
import { type ElementType, type NodeOf, type TensorNode, inPlaceOf, operandsOf, sizeOf } from '../node.ts'
import { constantOf } from './chain.ts'
import { type Seen, expanded, isWhole, permuted, reshaped, seenWhole, sliced } from '../view.ts'
import type { Rewrite } from './rewrite.ts'

export const views: Rewrite = {
  name: 'views',
  about: 'maps and reductions read permuted, expanded, sliced and counted tensors in place; others get them copied',
  concerns: () => true,
  begin: () => {
    const looks = new Looks()
    return {
      rule: (node) => {
        if (isView(node)) return undefined
        if (node.op === 'map') return node.attrs.inputs === undefined ? readingViews(node, node.shape, looks) : undefined
        if (node.op === 'reduce') {
          const [x] = node.src
          const source = node.attrs.source ?? { expr: { input: 0 }, shape: x.shape, type: x.dtype as ElementType } // `infer` has seen it
          return readingViews({ ...node, attrs: { ...node.attrs, source } }, source.shape, looks)
        }
        return withOperands(
          node,
          operandsOf(node).map((operand) => looks.inMemory(operand)),
        )
      },
      finish: (root) => looks.inMemory(root),
    }
  },
}

type ViewNode = NodeOf<'reshape' | 'permute' | 'expand' | 'slice' | 'iota'>

function isView(node: TensorNode): node is TensorNode & ViewNode {
  return node.op === 'reshape' || node.op === 'permute' || node.op === 'expand' || node.op === 'slice' || node.op === 'iota'
}

/** What a node shows: elements in the memory of another, or numbers that are counted. */
interface Look {
  readonly base: TensorNode
  readonly seen: Seen
}

class Looks {
  readonly #looks = new Map<TensorNode, Look>()
  readonly #copies = new Map<TensorNode, TensorNode>()

  of(node: TensorNode): Look {
    const known = this.#looks.get(node) ?? this.#look(node)
    this.#looks.set(node, known)
    return known
  }

  #look(node: TensorNode): Look {
    switch (node.op) {
      case 'iota': {
        const { shape, axis } = node.attrs
        return { base: node, seen: { shape, strides: shape.map((_, i) => (i === axis ? 1 : 0)), offset: 0 } }
      }
      case 'permute': {
        const { base, seen } = this.of(node.src[0])
        return { base, seen: permuted(seen, node.attrs.axes) }
      }
      case 'expand': {
        const { base, seen } = this.of(node.src[0])
        return { base, seen: expanded(seen, node.shape) }
      }
      case 'slice': {
        const { base, seen } = this.of(node.src[0])
        return { base, seen: sliced(seen, node.attrs) }
      }
      case 'reshape': {
        const { base, seen } = this.of(node.src[0])
        const again = reshaped(seen, node.shape)
        return again === undefined ? { base: this.inMemory(node.src[0]), seen: seenWhole(node.shape) } : { base, seen: again }
      }
      default:
        return { base: node, seen: seenWhole(node.shape) }
    }
  }

  /** The node as memory that lies row by row: itself, another shape of it, or a copy. */
  inMemory(node: TensorNode): TensorNode {
    if (!isView(node)) return node
    const known = this.#copies.get(node) ?? this.#place(node)
    this.#copies.set(node, known)
    return known
  }

  #place(node: TensorNode): TensorNode {
    const constant = constantOf(node)
    if (constant !== undefined) return mapLike(node, constant, [])
    const look = this.of(node)
    const { base, seen } = look
    const isAll = base.op !== 'iota' && isWhole(seen) && sizeOf(base.shape) === sizeOf(node.shape)
    if (isAll) return reshape(base, node)
    const input = inputOf(look, node.shape)
    return mapLike(node, { input: 0 }, [input], input.counts ? [] : [base])
  }
}

/** A map with the value of a node. */
function mapLike(node: TensorNode, expr: MapExpr, inputs: readonly MapInput[], src: readonly TensorNode[] = []): TensorNode {
  const { shape, dtype } = node
  return inPlaceOf(node, { op: 'map', shape, dtype, src, attrs: { expr, type: dtype as ElementType, inputs } }) // views have elements
}

/** A map or a reduction with its operands as the memory that they are views of. */
function readingViews(node: NodeOf<'map'> | NodeOf<'reduce'>, shape: readonly number[], looks: Looks): TensorNode {
  const seen = operandsOf(node).map((operand) => looks.of(operand))
  const inputs = seen.map((look) => inputOf(look, shape))
  const src = seen.filter((_, i) => !inputs[i]?.counts).map(({ base }) => base)
  return { ...node, src, attrs: { ...node.attrs, inputs } } as TensorNode // of as many operands as it reads
}

function inputOf({ base, seen }: Look, shape: readonly number[]): MapInput {
  const { strides, offset } = expanded(seen, shape)
  const input = { type: base.dtype as ElementType, strides, ...(offset > 0 && { offset }) } // `infer` has seen its type
  return base.op === 'iota' ? { ...input, counts: true } : input
}

function reshape(base: TensorNode, node: TensorNode): TensorNode {
  const { shape, dtype } = node
  return inPlaceOf(node, { op: 'reshape', shape, dtype, src: [base], attrs: { shape } })
}
