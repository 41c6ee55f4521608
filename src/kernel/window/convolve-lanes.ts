// Convolution without a layout of its own: a lane has one window and a few outputs, so that it reads an element of x once for all of them;
// its neighbours read the same weights. For GPUs, and for windows of very many taps.

import type { Caps } from '../../base/caps.ts'
import { item } from '../../base/list.ts'
import { uniform } from '../../ir/author.ts'
import type { Value } from '../../ir/value.ts'
import { readOne, writeOne } from '../element.ts'
import type { Form, Work } from '../family.ts'
import { flatGrid, flatLane, teamFor } from '../lanes.ts'
import { template } from '../template.ts'
import { type ConvolveParams, type ConvolveType, checkConvolution, convolveParams } from './convolution.ts'
import { axisHandle, elementUnder, product, splitIndex, windowAxes, windowParams, windowUniforms } from './windows.ts'

/** Outputs of a lane. */
const OUTS = 4

interface LaneTraits {
  readonly type: ConvolveType
  readonly bias: boolean
  readonly lanes: number
}

const lanes = template<LaneTraits>({ family: 'convolve', form: 'lanes' }, ({ type, bias, lanes }, kernel) => {
  const number = uniform('u32')
  const params = {
    ...convolveParams(type, bias),
    ...windowParams(2),
    /** channels and outputs of a group, and how many times `OUTS` the latter are */
    inputs: number,
    outputs: number,
    blocks: number,
    groups: number,
    total: number,
  }
  return kernel('convolve', { params, workgroup: [lanes] }, (p, k) => {
    const [rows, columns] = [axisHandle(p, 0), axisHandle(p, 1)]
    const at = k.let('at', flatLane(k, lanes))
    k.when(at.lt(p.total), () => {
      const [afterColumn, column] = splitIndex(k, at, columns.out)
      const [afterRow, row] = splitIndex(k, afterColumn, rows.out)
      const [set, block] = splitIndex(k, afterRow, p.blocks) // a group of an image
      const group = k.let('group', set.rem(p.groups))
      // Outputs past the end repeat the last one and are not stored.
      const outs = Array.from({ length: OUTS }, (_, o) => k.let('out', block.mul(OUTS).add(o).min(p.outputs.sub(1))))
      const sums = outs.map((out) =>
        k.var('sum', p.bias === undefined ? k.const('f32', 0) : (readOne(type, p.bias, group.mul(p.outputs).add(out)) as Value<'f32'>)),
      )
      const size = k.let('size', rows.kernel.mul(columns.kernel))
      const weights = outs.map((out) => k.let('weights', group.mul(p.outputs).add(out).mul(p.inputs).mul(size)))
      k.for({ name: 'c', to: p.inputs }, (c) => {
        const channel = k.let('channel', set.mul(p.inputs).add(c).mul(rows.in))
        k.for({ name: 'tapRow', to: rows.kernel }, (tapRow) => {
          const y = k.let('y', elementUnder(rows, row, tapRow))
          k.when(y.lt(rows.in), () => {
            const line = k.let('line', channel.add(y).mul(columns.in))
            const before = k.let('before', c.mul(rows.kernel).add(tapRow).mul(columns.kernel))
            k.for({ name: 'tapColumn', to: columns.kernel }, (tapColumn) => {
              const x = k.let('x', elementUnder(columns, column, tapColumn))
              k.when(x.lt(columns.in), () => {
                const value = k.let('value', readOne(type, p.x, line.add(x)) as Value<'f32'>)
                sums.forEach((sum, o) => {
                  const weight = readOne(type, p.w, item(weights, o).add(before).add(tapColumn)) as Value<'f32'>
                  sum.set(value.fma(weight, sum.get()))
                })
              })
            })
          })
        })
      })
      sums.forEach((sum, o) => {
        const out = k.let('own', block.mul(OUTS).add(o))
        const place = set.mul(p.outputs).add(out).mul(rows.out).add(row).mul(columns.out).add(column)
        k.when(out.lt(p.outputs), () => writeOne(type, p.y, place, sum.get()))
      })
    })
  })
})

function work(caps: Caps, params: ConvolveParams): Work {
  checkConvolution(params)
  const { type, bias, n, channels, groups } = params
  const [inputs, outputs] = [channels / groups, params.outputs / groups]
  const blocks = Math.ceil(outputs / OUTS)
  const total = n * groups * blocks * product(params.out)
  const team = teamFor(caps, total)
  return {
    launches: [
      {
        kernel: lanes({ type, bias, lanes: team.lanes }),
        uniforms: { ...windowUniforms(windowAxes(params, 2)), inputs, outputs, blocks, groups, total },
        grid: flatGrid(caps, Math.ceil(total / team.lanes)),
      },
    ],
  }
}

export const convolveLanes: Form<ConvolveParams> = { name: 'lanes', fits: () => true, work }
