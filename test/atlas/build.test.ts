// The typed builder: what it writes, and what its types refuse.
import { describe, expect, it } from 'vitest'
import { bufferAt, computedAt, program } from '../../src/atlas/build.ts'
import { printProgram } from '../../src/atlas/text.ts'
import { errorOf } from '../ir/run.ts'

describe('program', () => {
  it('writes what its methods say', () => {
    const add = program((p) => {
      const two = p.movImm('u32', 2)
      const offset = p.shl(p.globalLane, two)
      const [a, b, out] = [p.movImm('u64', 1), p.movImm('u64', 2), p.movImm('u64', 3)]
      const sum = p.add(p.ldg('f32', computedAt(a, offset)), p.ldg('f32', computedAt(b, offset)))
      const big = p.set('gt', sum, p.movImm('f32', 1.5))
      const limited = p.sel(big, p.movImm('f32', 1.5), sum)
      p.stg(p.cvt('f32', p.cvt('f64', limited)), computedAt(out, offset))
      p.exit()
    })
    expect(printProgram(add)).toBe(`  movimm.u32 r0, 2
  shl.u64 r1, r255, r0
  movimm.u64 r2, 1
  movimm.u64 r3, 2
  movimm.u64 r4, 3
  ldg.f32 r5, [r2 + r1]
  ldg.f32 r6, [r3 + r1]
  add.f32 r7, r5, r6
  movimm.f32 r8, 1.5
  setgt.f32 p0, r7, r8
  movimm.f32 r9, 1.5
  sel.f32 r10, p0, r9, r7
  cvt.f64.f32 r11, r10
  cvt.f32.f64 r12, r11
  stg.f32 r12, [r4 + r1]
  exit
`)
  })

  it('sets registers that are there, and goes to labels', () => {
    const count = program((p) => {
      const left = p.movImm('u32', 9)
      const sum = p.movImm('i32', 0)
      const one = p.movImm('i32', 1)
      p.label('again')
      p.add(sum, one, sum)
      p.loop(left, 'again')
      p.bra(null, 'end')
      p.label('end')
      p.stg(sum, bufferAt(1, 8))
    })
    expect(printProgram(count)).toContain('again:\n  add.i32 r1, r1, r2\n  loop r0, @again\n  bra @end\nend:\n  stg.i32 r1, [buf1 + 8]\n')
  })

  it('has types', () => {
    const refused = (): unknown =>
      program((p) => {
        const [float, whole] = [p.movImm('f32', 1), p.movImm('i32', 1)]
        // @ts-expect-error -- two types
        p.add(float, whole)
        // @ts-expect-error -- logic of floats
        p.and(float, float)
        // @ts-expect-error -- functions of integers
        p.exp(whole)
        // @ts-expect-error -- a reserved word is no condition
        p.set('like', whole, whole)
      })
    expect(errorOf(refused).code).toBe('bad-program')
    expect(errorOf(refused).message).toContain('and: ty: no such type f32')
    expect(errorOf(refused).message).toContain('exp: ty: no such type i32')
    expect(errorOf(refused).message).toContain('unknown condition like')
  })

  it('refuses a label twice and more registers than there are', () => {
    expect(errorOf(() => program((p) => [p.label('a'), p.label('a')])).code).toBe('bad-program')
    const many = (): unknown =>
      program((p) => {
        for (let i = 0; i < 253; i++) p.movImm('u8', 0)
      })
    expect(errorOf(many).code).toBe('too-large')
  })
})
