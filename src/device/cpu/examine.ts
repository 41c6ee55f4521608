// What `ingot doctor` says of the cpu device: what the JavaScript engine gives it, whether native kernels run, and who multiplies f32
// matrices. Decides by data; the text is for people.

import { type WasmFeatures, detectWasm } from '../../emit/wasm/features.ts'
import { isNode } from '../core/platform.ts'
import type { Device, Program } from '../device.ts'
import type { Probe } from '../open/factory.ts'
import { type Finding, type Reason, pass } from '../open/finding.ts'
import { PRODUCTS, selfTest } from '../open/self-test.ts'
import type { Choice } from './blas/report.ts'
import type { Job, Runtime } from './runtime.ts'

type OpenRuntime = Pick<Runtime<Job, Program>, 'kind' | 'products'>

/** Sizes named in one line. */
const SIZES_SHOWN = 6

/** `runtime` is that of the device; neither is there if it cannot be opened. */
export async function examineCpu(device: Device | undefined, runtime: OpenRuntime | undefined, { faster }: Probe): Promise<Finding[]> {
  return [
    ...(device === undefined ? [] : await examineProducts(device, runtime)),
    ...(faster === undefined ? [] : [examineFallback(faster, runtime?.kind)]),
    ...examineEngine(await detectWasm(), runtime?.kind === 'wasm'),
  ]
}

/** `multiplies`: WebAssembly does, since no native code is there; how well it can matters only then. */
function examineEngine({ simd, relaxed, relaxedDot, threads }: WasmFeatures, multiplies: boolean): Finding[] {
  const engine = isNode() ? `Node ${process.versions.node}` : 'this browser'
  const warn = (probe: string, evidence: string, prescription: string): Finding => ({ probe, status: 'warn', evidence, prescription })
  return [
    simd
      ? pass('wasm simd', engine)
      : {
          probe: 'wasm simd',
          status: 'fail',
          evidence: `${engine} has no WebAssembly SIMD`,
          prescription: 'use a newer engine: the cpu device needs it',
        },
    relaxed || !multiplies
      ? pass('relaxed simd', relaxed ? `${engine} has it` : 'not needed: native code multiplies')
      : warn('relaxed simd', `${engine} has no relaxed SIMD: int8 products are slower`, 'use Node 22 or a recent browser'),
    relaxedDot || !relaxed || !multiplies
      ? pass('relaxed dot', relaxedDot ? `${engine} has it right` : 'not used')
      : warn('relaxed dot', `${engine} adds int8 products wrongly: Ingot takes a slower instruction`, 'Node 22 has it right'),
    threads
      ? pass('threads', 'SharedArrayBuffer')
      : warn(
          'threads',
          'no SharedArrayBuffer: one thread does all the work',
          'serve the page cross-origin isolated (COOP and COEP headers)',
        ),
  ]
}

function examineFallback({ evidence, prescription }: Reason, serves: OpenRuntime['kind'] = 'wasm'): Finding {
  const instead = serves === 'native' ? 'one for less capable CPUs serves' : 'WebAssembly serves, several times slower'
  return { probe: 'native', status: 'warn', evidence: `${evidence}; ${instead}`, prescription }
}

/** Who multiplies f32 matrices there: sizes that it has not met yet are measured now. */
async function examineProducts(device: Device, runtime: OpenRuntime | undefined): Promise<Finding[]> {
  const probe = 'f32 products'
  const {
    failed: [failure],
  } = await selfTest(device, PRODUCTS)
  const { name, path, reason, choices = [] } = runtime?.products ?? {}
  if (failure !== undefined) {
    const prescription = name === undefined ? '' : 'set INGOT_BLAS=off'
    return [{ probe, status: 'fail', evidence: `${failure.name}: ${failure.error}`, prescription }]
  }
  if (reason !== undefined) return [{ probe, status: 'note', ...reason, evidence: `by Ingot's own kernels: ${reason.evidence}` }]
  if (name === undefined) return [] // no native kernels, no choice
  const wrong = choices.find(({ verdict }) => verdict === 'wrong')
  if (wrong !== undefined) {
    return [
      {
        probe,
        status: 'warn',
        evidence: `${name} (${path}) is wrong: ${wrong.why} (${wrong.size})`,
        prescription: 'update it, or set INGOT_BLAS=off; until then Ingot does without it where it is wrong',
      },
    ]
  }
  return [{ probe, status: 'note', evidence: `${name} (${path}), ${describeChoices(choices)}`, prescription: '' }]
}

/** `used for 64 x 64 x 64 (1.7 times as fast); not for 16 x 16 x 16 (1.0 times as fast)` */
function describeChoices(choices: readonly Choice[]): string {
  const parts = (['faster', 'slower'] as const).flatMap((verdict) => {
    const sizes = choices.filter((choice) => choice.verdict === verdict).slice(0, SIZES_SHOWN)
    if (sizes.length === 0) return []
    return [`${verdict === 'faster' ? 'used for' : 'not for'} ${sizes.map(({ size, why }) => `${size} (${why})`).join(', ')}`]
  })
  return parts.length === 0 ? 'not used: nothing could be measured' : parts.join('; ')
}
