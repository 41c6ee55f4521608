import { describe, expect, test } from 'vitest'
import { FAMILIES } from '../../src/kernel/index.ts'
import { TARGETS } from '../../src/cli/source.ts'
import { HINTS } from '../../src/cli/command/start.ts'
import { ingot } from './command-line.ts'

describe('kernel', () => {
  test('lists all', async () => {
    const names = FAMILIES.map(({ name }) => name)
    const { code, stdout } = await ingot('kernel', '--list')
    expect(code).toBe(0)
    expect(
      stdout
        .trim()
        .split('\n')
        .filter((line) => !line.startsWith(' '))
        .map((line) => line.split(' ')[0]),
    ).toEqual(names)
    expect(stdout).toContain('forms: ')
    const listed = JSON.parse((await ingot('kernel', '--list', '--json')).stdout) as { name: string; buffers: object[] }[]
    expect(listed.map(({ name }) => name)).toEqual(names)
    expect(listed.every(({ buffers }) => buffers.length > 0)).toBe(true)
  })

  const SIGNS = { msl: 'kernel void', wgsl: '@compute', c: 'void ingot_', wat: '(module', ir: 'kernel ' } as const
  for (const target of TARGETS) {
    test(`shows every kernel as ${target}`, async () => {
      for (const { name } of FAMILIES) {
        const { code, stdout, stderr } = await ingot('kernel', name, '--emit', target)
        expect({ name, code, stderr }).toEqual({ name, code: 0, stderr: '' })
        expect(stdout).toContain(SIGNS[target])
      }
    })
  }

  test('takes formats, types, sizes and caps', async () => {
    const linear = async (...args: string[]): Promise<string> => (await ingot('kernel', 'linear', '--emit', ...args)).stdout
    expect(await linear('msl', '--format', 'q6_k')).toContain('q6_k')
    expect(await linear('wgsl')).toContain('enable subgroups')
    expect(await linear('wgsl', '--caps', 'subgroup=0,lanes=64')).not.toContain('subgroup')
    expect(await linear('wgsl', '--dtype', 'f16', '--m', '32', '--k', '64', '--set', 'bias=true')).toContain('bias')
    expect(await linear('msl', '--n', '32', '--form', 'matmul registers')).toContain('matmul_q4_k')
    expect(await linear('msl', '--n', '1', '--form', 'matvec lanes')).toContain('matvec_q4_k')
    const attention = await ingot('kernel', 'attention', '--emit', 'msl', '--dtype', 'f16')
    expect(attention.stdout).toContain('half')
  })

  test('refuses in one line', async () => {
    for (const args of [
      ['lineal', '--emit', 'c'],
      [],
      ['linear'],
      ['linear', '--emit', 'ptx'],
      ['linear', '--emit', 'c', '--format', 'q9'],
      ['linear', '--emit', 'c', '--k', 'x'],
      ['softmax', '--emit', 'c', '--format', 'q4_k'],
      ['linear', '--emit', 'c', '--set', 'bias=7'],
      ['linear', '--emit', 'c', '--set', 'bias'],
      ['linear', '--emit', 'c', '--caps', 'warp=32'],
      ['linear', '--emit', 'c', '--caps', 'width=3'],
      ['linear', '--list'],
      ['linear', '--emit', 'c', '--json'],
    ]) {
      const { code, stdout, stderr } = await ingot('kernel', ...args)
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' })
      expect(stderr).toMatch(/^ingot: .+\n$/)
    }
    expect((await ingot('kernel', 'matvek', '--emit', 'c')).stderr).toContain('softmax')
  })
})

test('shows what `ingot start` suggests', async () => {
  const hint = HINTS.map(([args]) => args).find((args) => args.startsWith('kernel '))
  const { code, stdout, stderr } = await ingot(...hint!.split(' '))
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toContain('metal_stdlib')
})
