// What the forms of a product for GPUs are written for, and the parts of their kernels that do not depend on how they multiply: which
// product of the batch and which tile of it a workgroup has, where its matrices lie, and where results go.

import type { Caps } from '../../base/caps.ts'
import { type Handles, type Scope, buffer, uniform } from '../../ir/author.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { Value } from '../../ir/value.ts'
import { formatOf } from '../../quant/index.ts'
import type { Launch } from '../family.ts'
import { flatGrid, flatGroup } from '../lanes.ts'
import { ELEMENT_STORAGE, type ElementType, writeElements } from './element.ts'
import { type MatmulParams, batchParams, batchUniforms, countOf, simplify, startsOf } from './params.ts'
import type { Source } from './stage.ts'

type U32 = Value<'u32'>

export interface GpuTraits {
  readonly type: ElementType
  readonly bias: boolean
  readonly transposeA: boolean
  readonly transposeB: boolean
  /** the last step goes past the end of l */
  readonly ragged: boolean
  /** rows of memory start at multiples of four elements */
  readonly alignedA: boolean
  readonly alignedB: boolean
  /** there are several products */
  readonly batched: boolean
}

/** For kernels that take l in steps of `step`. */
export function traitsOf(params: MatmulParams, step: number): GpuTraits {
  const { type, bias, transposeA, transposeB, k, batch } = simplify(params)
  return {
    type,
    bias,
    transposeA,
    transposeB,
    ragged: k % step !== 0,
    alignedA: !transposeA && k % 4 === 0 && batch.every(({ strideA }) => strideA % 4 === 0),
    alignedB: transposeB && k % 4 === 0 && batch.every(({ strideB }) => strideB % 4 === 0),
    batched: batch.length > 0,
  }
}

/** Aligned f32 is seen as vectors of four. */
export const gpuParams = ({ type, bias, alignedA, alignedB }: GpuTraits) => ({
  a: buffer(alignedA && type === 'f32' ? 'f32x4' : ELEMENT_STORAGE[type], 'read'),
  b: buffer(alignedB && type === 'f32' ? 'f32x4' : ELEMENT_STORAGE[type], 'read'),
  ...(bias ? { bias: buffer(ELEMENT_STORAGE[type], 'read') } : {}),
  y: buffer(ELEMENT_STORAGE[type], 'write'),
  m: uniform('u32'),
  n: uniform('u32'),
  k: uniform('u32'),
  /** of the batch */
  count: uniform('u32'),
  ...batchParams,
})

/** What a workgroup computes of y. */
export interface TileSize {
  readonly rows: number
  readonly columns: number
}

/** The dispatch of a kernel that was written for these parameters. */
export function gpuLaunch(caps: Caps, kernel: Kernel, params: MatmulParams, { rows, columns }: TileSize): Launch {
  const { m, n, k, batch } = simplify(params)
  const count = countOf(batch)
  const grid = flatGrid(caps, count * Math.ceil(m / rows) * Math.ceil(n / columns))
  return { kernel, uniforms: { m, n, k, count, ...batchUniforms(batch) }, grid }
}

/** A workgroup's part of a product. */
export interface GpuTile {
  /** of y */
  readonly rowFirst: Value<'u32', 'uniform'>
  readonly columnFirst: Value<'u32', 'uniform'>
  /** rows of a, and columns of b, along l */
  readonly left: Source
  readonly right: Source
  /** the element of y that the product begins with */
  readonly first: U32
  /** Takes an element of y, if that is one. */
  store(row: U32, column: U32, sum: Value<'f32'>): void
}

/** Runs `body` in workgroups that have something to compute. */
export function eachTile(
  k: Scope,
  traits: GpuTraits,
  p: Handles<ReturnType<typeof gpuParams>>,
  { rows, columns }: TileSize,
  body: (tile: GpuTile, k: Scope) => void,
): void {
  const { type, transposeA, transposeB, ragged, alignedA, alignedB, batched } = traits
  const { element } = formatOf(type)
  const group = k.let('group', flatGroup(k))
  const across = k.let('across', p.n.add(columns - 1).div(columns))
  const tiles = k.let(
    'tiles',
    p.m
      .add(rows - 1)
      .div(rows)
      .mul(across),
  )
  const product = k.let('product', batched ? group.div(tiles) : k.const('u32', 0))
  const inside = batched ? product.lt(p.count) : group.lt(tiles)
  k.when(inside, (k) => {
    const starts = batched ? startsOf(k, p, product) : undefined
    const tile = k.let('tile', batched ? group.rem(tiles) : group)
    const first = k.let('first', product.mul(p.m).mul(p.n))
    const shared = { inner: p.k, ragged }
    const left: Source = {
      ...shared,
      memory: p.a,
      element: alignedA && type === 'f32' ? undefined : element,
      rows: p.m,
      turned: transposeA,
      aligned: alignedA,
      ...(starts === undefined ? {} : { start: starts.a }),
    }
    const right: Source = {
      ...shared,
      memory: p.b,
      element: alignedB && type === 'f32' ? undefined : element,
      rows: p.n,
      turned: !transposeB,
      aligned: alignedB,
      ...(starts === undefined ? {} : { start: starts.b }),
    }
    const [rowFirst, columnFirst] = [k.let('rowFirst', tile.div(across).mul(rows)), k.let('columnFirst', tile.rem(across).mul(columns))]
    const store = (row: U32, column: U32, sum: Value<'f32'>): void =>
      k.when(row.lt(p.m).and(column.lt(p.n)), () => {
        const value = p.bias === undefined || element === undefined ? sum : sum.add(element.one(p.bias, column))
        writeElements(type, p.y, row.mul(p.n).add(column).add(first), value, 1)
      })
    body({ rowFirst, columnFirst, left, right, first, store }, k)
  })
}
