// Where Metal is and which GPU it has: opens the frameworks (or the software Metal in their place), finds the device and asks
// what it can do. Says why where there is none. Makes no buffers and runs nothing.

import type { Caps } from '../../base/caps.ts'
import { IngotError, messageOf } from '../../base/error.ts'
import { isNode } from '../core/platform.ts'
import type { Probe } from '../open/factory.ts'
import { reasonOf } from '../open/finding.ts'
import { type Ffi, loadFfi } from './ffi.ts'
import { Objc, type Owned } from './objc.ts'
import type { MetalSettings } from './settings.ts'

/** Resolved by the loader although they are not on disk: they live in its shared cache. */
const FRAMEWORKS = {
  objc: '/usr/lib/libobjc.A.dylib',
  metal: '/System/Library/Frameworks/Metal.framework/Metal',
  /** loaded for their effect: strings and arrays, and without the second the default device may be nil */
  others: ['/System/Library/Frameworks/Foundation.framework/Foundation', '/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics'],
} as const
/** MTLGPUFamily: the M1 and its successors, the M3 and its, and everything that runs on a Mac. */
const FAMILY = { apple7: 1007, apple9: 1009 } as const
const SUBGROUP = 32
const MOST_LANES = 1024
/** Positions in a grid are 32 bits of threads: this many workgroups of any size fit. */
const MOST_GROUPS = Math.floor((2 ** 32 - 1) / MOST_LANES)
/** 31 slots, of which one holds the uniforms. */
const BINDINGS = 30
/** Guess: Metal does not tell how many cores there are. Enough groups to fill a large GPU. */
const PARALLEL = 64
/** Vectors of four floats are the widest type that kernels point at. */
const ALIGNMENT = 16

export interface Metal {
  readonly ffi: Ffi
  readonly objc: Objc
  /** null where there is no GPU */
  createDevice(): Owned | null
}

export interface Gpu {
  readonly name: string
  readonly software: boolean
  /** simdgroups of 32, matrices, indirect command buffers for compute: an M1 or newer */
  readonly apple7: boolean
  readonly apple9: boolean
  /** the GPU of a virtual machine */
  readonly virtual: boolean
  /** bytes that one buffer, and all together, may have */
  readonly bufferBytes: number
  readonly workingBytes: number
  readonly sharedBytes: number
  readonly system: string
}

const opened = new Map<string, Metal>()

/** The libraries; throws `device-unavailable` with the reason. */
export async function openMetal({ software }: MetalSettings): Promise<Metal> {
  const platform = isNode() ? process.platform : 'a browser'
  if (software === undefined && platform !== 'darwin') {
    throw unavailable(`Metal needs macOS, and this is ${platform}`, 'INGOT_SOFT_METAL=1 runs it in software, for tests')
  }
  const known = opened.get(software ?? '')
  if (known !== undefined) return known
  const ffi = await loadFfi()
  try {
    if (software === undefined) for (const path of FRAMEWORKS.others) ffi.open(path)
    const objc = new Objc(ffi, software ?? FRAMEWORKS.objc)
    const library = ffi.open(software ?? FRAMEWORKS.metal)
    const createDefault = library.declare('MTLCreateSystemDefaultDevice', [], 'pointer')
    const copyAll = library.declare('MTLCopyAllDevices', [], 'pointer')
    // What functions named Create or Copy give is owned, as with messages.
    const createDevice = (): Owned | null => (createDefault() as Owned | null) ?? firstOf(objc, copyAll() as Owned | null)
    const metal = { ffi, objc, createDevice }
    opened.set(software ?? '', metal)
    return metal
  } catch (cause) {
    throw unavailable(
      `Metal does not load: ${messageOf(cause)}`,
      software === undefined ? 'is this a Mac with macOS 13 or newer?' : 'build it: node scripts/build-soft-metal.js',
      cause,
    )
  }
}

