// The rules of a device, for WebGPU on the driver of this project.

import { describe, it } from 'vitest'
import { webgpu } from '../../src/device/webgpu/webgpu.ts'
import { testContract } from './contract.ts'

const { available, reason } = process.env.INGOT_WEBGPU_MISSING === undefined ? await webgpu.probe() : { available: false, reason: process.env.INGOT_WEBGPU_MISSING }

if (available) testContract('webgpu', () => webgpu.open())
else describe('webgpu', () => it('keeps the rules of a device', ({ skip }) => skip(reason)))
