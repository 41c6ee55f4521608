// The script that `ingot bench --train` runs for each measurement, so that each has a process, and a peak of memory, of its own.

import { type TrainRun, measureTraining } from './measure.ts'

const run = JSON.parse(process.argv[2] ?? '{}') as TrainRun // run.ts writes it
process.stdout.write(JSON.stringify(await measureTraining(run)))
process.exit(0)
