// Every model of the data folder, on the devices that need no driver. Another device is another line.

import { type WitnessDevice, testModels } from './witness.ts'

const DEVICES: readonly WitnessDevice[] = [
  { name: 'cpu', nmse: 1e-5 },
  { name: 'reference', nmse: 1e-4, mostBytes: 6e6, mostTokens: () => 3 },
]

for (const device of DEVICES) testModels(device)
