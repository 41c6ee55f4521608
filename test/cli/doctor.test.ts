// `ingot doctor` and `ingot start`: what they say of this machine comes from running kernels on it.

import { describe, expect, test } from 'vitest'
import { describeDiagnosis } from '../../src/cli/command/doctor.ts'
import { styleFor } from '../../src/cli/output/style.ts'
import { type Diagnosis, diagnose } from '../../src/device/open/diagnose.ts'
import { DEVICES, type DeviceLine } from '../../src/device/open/open.ts'
import { finish, ingot, notBuilt, spawnIngot } from './command-line.ts'

const plain = styleFor({ isTTY: false })
const line = (name: string): DeviceLine => DEVICES.find((each) => each.name === name) as DeviceLine

describe('doctor', () => {
  test('runs kernels on every device', async () => {
    const { code, stdout } = await ingot('doctor', '--json')
    const { verdict, chosen, why, devices } = JSON.parse(stdout) as Diagnosis
    expect(code).toBe(0)
    expect(['ok', 'degraded']).toContain(verdict)
    expect(why).not.toBe('')
    expect(devices.map(({ name }) => name)).toEqual(DEVICES.map(({ name }) => name))
    const cpu = devices.find(({ name }) => name === 'cpu')
    expect(cpu?.selfTest.passed.length).toBeGreaterThan(3)
    expect(devices.find(({ name }) => name === chosen)?.selfTest.failed).toEqual([])
    if (cpu?.detail.startsWith('native'))
      expect(cpu.findings).toContainEqual(
        expect.objectContaining({ probe: 'f32 products', status: 'note', evidence: expect.stringMatching(/INGOT_BLAS is off/) }),
      )
    for (const { available, findings } of devices) {
      expect(findings.length).toBeGreaterThan(0)
      if (!available) expect(findings[0]).toMatchObject({ probe: 'available', status: 'warn' })
    }
  })

  test('finds a device that computes wrong, and chooses another', async () => {
    const liar: DeviceLine = {
      ...line('cpu'),
      name: 'liar',
      load: async () => ({ ...(await line('null').load()), name: 'liar' }),
    }
    const broken: DeviceLine = { ...line('cpu'), name: 'broken', load: () => Promise.reject(new Error('no driver')) }
    const diagnosis = await diagnose({ devices: [broken, liar, line('reference')] })
    expect(diagnosis).toMatchObject({ verdict: 'degraded', chosen: 'reference' })
    const text = describeDiagnosis(diagnosis, plain)
    expect(text).toContain('liar, self-test: ')
    expect(text).toContain('no driver')
    expect(await diagnose({ devices: [broken] })).toMatchObject({ verdict: 'broken', chosen: null })
  })

  test('refuses in one line', async () => {
    const { code, stdout, stderr } = await ingot('doctor', '--fast')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^ingot: .+\n$/)
  })
})

describe('start', () => {
  test.skipIf(notBuilt !== undefined)(
    `writes a story, trains an adapter, and shows a kernel in every language and run${notBuilt === undefined ? '' : ` (${notBuilt})`}`,
    async () => {
      const { code, stdout } = await finish(spawnIngot('start', '--steps', '6'))
      expect(code).toBe(0)
      for (const part of [
        'Once upon a time',
        'the loss fell from',
        'before:',
        'after:',
        'mandelbrot = kernel(',
        'kernel void mandelbrot',
        '@compute',
        'void ingot_mandelbrot',
        '(func $run',
        '@@@@',
        '✓ cpu',
        'drew this picture',
        'doctor',
      ]) {
        expect(stdout).toContain(part)
      }
    },
  )
})

describe('--help', () => {
  for (const name of ['inspect', 'quantize', 'synth', 'doctor', 'kernel', 'start']) {
    test(`of ${name}`, async () => {
      const { code, stdout, stderr } = await ingot(name, '--help')
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      expect(stdout).toContain(`Usage: ingot ${name}`)
    })
  }
})
