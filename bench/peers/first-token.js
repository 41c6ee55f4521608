// The least program that gets one token out of node-llama-cpp: what `ingot bench` times from process start.
// node first-token.js MODEL 1,2,3 CONTEXT SETTINGS

import { decode, openModel } from './llama.js'

const [path = '', ids = '', context = '', settings = '{}'] = process.argv.slice(2)
const { sequence } = await openModel(path, Number(context), JSON.parse(settings))
const { value } = await decode(sequence, ids.split(',').map(Number)).next()
process.stdout.write(`${value}\n`, () => process.exit())
