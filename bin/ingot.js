#!/usr/bin/env node
// The launcher: all it knows is where the compiled command line is.

import { existsSync } from 'node:fs'
import module from 'node:module'

module.enableCompileCache?.() // from Node 22 on: what was compiled once starts faster
const path = new URL('../dist/bundle/main.js', import.meta.url)
if (existsSync(path)) {
  const { main } = await import(path.href)
  process.exitCode = await main(process.argv.slice(2))
} else {
  process.stderr.write('ingot: not built yet; run `npm start` or `npm run build` once\n')
  process.exitCode = 2
}
