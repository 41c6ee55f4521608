// The story on the devices that need no driver. Another device is another line.

import { type GoldenDevice, testGolden } from './story.ts'

const DEVICES: readonly GoldenDevice[] = [
  { name: 'cpu', nmse: 1e-8 },
  { name: 'reference', nmse: 1e-5, mostTokens: 40 },
]

for (const device of DEVICES) testGolden(device)
