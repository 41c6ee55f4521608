// Every f16 as a number. Apart from half.ts, since it takes milliseconds to fill and a program that runs models never looks at it.

import { decodeHalf } from './half.ts'

/** The value of every f16, by its bits. */
export const HALVES = Float32Array.from({ length: 65536 }, (_, half) => decodeHalf(half))
