// What methods are made of: a tensor's shape and type, and a way to apply operations. Methods make nodes and nothing else; whoever extends
// the last of these classes (methods.ts) says how. So definitions of operations, and gradients, are written with the words of users.

import { describeKind } from '../../base/argument.ts'
import { type ElementType, isElementType } from '../../base/element.ts'
import { type AttrsOf, type OpName, type Operations, type TensorType, sizeOf } from '../node.ts'
import { checkList, checkWhole, fail } from '../operand.ts'

type Each<S extends readonly unknown[], T> = { readonly [I in keyof S]: T }
/** As many tensors as an operation has operands. */
export type SourcesOf<O extends OpName, T> = Each<Operations[O]['operands'], T>

/** One axis or several, counted from the end if below 0; default: all. */
export type Axes = number | readonly number[]

export abstract class BaseMethods {
  abstract readonly shape: readonly number[]
  /** what its elements are: a type of numbers, or the format of a weight */
  abstract readonly dtype: TensorType

  /** The result of an operation on tensors of this kind. */
  protected abstract apply<O extends OpName>(op: O, src: SourcesOf<O, this>, attrs: AttrsOf<O>): this

  /** how many elements it has */
  get size(): number {
    return sizeOf(this.shape)
  }
  /** how many axes it has */
  get rank(): number {
    return this.shape.length
  }

  /** the shape as text, for messages */
  protected get form(): string {
    return `[${this.shape.join(',')}]`
  }

  /** Refuses operands that are neither tensors nor numbers; `op` is who asks, `first` the number of the first. */
  protected checkOperands(op: string, operands: readonly unknown[], first = 0): void {
    for (let i = 0; i < operands.length; i++) {
      const operand = operands[i]
      if (typeof operand !== 'number' && !(operand instanceof BaseMethods))
        fail(op, `operand ${first + i} is no tensor`, describeKind(operand), 'a tensor or a number')
    }
  }

  /** Refuses operands that are no tensors; those that may be left out may be undefined. */
  protected checkTensors(op: string, operands: readonly unknown[], optional: readonly unknown[] = []): void {
    ;[...operands, ...optional.filter((operand) => operand !== undefined)].forEach((operand, i) => {
      if (!(operand instanceof BaseMethods)) fail(op, `operand ${i} is no tensor`, describeKind(operand), 'a tensor')
    })
  }

  /** The type of a tensor of single elements; `op` is who asks. */
  protected elementType(op: string): ElementType {
    const { dtype } = this
    return isElementType(dtype) ? dtype : fail(op, 'a weight is no operand', dtype, 'single elements', `.to('f32') gives its values`)
  }

  /** An axis from 0 on; `op` is who asks. */
  protected axisOf(op: string, axis: number): number {
    checkWhole(op, 'the axis', axis, -this.rank, Math.max(0, this.rank - 1))
    return axis < 0 ? axis + this.rank : axis
  }

  /** Axes from 0 on, each once and in order. */
  protected axesOf(op: string, axes: Axes | undefined): number[] {
    if (axes === undefined) return this.shape.map((_, axis) => axis)
    if (typeof axes !== 'number') checkList(op, 'what names axes', axes)
    const list = (typeof axes === 'number' ? [axes] : axes).map((axis) => this.axisOf(op, axis))
    if (new Set(list).size !== list.length) fail(op, 'an axis is named twice', axes)
    return list.toSorted((a, b) => a - b)
  }
}
