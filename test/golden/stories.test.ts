// The story on the devices that need no driver. Another device is another line.

import { EMULATED } from '../emulated.ts'
import { type GoldenDevice, testGolden } from './story.ts'

const DEVICES: readonly GoldenDevice[] = [
  { name: 'cpu', nmse: 1e-8 },
  ...(EMULATED ? [] : [{ name: 'reference', nmse: 1e-5, mostTokens: 40 }]), // it interprets, the same on every processor
]

for (const device of DEVICES) testGolden(device)
