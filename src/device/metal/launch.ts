// Commands as a list of launches: every dispatch, copy, fill and read-back becomes a program, its buffers, its uniforms and a
// grid, with a note whether it must wait for those before it. Pure; sends no messages.

import type { Bound, Checked } from '../check.ts'
import { Hazards } from '../hazard.ts'
import type { Size } from './ffi.ts'
import type { Mapped } from './mapping.ts'
import type { MetalProgram } from './pipeline.ts'
import type { Region } from './region.ts'
import { copyUniforms, fillUniforms, groupsFor } from './transfer.ts'

/** What a handle stands for: a region of its own, or a part of a mapped file. */
export interface MetalMemory {
  readonly region: Region
  readonly base: number
  readonly mapped?: Mapped
}

/** A range that a kernel sees. Without a region it lies in the buffer that brings bytes back. */
export interface Part {
  readonly region: Region | undefined
  readonly offset: number
  readonly bytes: number
}

export interface Launch {
  readonly program: MetalProgram
  readonly buffers: readonly Part[]
  readonly uniforms: Uint8Array
  readonly grid: Size
  /** it must wait for what comes before it */
  readonly waits: boolean
}

export interface Lowered {
  readonly launches: readonly Launch[]
  /** dispatches that were asked for */
  readonly dispatches: number
  /** where the bytes of each read-back end up */
  readonly reads: readonly { readonly at: number; readonly bytes: number }[]
  /** all of them */
  readonly readBytes: number
  /** every region that is named */
  readonly regions: readonly Region[]
}

export interface Transfers {
  readonly copy: MetalProgram
  readonly fill: MetalProgram
}

const READ_ALIGNMENT = 16

export function lower(commands: readonly Checked<MetalMemory>[], { copy, fill }: Transfers): Lowered {
  const launches: Launch[] = []
  const reads: { at: number; bytes: number }[] = []
  const regions = new Set<Region>()
  const hazards = new Hazards()
  let dispatches = 0
  let readBytes = 0
  const add = (
    program: MetalProgram,
    buffers: readonly Part[],
    uniforms: Uint8Array,
    [width, height, depth]: readonly [number, number, number],
  ): void => {
    if (width * height * depth === 0) return
    const spans = (written: boolean) => buffers.filter((_, index) => program.writes[index] === written).flatMap(spanOf)
    for (const { region } of buffers) if (region !== undefined) regions.add(region)
    launches.push({ program, buffers, uniforms, grid: { width, height, depth }, waits: hazards.add(spans(false), spans(true)) })
  }
  for (const command of commands) {
    switch (command.kind) {
      case 'dispatch':
        dispatches++
        add(command.program as MetalProgram, command.buffers.map(partOf), command.uniforms, command.grid)
        break
      case 'copy':
        add(copy, [partOf(command.from), partOf(command.to)], copyUniforms(command.to.bytes), [groupsFor(command.to.bytes), 1, 1])
        break
      case 'fill':
        add(fill, [partOf(command.to)], fillUniforms(command.to.bytes, command.value), [groupsFor(command.to.bytes), 1, 1])
        break
      case 'read': {
        const { bytes } = command.from
        add(copy, [partOf(command.from), { region: undefined, offset: readBytes, bytes }], copyUniforms(bytes), [groupsFor(bytes), 1, 1])
        reads.push({ at: readBytes, bytes })
        readBytes += Math.ceil(bytes / READ_ALIGNMENT) * READ_ALIGNMENT
      }
    }
  }
  return { launches, dispatches, reads, readBytes, regions: [...regions] }
}

export function partOf({ entry, offset, bytes }: Bound<MetalMemory>): Part {
  return { region: entry.memory.region, offset: entry.memory.base + offset, bytes }
}

/** Nothing else touches the buffer that brings bytes back. */
function spanOf({ region, offset, bytes }: Part): { from: number; to: number }[] {
  return region === undefined ? [] : [{ from: region.start + offset, to: region.start + offset + bytes }]
}
