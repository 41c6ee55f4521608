// Each GPU project really runs on the driver it is named for. Without this, both could quietly use the same one.

import { describe, expect, it } from 'vitest'

const EXPECTED = {
  swiftshader: { architecture: 'swiftshader', description: /SwiftShader/, subgroup: 4 },
  lavapipe: { architecture: 'software', description: /llvmpipe/, subgroup: 8 },
} as const

/** Why this driver cannot be tested here, or nothing. */
async function missing(): Promise<string | undefined> {
  if (process.env.INGOT_WEBGPU_MISSING !== undefined) return process.env.INGOT_WEBGPU_MISSING
  return import('webgpu').then(
    () => undefined,
    (error: unknown) => `the webgpu package does not load: ${String(error)}`,
  )
}

describe('the Vulkan driver of this project', () => {
  it('is the one Dawn uses, with its subgroup size', async ({ skip }) => {
    const reason = await missing()
    if (reason !== undefined) skip(reason)
    const name = process.env.INGOT_WEBGPU_DRIVER as keyof typeof EXPECTED
    const expected = EXPECTED[name]
    expect(expected, `no expectation for driver ${name}`).toBeDefined()

    const { create } = await import('webgpu')
    const adapter = await create([]).requestAdapter()
    expect(adapter, `${name}: Dawn found no adapter with ${process.env.VK_ICD_FILENAMES}`).not.toBeNull()
    const info = adapter!.info
    expect(info.architecture).toBe(expected.architecture)
    expect(info.description).toMatch(expected.description)
    expect([info.subgroupMinSize, info.subgroupMaxSize]).toEqual([expected.subgroup, expected.subgroup])
  })
})
