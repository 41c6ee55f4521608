// Where data of independent origin lies: $INGOT_DATA, or ../shared/data beside the repository.

import { resolve } from 'node:path'

export const dataFolder = resolve(process.env['INGOT_DATA'] ?? '../shared/data')