/** The first of an array, which is released. Asking an empty one would end the process. */
function firstOf(objc: Objc, devices: Owned | null): Owned | null {
  if (devices === null) return null
  const { NSArray } = objc.messages
  return objc.using(devices, 'an array', () =>
    objc.pooled(() => {
      const first = NSArray.count(devices) > 0 ? NSArray['objectAtIndex:'](devices, 0) : null
      return first === null ? null : objc.retain(first)
    }),
  )
}

/** The GPU, owned; throws `device-unavailable` with the reason. */
export function findDevice({ createDevice }: Metal): Owned {
  const device = createDevice()
  if (device !== null) return device
  throw unavailable('there is no GPU that Metal can use', 'virtual machines and sessions without a screen may have none')
}

export async function probeMetal(settings: MetalSettings): Promise<Probe> {
  try {
    const metal = await openMetal(settings)
    const device = findDevice(metal)
    try {
      const gpu = describeGpu(metal, device, settings)
      return { available: true, detail: detailOf(gpu), key: keyOf(gpu, settings), software: gpu.software }
    } finally {
      metal.objc.release(device)
    }
  } catch (error) {
    return { available: false, detail: 'no GPU', reason: reasonOf(error), key: 'none' }
  }
}

export function describeGpu({ objc }: Metal, device: Owned, { software }: MetalSettings): Gpu {
  const { MTLDevice, NSProcessInfo } = objc.messages
  return objc.pooled(() => {
    const name = objc.text(MTLDevice.name(device))
    const info = NSProcessInfo.processInfo()
    return {
      name,
      software: software !== undefined,
      apple7: MTLDevice['supportsFamily:'](device, FAMILY.apple7),
      apple9: MTLDevice['supportsFamily:'](device, FAMILY.apple9),
      virtual: /paravirtual/i.test(name),
      bufferBytes: Math.floor(MTLDevice.maxBufferLength(device) / ALIGNMENT) * ALIGNMENT,
      workingBytes: MTLDevice.recommendedMaxWorkingSetSize(device),
      sharedBytes: MTLDevice.maxThreadgroupMemoryLength(device),
      system: info === null ? '' : objc.text(NSProcessInfo.operatingSystemVersionString(info)),
    }
  })
}

/** GPUs before the M1 get the forms without subgroups: the size of their simdgroups is not fixed. */
export function capsOf({ apple7, bufferBytes, sharedBytes }: Gpu, { tiles }: MetalSettings): Caps {
  return {
    lanes: MOST_LANES,
    subgroup: apple7 ? SUBGROUP : 0,
    tiles: apple7 && tiles,
    f16: true,
    f64: false,
    width: 4,
    dot: false,
    parallel: PARALLEL,
    sharedBytes,
    bufferBytes,
    bindingBytes: bufferBytes,
    bindings: BINDINGS,
    grid: MOST_GROUPS,
    alignment: ALIGNMENT,
  }
}

/** Whether recordings can be indirect command buffers; each kernel can be timed only where they are not. */
export function canReplay({ apple7, virtual }: Gpu, { indirect, profile }: MetalSettings): boolean {
  return indirect && !profile && apple7 && !virtual
}

/** `Apple M2 Max, macOS Version 15.3 (Build 24D60)`; what is not the real thing says so. */
export function detailOf({ name, system, software, apple7, virtual }: Gpu): string {
  const notes = [
    ...(software ? ['software (soft-metal)'] : []),
    ...(virtual ? ['virtual machine: no indirect replay'] : []),
    ...(apple7 ? [] : ['older than the M1: no subgroups, no matrix tiles']),
  ]
  return [name, ...(software ? [] : [`macOS ${system}`]), ...notes].join(', ')
}

function keyOf({ name, system }: Gpu, { tiles }: MetalSettings): string {
  return [name, system, tiles ? 'tiles' : 'no tiles'].join('/')
}

function unavailable(why: string, hint: string, cause?: unknown): IngotError {
  return new IngotError('device-unavailable', why, { op: 'metal', hint, ...(cause === undefined ? {} : { cause }) })
}
