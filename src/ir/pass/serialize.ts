import type { Kernel } from '../kernel.ts'
import type { Target } from '../target.ts'
export function serialize(kernel: Kernel, _target: Target): Kernel { return kernel }
