// The elementary functions of f64. WebAssembly has none, and formulas for them would need the bits of an f64, which kernels do not see:
// a module imports those of JavaScript's Math that it uses, and calls them lane by lane. Engines know them and call them without a detour.

import { scalarOf, widthOf } from '../../base/dtype.ts'
import type { Kernel } from '../../ir/kernel.ts'
import { type Node, type SomeNode, walk } from '../../ir/node.ts'
import type { OpName } from '../../ir/op.ts'
import type { WasmModule } from './module.ts'
import { type MathName, type Speaker, type Spellings, refuse } from './speaker.ts'

/** The module that they are imported from; where modules are instantiated by text (device/cpu/wasm/thread.ts) it is Math itself. */
const MODULE = 'math'
const FUNCTIONS: Readonly<Record<MathName, (...numbers: [number, number]) => number>> = {
  exp: Math.exp,
  log: Math.log,
  log2: Math.log2,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  tanh: Math.tanh,
  pow: Math.pow,
}

/** What a module of `emitWasm` wants to be given. */
export function importsFor(memory: WebAssembly.Memory): WebAssembly.Imports {
  return { env: { memory }, [MODULE]: FUNCTIONS }
}

/** A call with the operands of an op, after a constant if one is given. */
const call =
  (name: MathName, first?: number) =>
  (speaker: Speaker, node: SomeNode): void => {
    if (scalarOf(node.dtype) !== 'f64') return refuse(node)
    const { f } = speaker
    const sayFirst = (): void => {
      if (first !== undefined) f.f64Const(first)
    }
    if (widthOf(node.dtype) === 1) {
      sayFirst()
      for (const operand of node.src) speaker.say(operand)
      return speaker.callMath(name)
    }
    return hold(speaker, node.src, (locals) => {
      for (const lane of [0, 1]) {
        sayFirst()
        for (const local of locals) f.localGet(local).emit('f64x2.extract_lane', lane)
        speaker.callMath(name)
        if (lane === 0) f.emit('f64x2.splat')
        else f.emit('f64x2.replace_lane', lane)
      }
    })
  }

/** Vectors in locals of their own. */
function hold(speaker: Speaker, [next, ...others]: readonly Node[], use: (locals: readonly number[]) => void): void {
  if (next === undefined) return use([])
  return speaker.lend('v128', (local) => {
    speaker.say(next)
    speaker.f.localSet(local)
    hold(speaker, others, (locals) => use([local, ...locals]))
  })
}

const CALLS = {
  exp: { name: 'exp' },
  exp2: { name: 'pow', first: 2 },
  log: { name: 'log' },
  log2: { name: 'log2' },
  sin: { name: 'sin' },
  cos: { name: 'cos' },
  tan: { name: 'tan' },
  asin: { name: 'asin' },
  acos: { name: 'acos' },
  atan: { name: 'atan' },
  tanh: { name: 'tanh' },
  pow: { name: 'pow' },
} as const satisfies { readonly [O in OpName]?: { readonly name: MathName; readonly first?: number } }
type Called = keyof typeof CALLS

export const mathSpellings: Spellings = Object.fromEntries(
  Object.entries(CALLS).map(([op, { name, ...more }]) => [op, call(name, 'first' in more ? more.first : undefined)]),
)

function isCalled(op: OpName): op is Called {
  return Object.hasOwn(CALLS, op)
}

/** Imports the functions that a lowered kernel calls; gives them by name. */
export function importMath(module: WasmModule, kernel: Kernel): ReadonlyMap<MathName, { readonly index: number }> {
  const found = new Map<MathName, { readonly index: number }>()
  walk(kernel.body, ({ op }) => {
    const name = isCalled(op) ? CALLS[op].name : undefined
    if (name === undefined || found.has(name)) return
    found.set(name, module.importFunction(MODULE, name, { params: name === 'pow' ? ['f64', 'f64'] : ['f64'], results: ['f64'] }))
  })
  return found
}
