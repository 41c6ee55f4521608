// The table of Objective-C messages that the Metal device sends, against the software Metal and the naming rules of the language.

import { describe, expect, it } from 'vitest'
import type { CType } from '../../src/device/metal/ffi.ts'
import { SELECTORS, type Signature } from '../../src/device/metal/selectors.ts'
import { findSoft } from './metal-soft.ts'

const { soft: found, missing } = await findSoft()
const soft = found!

describe('the table of messages', () => {
  const LETTER: Readonly<Record<CType, RegExp>> = {
    void: /^v/,
    pointer: /^(?:@|:|\^[@vQ])/,
    text: /^\*/,
    u8: /^C/,
    i32: /^i/,
    u64: /^Q/,
    i64: /^q/,
    bool: /^B/,
    f64: /^d/,
    size: /^\{MTLSize=QQQ\}/,
    range: /^\{_NSRange=QQ\}/,
  }
  const all = Object.entries(SELECTORS).flatMap(([name, selectors]) =>
    Object.entries(selectors).map(([selector, signature]) => [name, selector, signature as Signature] as const),
  )

  it('is what the software Metal implements', ({ skip }) => {
    if (missing !== undefined) skip(missing)
    for (const [name, selector, { args, returns, onClass }] of all) {
      const encoded = soft.types(onClass ? `+${name}` : name, selector)
      let rest = encoded ?? ''
      for (const type of [returns, 'pointer', 'pointer', ...args] as const) {
        expect(rest, `${name} ${selector}: ${encoded}`).toMatch(LETTER[type])
        rest = rest.replace(LETTER[type], '')
      }
      expect(rest, `${name} ${selector}: ${encoded}`).toBe('')
    }
  })

  it('follows the naming of Objective-C', () => {
    for (const [name, selector, { args, owned, returns }] of all) {
      expect(selector.split(':').length - 1, `${name} ${selector}`).toBe(args.length)
      expect(owned, `${name} ${selector}`).toBe(returns === 'pointer' && /^(?:new|alloc|copy|mutableCopy|init)(?![a-z])/.test(selector))
    }
  })
})
