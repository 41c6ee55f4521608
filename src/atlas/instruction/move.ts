// Instructions that move: memory, registers, pools, control, and waiting.

import { ALL_TYPES, fromBits } from '../type.ts'
import type { Space } from '../machine.ts'
import * as meaning from './meaning.ts'
import { input, instruction, number, output, type } from './record.ts'

const load = (space: Space, about: string) =>
  instruction({
    group: 'data',
    about,
    operands: [type('ty', ALL_TYPES), output('dst', 'ty'), { kind: 'address', name: 'addr', space }],
    run: (m, { ty, dst, addr }) => {
      m.write(dst, ty, m.load(space, addr, ty))
      return undefined
    },
  })

const store = (space: Space, about: string) =>
  instruction({
    group: 'data',
    about,
    operands: [type('ty', ALL_TYPES), input('src', 'ty'), { kind: 'address', name: 'addr', space }],
    run: (m, { ty, src, addr }) => {
      m.store(space, addr, ty, m.read(src, ty))
      return undefined
    },
  })

export const DATA = {
  ldg: load('global', 'load from a buffer'),
  stg: store('global', 'store to a buffer'),
  lds: load('shared', 'load from the shared memory of the block'),
  sts: store('shared', 'store to the shared memory of the block'),
  mov: instruction({
    group: 'data',
    about: 'copy a register',
    operands: [type('ty', ALL_TYPES), output('dst', 'ty'), input('src', 'ty')],
    run: (m, { ty, dst, src }) => {
      m.write(dst, ty, m.read(src, ty))
      return undefined
    },
  }),
  movImm: instruction({
    group: 'data',
    about: 'a constant, by its bit pattern',
    operands: [type('ty', ALL_TYPES), output('dst', 'ty'), { kind: 'bits', name: 'value' }],
    run: (m, { ty, dst, value }) => {
      m.write(dst, ty, m.constant(ty, fromBits(ty, value)))
      return undefined
    },
  }),
  cvt: instruction({
    group: 'data',
    about: 'convert: integers wrap; floats to integers are cut towards zero and limited, NaN gives 0',
    operands: [type('dstTy', ALL_TYPES), type('srcTy', ALL_TYPES), output('dst', 'dstTy'), input('src', 'srcTy')],
    run: (m, { dstTy, srcTy, dst, src }) => {
      m.write(dst, dstTy, m.convert(srcTy, dstTy, m.read(src, srcTy)))
      return undefined
    },
  }),
} as const

export const CONTROL = {
  bra: instruction({
    group: 'control',
    about: 'go to a label, if the predicate (where there is one) holds',
    operands: [
      { kind: 'predicate', name: 'pred', role: 'in', optional: true },
      { kind: 'label', name: 'target' },
    ],
    jump: 'branch',
    run: (m, { pred }) => (pred === null ? undefined : m.predicate(pred)),
  }),
  call: instruction({
    group: 'control',
    about: 'go to a label, and come back at ret',
    operands: [{ kind: 'label', name: 'target' }],
    jump: 'call',
    run: () => undefined,
  }),
  ret: instruction({ group: 'control', about: 'go to behind the last call', operands: [], jump: 'return', run: () => undefined }),
  loop: instruction({
    group: 'control',
    about: 'if the counter is above 0: take 1 away and go to the label',
    operands: [
      { kind: 'register', name: 'count', role: 'both', type: 'u32' },
      { kind: 'label', name: 'body' },
    ],
    jump: 'branch',
    run: (m, { count }) => {
      const [left, zero] = [m.read(count, 'u32'), m.constant('u32', 0n)]
      const again = m.compare('ne', 'u32', left, zero)
      const less = m.compute(meaning.subtract, 'u32', [left, m.constant('u32', 1n)])
      m.write(count, 'u32', m.choose(again, 'u32', less, zero))
      return again
    },
  }),
  exit: instruction({ group: 'control', about: 'the lane ends', operands: [], jump: 'exit', run: () => undefined }),
} as const

export const SYNC = {
  barSync: instruction({
    group: 'sync',
    about: 'wait until all lanes of the block are here',
    operands: [number('id', 8)],
    run: (m, { id }) => {
      m.wait(id)
      return undefined
    },
  }),
  memFence: instruction({
    group: 'sync',
    about: 'what this lane stored before is seen before what it stores after',
    operands: [{ kind: 'scope', name: 'scope' }],
    run: (m, { scope }) => {
      m.fence(scope)
      return undefined
    },
  }),
} as const

/** of one pool of one lane */
const MOST_POOL_BYTES = 65536n

export const POOLS = {
  poolAlloc: instruction({
    group: 'pool',
    about: 'a pool of zeros for this lane; each such instruction has one at a time, until poolFree',
    operands: [{ kind: 'long', name: 'size', most: MOST_POOL_BYTES }, output('dst', 'u64')],
    run: (m, { size, dst }) => {
      m.write(dst, 'u64', m.allocatePool(size))
      return undefined
    },
  }),
  poolFree: instruction({
    group: 'pool',
    about: 'give a pool back',
    operands: [input('handle', 'u64')],
    run: (m, { handle }) => {
      m.freePool(m.read(handle, 'u64'))
      return undefined
    },
  }),
  poolLoad: instruction({
    group: 'pool',
    about: 'load from a pool, so many bytes from its start',
    operands: [type('ty', ALL_TYPES), output('dst', 'ty'), input('pool', 'u64'), input('offset', 'u64')],
    run: (m, { ty, dst, pool, offset }) => {
      m.write(dst, ty, m.loadPool(ty, m.read(pool, 'u64'), m.read(offset, 'u64')))
      return undefined
    },
  }),
  poolStore: instruction({
    group: 'pool',
    about: 'store to a pool',
    operands: [type('ty', ALL_TYPES), input('src', 'ty'), input('pool', 'u64'), input('offset', 'u64')],
    run: (m, { ty, src, pool, offset }) => {
      m.storePool(ty, m.read(pool, 'u64'), m.read(offset, 'u64'), m.read(src, ty))
      return undefined
    },
  }),
} as const
