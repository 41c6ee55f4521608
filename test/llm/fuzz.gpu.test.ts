// Broken model files on WebGPU: as fuzz.test.ts, and few, since a driver compiles every shape anew.

import { expect, test } from 'vitest'
import { loadFuzzer } from './fuzzer.ts'

const CASES = 12
const SEED = 21
const TIMEOUT = 300_000

test(
  `${CASES} broken files`,
  async ({ skip }) => {
    const { fuzz, missingDevice } = await loadFuzzer()
    const reason = process.env.INGOT_WEBGPU_MISSING ?? missingDevice('webgpu')
    if (reason !== undefined) skip(reason)
    const { faults } = await fuzz({ device: 'webgpu', seed: SEED, from: 0, count: CASES })
    expect(faults).toEqual([])
  },
  TIMEOUT,
)
