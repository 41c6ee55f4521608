// The builder under authors and passes: where statements go, which ids are given out, what is refused.

import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Builder } from '../../src/ir/build.ts'
import { Folder } from '../../src/ir/pass/fold.ts'

describe('a builder', () => {
  it('adds to the innermost block, also after one that failed', () => {
    const builder = new Builder('k')
    const yes = builder.constant(true, 'bool')
    builder.if(yes, () => builder.bind('inner', yes))
    expect(() =>
      builder.loop(() => {
        builder.bind('lost', yes)
        throw new RangeError('no')
      }),
    ).toThrow(RangeError)
    builder.bind('outer', yes)
    expect(builder.body().src.map(({ op }) => op)).toEqual(['if', 'let'])
  })

  it('gives out ids that nobody has', () => {
    const builder = new Builder('k', { firstId: 7 })
    const zero = builder.constant(0, 'u32')
    expect([builder.bind('a', zero).arg, builder.variable('b', zero), builder.freshId()]).toEqual([7, 8, 9])
  })

  it('renames what was bound last, and nothing else', () => {
    const builder = new Builder('k')
    const zero = builder.constant(0, 'u32')
    builder.bind('a', zero, 0)
    builder.bind('b', zero, 1)
    expect([builder.rename(0, 'x'), builder.rename(1, 'y')]).toEqual([false, true])
    expect(builder.body().src.map(({ arg }) => arg)).toEqual([
      { id: 0, name: 'a' },
      { id: 1, name: 'y' },
    ])
  })

  it('spreads scalars over vectors and refuses what has no type', () => {
    const builder = new Builder('k')
    const one = builder.constant(1, 'f32')
    expect(builder.lift(one, 'f32x4')).toBe(builder.constant(1, 'f32x4'))
    expect(builder.vec([one, one]).dtype).toBe('f32x2')
    expect(() => builder.vec([one, one, one])).toThrow('no vector has 3 elements')
    expect(() => builder.constant(-1, 'u32')).toThrow('k: constant does not fit its type, got -1, wanted u32')
    expect(() => builder.apply('add', [one, builder.constant(1, 'u32')])).toThrow('k: add: operands must have one type')
  })

  it('folds if its interner does', () => {
    const sum = (builder: Builder): string => builder.apply('add', [builder.constant(2, 'u32'), builder.constant(3, 'u32')]).op
    expect([sum(new Builder('k')), sum(new Builder('k', { interner: new Folder() }))]).toEqual(['add', 'const'])
  })

  it('folds every op by its own meaning, but not where it has none', () => {
    const builder = new Builder('k', { interner: new Folder() })
    const word = (value: number) => builder.constant(value, 'u32')
    const sum = builder.constant(10, 'i32')
    expect(builder.apply('dotI8', [word(0x01020304), word(0x01010101), sum])).toBe(builder.constant(20, 'i32'))
    expect(builder.apply('dotU7I8', [word(0x80), word(1), sum]).op).toBe('dotU7I8')
    expect(builder.apply('table', [word(1)], [5, 6], 'u32')).toBe(word(6))
    expect(builder.apply('table', [word(2)], [5, 6], 'u32').op).toBe('table')
  })
})

it('is the only way to make nodes: of authors, passes and Atlas programs alike', () => {
  const source = join(import.meta.dirname, '../../src')
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  const makers = files.filter((name) => /interner\.make\(|new (Interner|Folder)\(/.test(readFileSync(join(source, name), 'utf8')))
  // rewrite.ts gives builders their interner that folds
  expect(makers.map((name) => name.replaceAll('\\', '/')).toSorted()).toEqual(['ir/build.ts', 'ir/pass/rewrite.ts'])
})
