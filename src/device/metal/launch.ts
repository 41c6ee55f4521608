// Commands as a list of launches: every dispatch, copy, fill and read-back becomes a program, its buffers, its uniforms and a
// grid, with a note whether it must wait for those before it. Pure; sends no messages.

import type { BoundRange, CheckedCommand } from '../core/checked-command.ts'
import { Hazards, type Span } from '../core/hazard.ts'
import type { Size } from './ffi.ts'
import type { Mapped } from './mapping.ts'
import type { MetalProgram } from './pipeline.ts'
import type { Region } from './region.ts'
import { type Transfers, copyUniforms, fillUniforms, groupsFor } from './transfer.ts'

/** What a handle stands for: a region of its own, or a part of a mapped file. */
export interface MetalMemory {
  readonly region: Region
  readonly base: number
  readonly mapped?: Mapped
}

/** A range that a kernel sees. Without a region it lies in the buffer that brings bytes back. */
export interface LaunchBuffer {
  readonly region: Region | undefined
  readonly offset: number
  readonly bytes: number
  readonly written: boolean
}

export interface Launch {
  readonly program: MetalProgram
  readonly buffers: readonly LaunchBuffer[]
  readonly uniforms: Uint8Array
  readonly grid: Size
  /** it must wait for what comes before it */
  readonly waits: boolean
}

export interface Lowered {
  readonly launches: readonly Launch[]
  /** where the bytes of each read-back end up */
  readonly reads: readonly { readonly at: number; readonly bytes: number }[]
  /** all of them */
  readonly readBytes: number
  /** every region that is named */
  readonly regions: readonly Region[]
}

const READ_ALIGNMENT = 16

export function lower(commands: readonly CheckedCommand<MetalMemory, MetalProgram>[], { copy, fill }: Transfers): Lowered {
  const launches: Launch[] = []
  const reads: { at: number; bytes: number }[] = []
  const regions = new Set<Region>()
  const hazards = new Hazards()
  let readBytes = 0
  const add = (
    program: MetalProgram,
    buffers: readonly LaunchBuffer[],
    uniforms: Uint8Array,
    [width, height, depth]: readonly [number, number, number],
  ): void => {
    if (width * height * depth === 0) return
    for (const { region } of buffers) if (region !== undefined) regions.add(region)
    launches.push({ program, buffers, uniforms, grid: { width, height, depth }, waits: hazards.add(buffers.flatMap(spanOf)) })
  }
  for (const command of commands) {
    switch (command.kind) {
      case 'dispatch':
        add(command.program, command.buffers.map(bufferOf), command.uniforms, command.grid)
        break
      case 'copy':
        add(copy, [bufferOf(command.from), bufferOf(command.to)], copyUniforms(command.to.bytes), [groupsFor(command.to.bytes), 1, 1])
        break
      case 'fill':
        add(fill, [bufferOf(command.to)], fillUniforms(command.to.bytes, command.value), [groupsFor(command.to.bytes), 1, 1])
        break
      case 'read': {
        const { bytes } = command.from
        const reader = { region: undefined, offset: readBytes, bytes, written: true }
        add(copy, [bufferOf(command.from), reader], copyUniforms(bytes), [groupsFor(bytes), 1, 1])
        reads.push({ at: readBytes, bytes })
        readBytes += Math.ceil(bytes / READ_ALIGNMENT) * READ_ALIGNMENT
      }
    }
  }
  return { launches, reads, readBytes, regions: [...regions] }
}

function bufferOf({ buffer: { memory }, offset, bytes, written }: BoundRange<MetalMemory>): LaunchBuffer {
  return { region: memory.region, offset: memory.base + offset, bytes, written }
}

/** Nothing else touches the buffer that brings bytes back. */
function spanOf({ region, offset, bytes, written }: LaunchBuffer): Span[] {
  return region === undefined ? [] : [{ from: region.start + offset, to: region.start + offset + bytes, written }]
}
