// Finds a GPU: `navigator.gpu` in browsers, the optional package `webgpu` (Dawn) in Node. Says why where there is none. Knows
// adapters and limits; does not know buffers or programs.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import { isMissingPackage, isNode } from '../core/platform.ts'
import type { Probe } from '../open/factory.ts'
import { reasonOf } from '../open/finding.ts'

/** Limits worth more than the default: whatever the adapter has is asked for. */
const LIMITS = [
  'maxBufferSize',
  'maxStorageBufferBindingSize',
  'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupSizeY',
  'maxComputeWorkgroupSizeZ',
  'maxStorageBuffersPerShaderStage',
] as const
const FEATURES = ['subgroups', 'shader-f16', 'timestamp-query'] as const satisfies readonly GPUFeatureName[]
const MOST_LANES = 1024
/** Guess: WebGPU does not tell how many cores there are. Enough groups to fill a large GPU. */
const PARALLEL = 64
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|software|basic render/i

/** The best adapter there is; throws `device-unavailable` with the reason. */
export async function findAdapter(): Promise<GPUAdapter> {
  const gpu = await findGpu()
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' }).catch(() => null)
  if (adapter !== null) return adapter
  throw new IngotError('device-unavailable', 'no GPU adapter was found', {
    op: 'webgpu',
    hint: 'is a graphics driver installed (Vulkan on Linux), and does this process see it?',
  })
}

export async function probeAdapter(): Promise<Probe> {
  try {
    const adapter = await findAdapter()
    return { available: true, detail: describe(adapter), key: keyOf(adapter), software: isSoftware(adapter) }
  } catch (error) {
    return { available: false, detail: 'no adapter', reason: reasonOf(error), key: 'none' }
  }
}

/** A device with all the limits and features of the adapter that Ingot uses. */
export function requestDevice(adapter: GPUAdapter): Promise<GPUDevice> {
  return adapter.requestDevice({
    label: 'ingot',
    requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
    requiredLimits: Object.fromEntries(LIMITS.map((limit) => [limit, adapter.limits[limit]])),
  })
}

export function capsOf({ limits, features }: GPUDevice, { info }: GPUAdapter): Caps {
  const fixed = info.subgroupMinSize > 0 && info.subgroupMinSize === info.subgroupMaxSize
  return {
    lanes: Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX, MOST_LANES),
    subgroup: features.has('subgroups') && fixed ? info.subgroupMinSize : 0,
    tiles: false,
    f16: features.has('shader-f16'),
    f64: false,
    width: 4,
    dot: false,
    parallel: PARALLEL,
    sharedBytes: limits.maxComputeWorkgroupStorageSize,
    bufferBytes: Math.floor(limits.maxBufferSize / 16) * 16,
    bindingBytes: Math.floor(limits.maxStorageBufferBindingSize / 16) * 16,
    bindings: limits.maxStorageBuffersPerShaderStage,
    grid: limits.maxComputeWorkgroupsPerDimension,
    alignment: limits.minStorageBufferOffsetAlignment,
  }
}

/** `NVIDIA GeForce RTX 4090 (nvidia, lovelace)`; software adapters say so. */
export function describe(adapter: GPUAdapter): string {
  const { description, device, vendor, architecture } = adapter.info
  const family = [vendor, architecture].filter((part) => part !== '').join(', ')
  const name = description === '' ? device : description
  return `${name === '' ? 'unnamed adapter' : name}${family === '' ? '' : ` (${family})`}${isSoftware(adapter) ? ', software' : ''}`
}

/** Emulated on the CPU. */
export function isSoftware({ info }: GPUAdapter): boolean {
  return info.isFallbackAdapter || SOFTWARE.test(`${info.vendor} ${info.architecture} ${info.device} ${info.description}`)
}

function keyOf({ info, features }: GPUAdapter): string {
  const abilities = FEATURES.filter((feature) => features.has(feature)).join('+')
  return [info.vendor, info.architecture, info.device, info.description, `${info.subgroupMinSize}-${info.subgroupMaxSize}`, abilities].join(
    '/',
  )
}

/**
 * Dawn, made once and held until the process ends. It polls for events from a timer that outlives the GPU object: had that
 * been collected meanwhile, the process would crash. Holding it does not keep the process from ending.
 */
let dawn: GPU | undefined

/**
 * Dawn need not clear workgroup memory: the verifier and the interpreter see to it that no kernel reads what it did not write.
 * Clearing costs time in every workgroup, and SwiftShader spends seconds compiling a store per element.
 */
const DAWN = ['enable-dawn-features=disable_workgroup_init']

async function findGpu(): Promise<GPU> {
  const own: GPU | undefined = typeof navigator === 'undefined' ? undefined : navigator.gpu
  if (own !== undefined) return own
  if (!isNode()) {
    throw new IngotError('device-unavailable', 'this browser has no WebGPU', {
      op: 'webgpu',
      hint: 'use a recent browser, over https or localhost',
    })
  }
  // Some Vulkan drivers complain on stderr when this is not set.
  if (process.platform === 'linux') process.env.XDG_RUNTIME_DIR ??= '/tmp'
  const { create } = await importDawn()
  dawn ??= create(DAWN)
  return dawn
}

/** An optional peer: named by a variable, so that types and bundles do not need it; so its type has to be said. */
async function importDawn(): Promise<{ create(options: string[]): GPU }> {
  const specifier: string = 'webgpu'
  try {
    return (await import(/* @vite-ignore */ specifier)) as { create(options: string[]): GPU }
  } catch (cause) {
    const why = isMissingPackage(cause) ? 'the package webgpu is not installed' : `the package webgpu does not load: ${String(cause)}`
    throw new IngotError('device-unavailable', why, { op: 'webgpu', hint: 'npm install webgpu', cause })
  }
}
