// The script that Ingot's side runs as: answers requests from its IPC channel until that closes.

import { createAnswers } from './answer.ts'
import type { Message, Op, Replies, Requests } from './side.ts'

type Incoming = { readonly [O in Op]: Requests[O] & { readonly id: number; readonly op: O } }[Op]

const { answers } = createAnswers()
let replied = { cpu: process.cpuUsage(), at: performance.now() }

process.on('message', (request: Incoming) => void reply(request))
process.on('disconnect', () => process.exit())

async function reply(request: Incoming): Promise<void> {
  const { user, system } = process.cpuUsage(replied.cpu)
  const idle = { cpuMs: (user + system) / 1000, ms: performance.now() - replied.at }
  let found: { error: string } | Replies[Op]
  try {
    found = await (answers[request.op] as (request: Incoming) => Promise<Replies[Op]>)(request)
  } catch (error) {
    found = { error: error instanceof Error ? error.message : String(error) }
  }
  replied = { cpu: process.cpuUsage(), at: performance.now() }
  const cpuMs = (replied.cpu.user + replied.cpu.system) / 1000
  process.send?.({ ...found, id: request.id, idle, cpuMs } satisfies Message)
}
