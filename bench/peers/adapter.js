// What node-llama-cpp makes of an adapter: the likeliest token after each token of a text, and its probability. For tests that hold files
// which Ingot wrote against a peer. `node adapter.js MODEL ADAPTER ID...` prints JSON.

import { LlamaLogLevel, getLlama } from 'node-llama-cpp'

const [path = '', adapter = '', ...ids] = process.argv.slice(2)
const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, progressLogs: false, logLevel: LlamaLogLevel.error })
const model = await llama.loadModel({ modelPath: path })
const context = await model.createContext({ contextSize: 256, lora: { adapters: [{ filePath: adapter, scale: 1 }] } })
const input = ids.map((id) => [Number(id), { generateNext: { probabilities: true } }])
const output = await context.getSequence().controlledEvaluate(/** @type {any} */ (input))
const best = output.map((each) => [...(each?.next?.probabilities ?? [])][0])
process.stdout.write(`${JSON.stringify(best)}\n`)
process.exit(0)
