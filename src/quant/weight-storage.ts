// The bytes of weights as kernels read them.

import type { Readable } from '../ir/author.ts'
import type { Uniformity } from '../ir/value.ts'

/** How kernels see the bytes of a weight: the widest element that every block is aligned to. */
export type WeightStorage = 'f32' | 'f16' | 'u32' | 'u16' | 'u8'
export type Weights<S extends WeightStorage = WeightStorage> = Readable<S, Uniformity>
