// Windows worth testing: of one to three axes, with steps, gaps and padding on either side, sticking out, larger than what they slide over,
// and long enough for every loop.

import { type Windows, windowCounts } from './windows.ts'

const within = (windows: Omit<Windows, 'out'>, ceil = false): Windows => ({ ...windows, out: windowCounts(windows, ceil) })
const plain = { strides: [1, 1], dilations: [1, 1] } as const
const around = [
  [1, 1],
  [1, 1],
] as const
const none = [
  [0, 0],
  [0, 0],
] as const

/** Small, for each type of elements. */
export const TYPE_CASE: Windows = within({ in: [4, 19], kernel: [2, 3], ...plain, padding: around })

/** Single elements. */
export const POINTS = { kernel: [1, 1], ...plain, padding: none } as const

/** More windows than one workgroup has. */
export const LARGE_CASE: Windows = within({ in: [95, 100], kernel: [1, 1], ...plain, padding: none })

/** Rows longer than what scratch memory holds of one. */
export const WIDE_CASE: Windows = within({ in: [2, 4500], kernel: [2, 3], strides: [1, 2], dilations: [1, 3], padding: around })

/** Of at most two axes. */
export const FLAT_WINDOW_CASES: readonly Windows[] = [
  within({ in: [9, 21], kernel: [3, 3], ...plain, padding: around }),
  within({ in: [1], kernel: [1], strides: [1], dilations: [1], padding: [[0, 0]] }),
  within({ in: [67], kernel: [5], strides: [1], dilations: [1], padding: [[2, 2]] }),
  within({ in: [67], kernel: [5], strides: [3], dilations: [2], padding: [[4, 1]] }),
  within({ in: [7, 40], kernel: [3, 2], strides: [2, 2], dilations: [1, 1], padding: around }),
  within({ in: [10, 39], kernel: [3, 3], strides: [1, 2], dilations: [2, 3], padding: none }),
  within({
    in: [5, 37],
    kernel: [2, 3],
    strides: [3, 1],
    dilations: [2, 2],
    padding: [
      [0, 3],
      [4, 0],
    ],
  }),
  within({ in: [5, 6], kernel: [2, 2], strides: [2, 3], dilations: [1, 1], padding: none }, true), // the last ones stick out
  within({
    in: [2, 3],
    kernel: [4, 5],
    ...plain,
    padding: [
      [3, 2],
      [4, 4],
    ],
  }), // no window is all inside
  within({ in: [6, 6], kernel: [1, 1], ...plain, padding: none }),
]

export const WINDOW_CASES: readonly Windows[] = [
  ...FLAT_WINDOW_CASES,
  within({
    in: [3, 4, 18],
    kernel: [2, 2, 3],
    strides: [1, 2, 1],
    dilations: [2, 1, 1],
    padding: [
      [1, 1],
      [0, 1],
      [1, 1],
    ],
  }),
]
