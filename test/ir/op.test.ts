// What the records of ops promise those who decide by them.

import { describe, expect, it } from 'vitest'
import { OPS, type OpName, type OpRecord, isLeaf, opRecord } from '../../src/ir/op.ts'

const RECORDS = Object.entries<OpRecord>(OPS)
const namesOf = (test: (record: OpRecord) => boolean): string[] => RECORDS.filter(([, record]) => test(record)).map(([op]) => op)

describe('the records of ops', () => {
  it('give every pure op that has operands one meaning', () => {
    const meanings = ({ js, moves, unpack, pack, reduces }: OpRecord): number =>
      [js, moves, unpack, pack, reduces].filter((each) => each !== undefined).length
    expect(namesOf((record) => record.kind === 'pure' && record.arity > 0 && meanings(record) !== 1)).toEqual([])
  })

  it('know the leaves, which have none', () => {
    expect((Object.keys(OPS) as OpName[]).filter(isLeaf)).toEqual(['const', 'index', 'uniform', 'local'])
  })

  it('reduce by ops that work on single elements', () => {
    const reductions = RECORDS.flatMap(([, { reduces }]) => (reduces === undefined ? [] : [reduces]))
    expect(reductions.filter((op) => opRecord(op).js === undefined)).toEqual([])
  })

  it('say how far the value of a collective is the same', () => {
    expect(namesOf(({ kind, collective, uniform }) => kind === 'effect' && collective === true && uniform === undefined)).toEqual([])
  })

  it('name the memory of every access', () => {
    const named = { mem: 'x', kind: 'add' }
    expect(namesOf(({ access, arg }) => access !== undefined && arg?.wrong(named) !== undefined)).toEqual([])
    expect(namesOf(({ access, arg }) => access !== undefined && arg?.wrong(null) === undefined)).toEqual([])
  })

  it('exclude only what has no meaning', () => {
    expect(opRecord('dotU7I8').excludes?.(null)(0x7f7f7f7f)).toBeUndefined()
    expect(opRecord('dotU7I8').excludes?.(null)(0x80)).toMatchObject({ got: '0x80' })
    expect(opRecord('table').excludes?.([1, 2])(2)).toMatchObject({ got: 2, wanted: 'below 2' })
  })
})
