// Methods that multiply and add: products of matrices, and what is made of them.

import { checkArgument, isString } from '../../base/argument.ts'
import type { ElementType } from '../../base/element.ts'
import { fail } from '../operand.ts'
import { isFloatType, promote } from '../promote.ts'
import { GatherMethods } from './gather.ts'

/** What a linear layer with a low-rank change may have beside it. */
export interface LoraParts<T> {
  readonly bias?: T | undefined
  readonly seen?: T | undefined
}

export abstract class ProductMethods extends GatherMethods {
  /**
   * The product of matrices in the last two axes; what comes before broadcasts. A tensor of one axis is a row on the left and a column on
   * the right, and that axis is gone in the result.
   */
  matmul(other: this): this {
    this.checkTensors('matmul', [other])
    if (this.rank === 0 || other.rank === 0) fail('matmul', 'factors have an axis at least', `${this.form} x ${other.form}`)
    if (this.rank === 1)
      return this.unsqueeze(0)
        .matmul(other)
        .squeeze(other.rank === 1 ? 0 : -2)
    if (other.rank === 1) return this.matmul(other.unsqueeze(1)).squeeze(-1)
    const type = promote(this.elementType('matmul'), other.elementType('matmul'))
    if (!isFloatType(type) && type !== 'bool') return this.#integerProduct(other, type)
    const float = type === 'bool' ? 'f32' : type
    return this.apply('matmul', [this.to(float), other.to(float)], { transposeA: false, transposeB: false })
  }
  /** Products of integers are summed as such: floats would round them. */
  #integerProduct(other: this, type: ElementType): this {
    const [a, b] = [this.shape, other.shape]
    if (a.at(-1) !== b.at(-2)) fail('matmul', 'inner sizes differ', `${this.form} x ${other.form}`, undefined, 'transpose one of them?')
    const wide = type === 'u32' || type === 'u8' ? 'u32' : 'i32'
    return this.to(wide).unsqueeze(-1).mul(other.to(wide).unsqueeze(-3)).sum(-2).to(type)
  }
  /** The sum of products of two tensors of one axis. */
  dot(other: this): this {
    this.checkTensors('dot', [other])
    if (this.rank !== 1 || other.rank !== 1) fail('dot', 'factors have one axis', `${this.form} x ${other.form}`)
    return this.mul(other).sum()
  }
  /** All products of an element of this with one of the other, both as one axis. */
  outer(other: this): this {
    this.checkTensors('outer', [other])
    return this.reshape(this.size, 1).mul(other.reshape(1, other.size))
  }
  /** this [.., k] times weight [m, k], transposed, plus bias [m]. The weight may have any format. */
  linear(weight: this, bias?: this): this {
    if (this.rank === 1) return this.unsqueeze(0).linear(weight, bias).squeeze(0)
    return this.apply('linear', bias === undefined ? [this, weight] : [this, weight, bias], {})
  }
  /** This [.., m] times weight [m, k], in any format: what `linear` with it hands back to its input. */
  linearTransposed(weight: this): this {
    if (this.rank === 1) return this.unsqueeze(0).linearTransposed(weight).squeeze(0)
    return this.apply('linearTransposed', [this, weight], {})
  }
  /**
   * The linear layer of `weight` with a low-rank change: x Wᵀ + scale (x Aᵀ) Bᵀ + bias, with a [r, in] and b [out, r]. The weight may have
   * any format. `seen` is what the change sees instead of x: what dropout left of it.
   */
  lora(weight: this, a: this, b: this, scale = 1, { bias, seen }: LoraParts<this> = {}): this {
    this.checkTensors('lora', [weight, a, b], [bias, seen])
    if (this.rank === 1)
      return this.unsqueeze(0)
        .lora(weight, a, b, scale, { bias, seen: seen?.unsqueeze(0) })
        .squeeze(0)
    const more = [...(seen === undefined ? [] : [seen]), ...(bias === undefined ? [] : [bias])]
    return this.apply('lora', [this, weight, a, b, ...more], { scale, seen: seen !== undefined, bias: bias !== undefined })
  }
  /** The rows of this table, in any format, that `ids` name. */
  embedding(ids: this): this {
    this.checkTensors('embedding', [ids])
    return this.apply('embedding', [this, ids.dtype === 'i32' || ids.dtype === 'i64' ? ids.to('u32') : ids], {})
  }

  /**
   * Sums of products over named axes: `a.einsum('ij,jk->ik', b)` is a product of matrices. This tensor is the first operand. An axis that
   * the result does not name is summed over; without `->`, those that are named once are kept, in alphabetical order.
   */
  einsum(spec: string, ...others: readonly this[]): this {
    checkArgument('einsum', 'what names the axes', spec, 'a text such as ij,jk->ik', isString)
    this.checkTensors('einsum', others)
    const { inputs, output } = parseEinsum(spec, [this, ...others])
    const operands = [this, ...others].map((tensor, i) => diagonals(tensor, inputs[i] ?? ''))
    let [left, ...rest] = operands
    while (left !== undefined && rest.length > 0) {
      const [right, ...more] = rest
      if (right === undefined) break
      left = contract(left, right, new Set([...output, ...more.flatMap(({ names }) => [...names])]))
      rest = more
    }
    return left === undefined ? this : arranged(left, output)
  }
}

