// The check while emitting must agree with the engine: what it passes is valid, what it refuses is not.

import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import type { FunctionBody, Label } from '../../src/emit/wasm/body.ts'
import { WasmModule } from '../../src/emit/wasm/module.ts'
import type { ValType } from '../../src/emit/wasm/opcode.ts'

type Step = { readonly do: string; readonly result?: ValType; readonly body?: readonly Step[]; readonly to?: number }

const plain: Record<string, (f: FunctionBody) => unknown> = {
  i32: (f) => f.i32Const(1),
  f32: (f) => f.f32Const(1),
  v128: (f) => f.v128Const('i32x4', [1, 2, 3, 4]),
  add: (f) => f.emit('i32.add'),
  mul: (f) => f.emit('f32x4.mul'),
  splat: (f) => f.emit('f32x4.splat'),
  load: (f) => f.emit('f32.load'),
  store: (f) => f.emit('v128.store'),
  drop: (f) => f.emit('drop'),
  select: (f) => f.emit('select'),
  get: (f) => f.localGet(0),
  set: (f) => f.localSet(0),
  tee: (f) => f.localTee(0),
  call: (f) => f.emit('call', 0),
  return: (f) => f.emit('return'),
  unreachable: (f) => f.emit('unreachable'),
}

function write(f: FunctionBody, steps: readonly Step[], labels: readonly Label[]): void {
  for (const step of steps) {
    const label = labels[(step.to ?? 0) % Math.max(1, labels.length)]
    const nested = (inner: Label): void => write(f, step.body ?? [], [...labels, inner])
    if (step.do === 'block') f.block(nested, step.result)
    else if (step.do === 'loop') f.loop(nested, step.result)
    else if (step.do === 'if') f.if(nested, nested, step.result)
    else if (step.do in plain) plain[step.do]?.(f)
    else if (label === undefined) continue // no block is open to branch to
    else if (step.do === 'br') f.br(label)
    else if (step.do === 'br_if') f.brIf(label)
    else f.brTable([label], label)
  }
}

function build(steps: readonly Step[], results: readonly ValType[], check: boolean): WasmModule {
  const module = new WasmModule({ check })
  module.memory({ min: 1 })
  module.function('callee', { params: ['f32'], results: ['i32'] }, (f) => f.i32Const(0))
  module.function('k', { params: ['i32'], results }, (f) => write(f, steps, []))
  return module
}

/** True when the check passes; anything but a bad kernel is a failure of the test. */
function passes(steps: readonly Step[], results: readonly ValType[]): boolean {
  try {
    build(steps, results, true)
    return true
  } catch (error) {
    if (!isIngotError(error, 'bad-kernel')) throw error
    return false
  }
}

const result = fc.option(fc.constantFrom<ValType>('i32', 'f32'), { nil: undefined })
const { steps } = fc.letrec<{ step: Step; steps: Step[] }>((tie) => ({
  step: fc.oneof(
    { depthSize: 'small' },
    { weight: 6, arbitrary: fc.record({ do: fc.constantFrom(...Object.keys(plain)) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('br', 'br_if', 'br_table'), to: fc.nat(3) }) },
    {
      weight: 2,
      arbitrary: fc
        .record({ do: fc.constantFrom('block', 'loop', 'if'), result, body: tie('steps') })
        .map(({ result: type, ...rest }) => (type === undefined ? rest : { ...rest, result: type })),
    },
  ),
  steps: fc.array(tie('step'), { maxLength: 5 }),
}))

it('agrees with the engine on random bodies', () => {
  const seen = { valid: 0, refused: 0 }
  fc.assert(
    fc.property(steps, fc.constantFrom<ValType[]>([], ['i32'], ['f32']), (body, results) => {
      const valid = WebAssembly.validate(build(body, results, false).encode())
      seen[valid ? 'valid' : 'refused']++
      expect(passes(body, results)).toBe(valid)
    }),
    { numRuns: 1500 },
  )
  expect(Math.min(seen.valid, seen.refused)).toBeGreaterThan(50) // both sides were tried
})
