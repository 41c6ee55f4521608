// The story on the devices that need no driver. Another device is another line.

import { type GoldenDevice, testGolden } from './story.ts'

const DEVICES: readonly GoldenDevice[] = [
  { name: 'cpu' },
  { name: 'reference', mostTokens: 40 },
]

for (const device of DEVICES) testGolden(device)
