// What the environment says of the Metal device: which library, and a switch for every optimisation, so that each can be
// ruled out on its own. Read once, when a device is opened. docs/metal.md lists them.

import { packageFile } from '../../base/place.ts'
import { readEnvironment } from '../core/platform.ts'

export interface MetalSettings {
  /** path of the software Metal, or undefined for Apple's */
  readonly software: string | undefined
  /** dispatches of a submission may run at the same time */
  readonly concurrent: boolean
  /** recordings are replayed from an indirect command buffer */
  readonly indirect: boolean
  /** residency sets */
  readonly residency: boolean
  /** simdgroup matrices */
  readonly tiles: boolean
  /** files are mapped instead of read */
  readonly mapped: boolean
  /** one command buffer per kernel, to time each */
  readonly profile: boolean
  /** where a GPU trace goes */
  readonly capture: string | undefined
}

export function readSettings(variables: Readonly<Record<string, string | undefined>> = readEnvironment()): MetalSettings {
  const isOn = (name: string): boolean => variables[name] !== '0'
  return {
    software: softwarePath(variables.INGOT_SOFT_METAL),
    concurrent: isOn('INGOT_METAL_CONCURRENT'),
    indirect: isOn('INGOT_METAL_INDIRECT'),
    residency: isOn('INGOT_METAL_RESIDENCY'),
    tiles: isOn('INGOT_METAL_TILES'),
    mapped: isOn('INGOT_METAL_MAPPED'),
    profile: variables.INGOT_PROFILE === '1',
    capture: variables.INGOT_METAL_CAPTURE === '' ? undefined : variables.INGOT_METAL_CAPTURE,
  }
}

/** `1` is the library that scripts/build-soft-metal.js makes; anything longer is a path. */
function softwarePath(value: string | undefined): string | undefined {
  if (value === undefined || value === '' || value === '0') return undefined
  if (value !== '1') return value
  return decodeURIComponent(packageFile('build/soft-metal/libsoft-metal.so').pathname)
}
