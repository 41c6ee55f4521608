#!/usr/bin/env node
// The launcher: all it knows is where the compiled command line is.

import { existsSync } from 'node:fs'

const main = new URL('../dist/cli/main.js', import.meta.url)
if (existsSync(main)) {
  await import(main.href)
} else {
  process.stderr.write('ingot: not built yet; run `npm start` or `npm run build` once\n')
  process.exitCode = 2
}
