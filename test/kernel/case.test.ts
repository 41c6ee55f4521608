// Every case of the records written so far, in every form, against its definition.

import { describe, it } from 'vitest'
import { map } from '../../src/kernel/map.ts'
import { norm } from '../../src/kernel/norm.ts'
import type { KernelRecord } from '../../src/kernel/record.ts'
import { reduce } from '../../src/kernel/reduce.ts'
import { argmax, topk } from '../../src/kernel/select.ts'
import { softmax } from '../../src/kernel/softmax.ts'
import { ALL_CAPS, expectCase } from './interpret-case.ts'

const RECORDS = [map, reduce, softmax, norm, argmax, topk] as unknown as readonly KernelRecord<object>[]

describe.each(Object.entries(ALL_CAPS))('%s', (_name, caps) => {
  for (const record of RECORDS) {
    it(record.name, () => {
      for (const params of record.cases) expectCase(record, params, caps)
    })
  }
})
