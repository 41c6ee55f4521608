// A device whose memory is plain bytes of this process and whose work is done when `submit` returns: the frame of `reference`
// and `null`. Knows nothing of what a dispatch does; its `Runner` does.

import type { Caps } from '../../base/caps.ts'
import { IngotError } from '../../base/error.ts'
import type { Kernel } from '../../ir/kernel.ts'
import type { ByteRange, Device, Program } from '../device.ts'
import { BackedDevice } from './backed-device.ts'
import type { Backend, Compilation, ReadPieces } from './backend.ts'
import { alignBytes } from './buffer-table.ts'
import { checkKernel } from './check.ts'
import { type BoundRange, type CheckedCommand, fillCommands } from './checked-command.ts'
import { Lifecycle } from './lifecycle.ts'

export interface Runner {
  readonly name: string
  readonly detail: string
  readonly caps: Caps
  /** Throws if the kernel cannot run. Called once per content. */
  compile(kernel: Kernel): void
  /** Runs one dispatch; `buffers` are in order of the parameters and exactly the ranges that were bound. */
  run(kernel: Kernel, buffers: readonly Uint8Array[], uniforms: Uint8Array, grid: readonly [number, number, number]): void
}

/** New memory is filled with this: NaN as f32 and f16, so that reading what nobody wrote shows. */
const POISON = 0xff

export function openHost(runner: Runner): Device {
  return new BackedDevice(new HostBackend(runner))
}

class HostBackend implements Backend<Uint8Array, Program, undefined> {
  readonly lifecycle: Lifecycle
  readonly detail: string
  readonly caps: Caps
  readonly #runner: Runner

  constructor(runner: Runner) {
    this.lifecycle = new Lifecycle(runner.name)
    this.detail = runner.detail
    this.caps = runner.caps
    this.#runner = runner
  }

  create(bytes: number): Uint8Array {
    try {
      return new Uint8Array(bytes)
    } catch (cause) {
      throw new IngotError('out-of-memory', 'no memory for a buffer', { op: 'alloc', got: `${bytes} bytes`, cause })
    }
  }
  poison(memory: Uint8Array): void {
    memory.fill(POISON)
  }
  destroy(): void {}

  async load({ bytes }: ByteRange, readPieces: ReadPieces): Promise<Uint8Array> {
    const memory = this.create(alignBytes(bytes))
    await readPieces((at, piece) => memory.set(piece, at))
    return memory
  }

  write(to: BoundRange<Uint8Array>, bytes: Uint8Array): void {
    bytesOf(to).set(bytes)
  }

  async read(from: BoundRange<Uint8Array>): Promise<Uint8Array> {
    return bytesOf(from).slice()
  }

  compile(kernel: Kernel, key: string): Compilation<Program> {
    checkKernel(kernel, this.caps)
    this.#runner.compile(kernel)
    return { program: Promise.resolve({ kernel, key }), fresh: true }
  }

  blank(): Uint8Array {
    return new Uint8Array(0)
  }
  prepare(): undefined {}
  dispose(): void {}

  async run(
    recorded: readonly CheckedCommand<Uint8Array>[],
    _prepared: undefined,
    filled: readonly BoundRange<Uint8Array>[],
  ): Promise<Uint8Array[]> {
    const commands = filled.length === 0 ? recorded : fillCommands(recorded, filled)
    return commands.flatMap((command) => {
      switch (command.kind) {
        case 'dispatch':
          if (!command.grid.includes(0))
            this.#runner.run(command.program.kernel, command.buffers.map(bytesOf), command.uniforms, command.grid)
          return []
        case 'copy':
          bytesOf(command.to).set(bytesOf(command.from))
          return []
        case 'fill':
          bytesOf(command.to).fill(command.value)
          return []
        case 'read':
          return [bytesOf(command.from).slice()]
      }
    })
  }

  async sync(): Promise<void> {}
  release(): void {}
}

function bytesOf({ buffer, offset, bytes }: BoundRange<Uint8Array>): Uint8Array {
  return buffer.memory.subarray(offset, offset + bytes)
}
