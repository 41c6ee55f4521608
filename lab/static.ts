// What a lane does, counted in the lowered kernels for Metal: no GPU needed. Counts are of one turn of the loop that reads weights (loops
// within it count as often as they turn) and are divided by the bytes of weights it loads.
// `node lab/run.js static [--format q4_k] [--json]`

import type { Caps } from '../src/base/caps.ts'
import { isFloat, scalarOf, storageBytes, widthOf } from '../src/base/dtype.ts'
import { mslTarget } from '../src/emit/msl.ts'
import { type Kernel, memoryOf, sharedBytes } from '../src/ir/kernel.ts'
import type { Node } from '../src/ir/node.ts'
import { lower } from '../src/ir/pass/index.ts'
import { linear } from '../src/kernel/linear/linear.ts'
import { FORMATS } from '../src/quant/index.ts'
import { wordsOf } from './measure/options.ts'
import { printTable } from './measure/table.ts'

/** An Apple GPU. */
const METAL: Caps = {
  lanes: 1024,
  subgroup: 32,
  tiles: true,
  f16: true,
  f64: false,
  width: 4,
  dot: false,
  parallel: 40,
  sharedBytes: 32768,
  bufferBytes: 2 ** 33,
  bindingBytes: 2 ** 33,
  bindings: 31,
  grid: 2 ** 31 - 1,
  alignment: 16,
}
const SHIFTS: readonly string[] = ['shl', 'shr']
const CONVERSIONS: readonly string[] = ['cast', 'unpackF16', 'packF16', 'unpackU8', 'unpackI8']
/** renamings, not work */
const FREE: readonly string[] = [
  'const',
  'index',
  'uniform',
  'local',
  'get',
  'let',
  'var',
  'set',
  'block',
  'for',
  'loop',
  'if',
  'splat',
  'vec',
  'join',
  'extract',
  'slice',
  'bitcast',
  'barrier',
  'breakIf',
]

interface Counts {
  weightBytes: number
  otherBytes: number
  sharedBytes: number
  /** arithmetic on floats, counted by element; on integers, shifts apart; conversions */
  float: number
  integer: number
  shift: number
  convert: number
  tile: number
  barrier: number
}

export async function main(args: readonly string[]): Promise<void> {
  const formats = wordsOf(args, 'format') ?? FORMATS.map(({ name }) => name)
  const rows = formats.flatMap((format) =>
    [1, 64].map((n) => {
      const [launch] = linear.work(METAL, { format, m: 2048, k: 2048, n, bias: false }).launches
      const kernel = lower(launch!.kernel, mslTarget(METAL))
      return { format, kernel: kernel.name, workgroupMemory: sharedBytes(kernel), ...countLoop(kernel) }
    }),
  )
  if (args.includes('--json')) return void process.stdout.write(`${JSON.stringify(rows, undefined, 2)}\n`)
  return printTable([
    ['kernel', 'weight bytes', 'other loads', 'shared', 'float', 'integer', 'shifts', 'converts', 'tiles', 'barriers', 'workgroup bytes'],
    ...rows.map(({ kernel, workgroupMemory, ...counts }) => {
      const each = (value: number): string => (value / Math.max(1, counts.weightBytes)).toFixed(2)
      return [
        kernel,
        counts.weightBytes.toFixed(0),
        each(counts.otherBytes),
        each(counts.sharedBytes),
        each(counts.float),
        each(counts.integer),
        each(counts.shift),
        each(counts.convert),
        each(counts.tile),
        String(counts.barrier),
        String(workgroupMemory),
      ]
    }),
  ])
}

/** The counts of the outermost loop that loads from `w`, for one turn. */
function countLoop(kernel: Kernel): Counts {
  const loop = findLoop(kernel.body)
  const counts: Counts = { weightBytes: 0, otherBytes: 0, sharedBytes: 0, float: 0, integer: 0, shift: 0, convert: 0, tile: 0, barrier: 0 }
  const visit = (node: Node, times: number, seen: Set<Node>): void => {
    // an expression that stands in several places is computed once in each statement list; statements run wherever they stand
    if (node.dtype !== 'void' && seen.has(node)) return
    seen.add(node)
    const inner = node.op === 'for' && node !== loop ? times * turnsOf(node) : times
    for (const child of node.src) visit(child, child.op === 'block' ? inner : times, child.op === 'block' ? new Set() : seen)
    count(kernel, node, times, counts)
  }
  visit(loop, 1, new Set())
  return counts
}

function count(kernel: Kernel, { op, dtype, src, arg }: Node, times: number, counts: Counts): void {
  if (op === 'load' || op === 'store') {
    const { mem, width = 1 } = arg as { mem: string; width?: number }
    const memory = memoryOf(kernel, mem)!
    const bytes = times * width * storageBytes(memory.storage)
    if (mem === 'w') counts.weightBytes += bytes
    else if ('length' in memory) counts.sharedBytes += bytes
    else counts.otherBytes += bytes
  } else if (op === 'barrier') counts.barrier += times
  else if (op.startsWith('tile')) counts.tile += times
  else if (CONVERSIONS.includes(op)) counts.convert += times * widthOf(dtype)
  else if (SHIFTS.includes(op)) counts.shift += times * widthOf(dtype)
  else if (!FREE.includes(op)) {
    const from = dtype !== 'void' && scalarOf(dtype) !== 'bool' ? dtype : (src[0]?.dtype ?? 'void')
    if (from === 'void') return
    counts[isFloat(from) ? 'float' : 'integer'] += times * Math.max(widthOf(dtype), op === 'hsum' ? widthOf(from) - 1 : 1)
  }
}

function findLoop(root: Node): Node {
  const candidates: Node[] = []
  const go = (node: Node): void => {
    if ((node.op === 'for' || node.op === 'loop') && loadsWeights(node)) {
      candidates.push(node)
      return
    }
    node.src.forEach(go)
  }
  go(root)
  const [first] = candidates
  if (first === undefined) throw new Error('no loop reads w')
  return first
}

function loadsWeights({ op, arg, src }: Node): boolean {
  return (op === 'load' && (arg as { mem: string }).mem === 'w') || src.some(loadsWeights)
}

/** Turns of a loop with constant ends; a start that depends on the lane counts as lane 0. Others count once. */
function turnsOf({ src }: Node): number {
  const [from, to, step] = src.slice(0, 3).map(({ op, arg }) => (op === 'const' ? Number(arg) : op === 'index' ? 0 : undefined))
  return from === undefined || to === undefined || step === undefined ? 1 : Math.ceil((to - from) / step)
}
