// Instructions about the 96 classes of the Atlas graph: tables and a little arithmetic.

import { CLASSES, CLASS_BYTES, PAGES, PAGE_BYTES, PHASES, isUnity, mirrorOf, neighboursOf } from '../class.ts'
import type { Machine } from '../machine.ts'
import * as meaning from './meaning.ts'
import { input, instruction, number, output } from './record.ts'

const ALL = Array.from({ length: CLASSES }, (_, index) => index)
const MIRRORS = ALL.map(mirrorOf)
const NEIGHBOURS = ALL.map(neighboursOf)
const UNITY = ALL.map((index) => (isUnity(index) ? 1 : 0))

/** A register that holds a class. */
function readClass<V, P>(m: Machine<V, P>, register: number): V {
  const index = m.read(register, 'u8')
  m.require(m.compare('lt', 'u8', index, m.constant('u8', BigInt(CLASSES))), 'bad-class')
  return index
}

/** a * factor + b, of u64. */
function scaleAdd<V, P>(m: Machine<V, P>, a: V, factor: number, b: V): V {
  return m.compute(meaning.multiplyAdd, 'u64', [a, m.constant('u64', BigInt(factor)), b])
}

export const ATLAS = {
  clsGet: instruction({
    group: 'class',
    about: 'the class of this lane: block x modulo 96',
    operands: [output('dst', 'u8')],
    run: (m, { dst }) => {
      m.write(dst, 'u8', m.currentClass())
      return undefined
    },
  }),
  mirror: instruction({
    group: 'class',
    about: 'the mirror of a class',
    operands: [output('dst', 'u8'), input('src', 'u8')],
    run: (m, { dst, src }) => {
      m.write(dst, 'u8', m.lookUp(MIRRORS, 'u8', readClass(m, src)))
      return undefined
    },
  }),
  unityTest: instruction({
    group: 'class',
    about: 'whether the class of this lane is a unity (1 or 4); epsilon is reserved',
    operands: [
      { kind: 'predicate', name: 'dst', role: 'out' },
      { kind: 'float', name: 'epsilon' },
    ],
    run: (m, { dst }) => {
      m.setPredicate(dst, m.compare('ne', 'u8', m.lookUp(UNITY, 'u8', m.currentClass()), m.constant('u8', 0n)))
      return undefined
    },
  }),
  nbrCount: instruction({
    group: 'class',
    about: 'how many neighbours a class has',
    operands: [output('dst', 'u32'), input('class', 'u8')],
    run: (m, { dst, class: index }) => {
      const counts = NEIGHBOURS.map(({ length }) => length)
      m.write(dst, 'u32', m.lookUp(counts, 'u32', readClass(m, index)))
      return undefined
    },
  }),
  nbrGet: instruction({
    group: 'class',
    about: 'a neighbour of a class, smallest first; 0 past the last',
    operands: [output('dst', 'u8'), input('class', 'u8'), number('index', 8)],
    run: (m, { dst, class: of, index }) => {
      const neighbours = NEIGHBOURS.map((each) => each[index] ?? 0)
      m.write(dst, 'u8', m.lookUp(neighbours, 'u8', readClass(m, of)))
      return undefined
    },
  }),
  resAccum: instruction({
    group: 'class',
    about: 'add to the accumulator of a class',
    operands: [input('class', 'u8'), input('value', 'f64')],
    run: (m, { class: index, value }) => {
      m.accumulate(readClass(m, index), m.read(value, 'f64'))
      return undefined
    },
  }),
  phaseGet: instruction({
    group: 'class',
    about: 'the phase of this lane, which begins at 0',
    operands: [output('dst', 'u32')],
    run: (m, { dst }) => {
      m.write(dst, 'u32', m.phase())
      return undefined
    },
  }),
  phaseAdv: instruction({
    group: 'class',
    about: 'advance the phase of this lane, modulo 768',
    operands: [number('delta', 16)],
    run: (m, { delta }) => {
      const next = m.compute(meaning.add, 'u32', [m.phase(), m.constant('u32', BigInt(delta % PHASES))])
      const around = m.compute(meaning.subtract, 'u32', [next, m.constant('u32', BigInt(PHASES))])
      m.setPhase(m.choose(m.compare('lt', 'u32', next, m.constant('u32', BigInt(PHASES))), 'u32', next, around))
      return undefined
    },
  }),
  boundMap: instruction({
    group: 'class',
    about: 'class * 12288 + page * 256 + byte',
    operands: [output('dst', 'u64'), input('class', 'u8'), input('page', 'u8'), input('byte', 'u8')],
    run: (m, { dst, class: index, page, byte }) => {
      const [x, y, z] = [readClass(m, index), m.read(page, 'u8'), m.read(byte, 'u8')]
      m.require(m.compare('lt', 'u8', y, m.constant('u8', BigInt(PAGES))), 'bad-coordinates')
      const long = (value: typeof x): typeof x => m.convert('u8', 'u64', value)
      m.write(dst, 'u64', scaleAdd(m, long(x), CLASS_BYTES, scaleAdd(m, long(y), PAGE_BYTES, long(z))))
      return undefined
    },
  }),
} as const
