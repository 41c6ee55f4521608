// The faults of `npm run mutate`: each is one line that a hurried change could get wrong, and the tests that must notice. To add one,
// append a record to the file of its kind in mutations/: a file, a text that stands in it exactly once, what it becomes, and the tests
// that should fail. Choose the fastest test that has no excuse to miss it. A fault that survives is a missing test: write that first.

import { DEVICE } from './mutations/device.js'
import { ELEMENT } from './mutations/element.js'
import { FILE } from './mutations/file.js'
import { FORMATS } from './mutations/formats.js'
import { KERNELS } from './mutations/kernels.js'
import { LANGUAGE } from './mutations/language.js'
import { TENSOR } from './mutations/tensor.js'
import { TRAIN } from './mutations/train.js'

/**
 * @typedef {object} Mutation
 * @property {string} name what goes wrong, for people
 * @property {string} file
 * @property {string} find stands in the file exactly once
 * @property {string} replace
 * @property {readonly string[]} tests files of tests, and flags of vitest
 * @property {string} [project] of vitest.config.ts; `main` unless said
 */

/** @type {readonly Mutation[]} */
export const MUTATIONS = [...KERNELS, ...FORMATS, ...LANGUAGE, ...ELEMENT, ...DEVICE, ...FILE, ...TENSOR, ...TRAIN]