/** A tensor whose axes have names. */
interface Named<T> {
  readonly tensor: T
  readonly names: string
}

function parseEinsum(spec: string, tensors: readonly ProductMethods[]): { inputs: string[]; output: string } {
  const wrong = (what: string): never => fail('einsum', what, spec, 'names of axes such as ij,jk->ik')
  if (!/^[a-zA-Z]*(,[a-zA-Z]*)*(->[a-zA-Z]*)?$/.test(spec.replaceAll(' ', ''))) wrong('the axes cannot be read')
  const [left = '', right] = spec.replaceAll(' ', '').split('->')
  const inputs = left.split(',')
  if (inputs.length !== tensors.length) wrong(`there are ${tensors.length} tensors`)
  const sizes = new Map<string, number>()
  inputs.forEach((names, i) => {
    if (names.length !== tensors[i]?.rank) wrong(`operand ${i} has ${tensors[i]?.rank} axes`)
    ;[...names].forEach((name, axis) => {
      const size = tensors[i]?.shape[axis] ?? 1
      if (sizes.has(name) && sizes.get(name) !== size) wrong(`axis ${name} has ${sizes.get(name)} and ${size} elements`)
      sizes.set(name, size)
    })
  })
  const all = inputs.join('')
  const once = [...sizes.keys()].filter((name) => all.indexOf(name) === all.lastIndexOf(name)).sort()
  const output = right ?? once.join('')
  if (new Set(output).size !== output.length) wrong('the result names an axis twice')
  for (const name of output) if (!sizes.has(name)) wrong(`no operand has the axis ${name}`)
  return { inputs, output }
}

/** Axes of one name as one: the diagonal. */
function diagonals<T extends ProductMethods>(tensor: T, names: string): Named<T> {
  const twice = [...names].findIndex((name, axis) => names.indexOf(name) !== axis)
  if (twice < 0) return { tensor, names }
  const first = names.indexOf(names[twice] ?? '')
  const size = tensor.shape[twice] ?? 1
  const rest = [...names].map((_, axis) => axis).filter((axis) => axis !== first && axis !== twice)
  const flat = tensor.permute(...rest, first, twice).reshape(...rest.map((axis) => tensor.shape[axis] ?? 1), size * size)
  const diagonal = flat.slice(...rest.map(() => null), [0, null, size + 1])
  return diagonals(diagonal, [...rest, first].map((axis) => names[axis]).join(''))
}

/** Without the axes that nobody wants. */
function summed<T extends ProductMethods>({ tensor, names }: Named<T>, wanted: ReadonlySet<string>): Named<T> {
  const gone = [...names].flatMap((name, axis) => (wanted.has(name) ? [] : [axis]))
  return gone.length === 0 ? { tensor, names } : { tensor: tensor.sum(gone), names: [...names].filter((name) => wanted.has(name)).join('') }
}

/** The product of two, summed over axes that are not wanted afterwards: one product of matrices. */
function contract<T extends ProductMethods>(first: Named<T>, second: Named<T>, wanted: ReadonlySet<string>): Named<T> {
  const a = summed(first, new Set([...wanted, ...second.names]))
  const b = summed(second, new Set([...wanted, ...first.names]))
  const shared = [...a.names].filter((name) => b.names.includes(name))
  const [batch, inner] = [shared.filter((name) => wanted.has(name)), shared.filter((name) => !wanted.has(name))]
  const [left, right] = [a, b].map(({ names }) => [...names].filter((name) => !shared.includes(name)))
  const sizeOf = ({ tensor, names }: Named<T>, list: readonly string[]): number =>
    list.reduce((product, name) => product * (tensor.shape[names.indexOf(name)] ?? 1), 1)
  const sizesOf = ({ tensor, names }: Named<T>, list: readonly string[]): number[] =>
    list.map((name) => tensor.shape[names.indexOf(name)] ?? 1)
  const matrix = (of: Named<T>, ...groups: readonly (readonly string[])[]): T =>
    of.tensor.permute(...groups.flat().map((name) => of.names.indexOf(name))).reshape(...groups.map((group) => sizeOf(of, group)))
  const product = matrix(a, batch, left ?? [], inner).matmul(matrix(b, batch, inner, right ?? []))
  const tensor = product.reshape(...sizesOf(a, batch), ...sizesOf(a, left ?? []), ...sizesOf(b, right ?? []))
  return { tensor, names: [...batch, ...(left ?? []), ...(right ?? [])].join('') }
}

/** The axes of the result, in its order. */
function arranged<T extends ProductMethods>(named: Named<T>, output: string): T {
  const { tensor, names } = summed(named, new Set(output))
  return tensor.permute(...[...output].map((name) => names.indexOf(name)))
}
