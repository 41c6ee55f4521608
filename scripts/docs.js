// `npm run docs`: writes the generated tables of docs/tensors.md, between their markers, from the library in dist/.
// test/docs/tensors.test.ts fails while they are stale.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { METHOD_FILES, operationTables } from './docs/operation.js'
import { replaceBetween } from './docs/marker.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const GUIDE = join(ROOT, 'docs/tensors.md')
const load = (/** @type {string} */ path) => import(pathToFileURL(join(ROOT, 'dist', path)).href)

const [{ Tensor, gradients }, { OPERATIONS }, { MAP_OPS }, { ELEMENT_TYPES }] = await Promise.all(
  ['index.js', 'tensor/op/index.js', 'kernel/map/op.js', 'base/element.js'].map(load),
)
const library = { Tensor, gradients, operations: OPERATIONS, mapOps: MAP_OPS, types: ELEMENT_TYPES }
const tables = operationTables(
  library,
  METHOD_FILES.map((path) => readFileSync(join(ROOT, path), 'utf8')),
)
const before = readFileSync(GUIDE, 'utf8')
const after = replaceBetween(before, 'operations', tables)
if (after !== before) writeFileSync(GUIDE, after)
process.stdout.write(`docs/tensors.md: ${after === before ? 'the tables are as they were' : 'new tables'}\n`)
