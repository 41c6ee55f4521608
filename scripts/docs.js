// `npm run docs`: writes the generated tables of docs/tensors.md and docs/atlas.md, between their markers, from the library in dist/.
// test/docs/tensors.test.ts and test/docs/atlas.test.ts fail while they are stale.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { instructionTables, metalSource } from './docs/instruction.js'
import { METHOD_FILES, operationTables } from './docs/operation.js'
import { replaceBetween } from './docs/marker.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const load = (/** @type {string} */ path) => import(pathToFileURL(join(ROOT, 'dist', path)).href)

const [{ Tensor, gradients }, { OPERATIONS }, { MAP_OPS }, { ELEMENT_TYPES }, atlas, { emitSource }] = await Promise.all(
  ['index.js', 'tensor/op/index.js', 'kernel/map/op.js', 'base/element.js', 'atlas.js', 'cli/source.js'].map(load),
)
const library = { Tensor, gradients, operations: OPERATIONS, mapOps: MAP_OPS, types: ELEMENT_TYPES }
const tables = operationTables(
  library,
  METHOD_FILES.map((path) => readFileSync(join(ROOT, path), 'utf8')),
)
write('docs/tensors.md', 'operations', tables)
write('docs/atlas.md', 'instructions', instructionTables(atlas.INSTRUCTIONS))
write('docs/atlas.md', 'metal', metalSource(readFileSync(join(ROOT, 'docs/atlas.md'), 'utf8'), atlas, emitSource))

/**
 * Puts a part of a page between its markers.
 * @param {string} page
 * @param {string} name
 * @param {string} part
 */
function write(page, name, part) {
  const before = readFileSync(join(ROOT, page), 'utf8')
  const after = replaceBetween(before, name, part)
  if (after !== before) writeFileSync(join(ROOT, page), after)
  process.stdout.write(`${page}: ${after === before ? 'the tables are as they were' : 'new tables'}\n`)
}
