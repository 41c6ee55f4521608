// What a file of tests needs to train: a folder of its own with the tiny model in it, and a cpu device.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { openCpu } from '../../src/device/cpu/cpu.ts'
import type { Device } from '../../src/device/device.ts'
import { tinyBytes } from '../llm/tiny-model.ts'

export interface TinyPlace {
  /** the path of a file in its folder */
  at(this: void, name: string): string
  /** the path of the model */
  readonly model: string
  /** there from the first test on */
  readonly device: Device
}

/** To be called where the tests are declared; all of it is gone after the last one. */
export function makeTinyPlace(): TinyPlace {
  const folder = mkdtempSync(join(tmpdir(), 'ingot-train-'))
  const at = (name: string): string => join(folder, name)
  const model = at('tiny.gguf')
  let device: Device | undefined
  beforeAll(async () => {
    writeFileSync(model, await tinyBytes())
    device = await openCpu()
  })
  afterAll(async () => {
    await device?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    at,
    model,
    get device() {
      if (device === undefined) throw new Error('no test runs yet')
      return device
    },
  }
}
