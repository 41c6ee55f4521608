// Three projects, because a process can use one Vulkan driver only: Dawn picks it when its first instance is made, from
// the environment. `main` runs everything but *.gpu.test.ts; `swiftshader` and `lavapipe` each run those, on one driver.
// A GPU test reads INGOT_WEBGPU_DRIVER (which driver) and INGOT_WEBGPU_MISSING (why to skip, where it is not installed).

import { availableParallelism } from 'node:os'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { driverEnvironment, findDrivers } from './scripts/drivers.js'

const GPU_TESTS = 'test/**/*.gpu.test.ts'

const gpuProjects = Object.values(findDrivers()).map((driver): TestProjectInlineConfiguration => ({
  extends: true,
  test: {
    name: driver.name,
    include: [GPU_TESTS],
    env: {
      ...driverEnvironment(driver),
      INGOT_WEBGPU_DRIVER: driver.name,
      ...(driver.icd === undefined ? { INGOT_WEBGPU_MISSING: driver.hint } : {}),
    },
  },
}))

export default defineConfig({
  test: {
    pool: 'forks',
    // vitest leaves a core free, which on two cores is half the machine.
    maxWorkers: Math.min(availableParallelism(), 8),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default'],
    // What a test computes must not depend on what was measured as fastest: those of BLAS libraries name one.
    env: { INGOT_DEBUG: '1', INGOT_BLAS: 'off' },
    projects: [{ extends: true, test: { name: 'main', include: ['test/**/*.test.ts'], exclude: [GPU_TESTS] } }, ...gpuProjects],
  },
})
