// Elementwise expressions of tensors that broadcast together. The operations of expressions are records in kernel/map/op.ts.

import { derivativeOf } from '../../kernel/map/derivative.ts'
import { type MapExpr, substitute } from '../../kernel/map/expr.ts'
import { map } from '../../kernel/map/map.ts'
import { type MapInput, checkMap } from '../../kernel/map/params.ts'
import { type ElementType, type NodeOf, type TensorNode, sizeOf } from '../node.ts'
import type { Methods } from '../method/methods.ts'
import { checkElementType, checkElements } from '../operand.ts'
import { broadcast, stridesFor } from '../shape.ts'
import { isWhole } from '../view.ts'
import type { Operation } from './operation.ts'

/** Operands of a map with this result, as they lie in memory; `infer` has seen their types. */
export const inputsOf = (src: readonly TensorNode[], shape: readonly number[]): MapInput[] =>
  src.map((node) => ({ type: node.dtype as ElementType, strides: stridesFor(node.shape, shape) }))

/** What users call a map that does this last. */
export function nameOfMap(expr: MapExpr): string {
  if (typeof expr !== 'object' || expr === null) return 'map'
  return 'op' in expr ? (expr.op === 'select' ? 'where' : expr.op) : 'cast' in expr ? 'to' : 'map'
}

/** The inputs that are operands, in order: those that are counted have no memory. */
export function operandNumbers(src: readonly TensorNode[], inputs: readonly MapInput[] | undefined): readonly number[] {
  return inputs === undefined ? src.map((_, i) => i) : inputs.flatMap(({ counts }, i) => (counts ? [] : [i]))
}

function namesOf(node: NodeOf<'map'>): readonly string[] {
  return operandNumbers(node.src, node.attrs.inputs).map((i) => (i === node.attrs.inPlace ? 'y' : `in${i}`))
}

/** An expression of only those tensors that it reads. */
function product(one: Methods, expr: MapExpr, src: readonly Methods[], type: ElementType): Methods {
  const used: Methods[] = []
  const compact = substitute(expr, (leaf) => {
    const tensor = 'input' in leaf ? src[leaf.input] : undefined
    if (tensor === undefined) return undefined
    const known = used.indexOf(tensor)
    return { input: known >= 0 ? known : used.push(tensor) - 1 }
  })
  return one.expression(compact, used, type)
}

/** The map computed in the memory of an operand, if each element is read just where the result's is written; else undefined. */
export function mapInPlace(node: NodeOf<'map'>, operand: number): NodeOf<'map'> | undefined {
  const { shape, src, attrs } = node
  const [inPlace, from] = [operandNumbers(src, attrs.inputs)[operand], src[operand]]
  const input = inPlace === undefined ? undefined : (attrs.inputs ?? inputsOf(src, shape))[inPlace]
  if (inPlace === undefined || input === undefined || from === undefined) return undefined
  const isAll = isWhole({ shape, strides: input.strides, offset: input.offset ?? 0 }) && sizeOf(from.shape) === sizeOf(shape)
  return isAll && input.type === attrs.type ? { ...node, attrs: { ...attrs, inPlace } } : undefined
}

export const MAP: { readonly map: Operation<'map'> } = {
  map: {
    about: 'an expression of elements of tensors that broadcast together',
    infer: (src, { expr, type }) => {
      checkElementType('map', type)
      const name = nameOfMap(expr)
      src.forEach((node, i) => checkElements(name, `operand ${i}`, node))
      const shape = broadcast(
        name,
        src.map((node) => node.shape),
      )
      checkMap({ expr, type, shape, inputs: inputsOf(src, shape) })
      return { shape, dtype: type }
    },
    gradient: ({ src, out, cotangent, attrs, wants }) => {
      const types = src.map(({ dtype }) => dtype as ElementType)
      const [result, factor] = [{ input: src.length }, { input: src.length + 1 }] as const
      return src.map((operand, input) => {
        const derivative = wants(input) ? derivativeOf(attrs.expr, { types, input, result }) : 0
        if (derivative === 0) return undefined
        const change =
          derivative === 1 ? cotangent : product(cotangent, { op: 'mul', args: [factor, derivative] }, [...src, out, cotangent], attrs.type)
        return change.sumTo(operand.shape).to(operand.dtype as ElementType)
      })
    },
    lower: ({ shape, src, attrs }, caps) => map.work(caps, { inputs: inputsOf(src, shape), ...attrs, shape }),
    inputs: namesOf,
    /** as an operand: counted inputs are none */
    inPlace: (node) => {
      const at = namesOf(node).indexOf('y')
      return at < 0 ? undefined : at
    },
  },
}
