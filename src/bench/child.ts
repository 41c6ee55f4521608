// The script that Ingot runs as in a bench: handles the requests of its IPC channel until that closes.

import { messageOf } from '../base/error.ts'
import type { Replies, ReplyMessage, RequestKind, Requests } from './contender.ts'
import { createIngotServer } from './ingot-server.ts'

type Incoming<K extends RequestKind = RequestKind> = Requests[K] & { readonly id: number; readonly kind: K }

const { handlers } = createIngotServer()
let lastReply = { cpu: process.cpuUsage(), at: performance.now() }

process.on('message', (request: Incoming) => void respond(request))
process.on('disconnect', () => process.exit())

async function respond(request: Incoming): Promise<void> {
  const { user, system } = process.cpuUsage(lastReply.cpu)
  const idle = { cpuMs: (user + system) / 1000, ms: performance.now() - lastReply.at }
  const outcome = await handle(request)
  lastReply = { cpu: process.cpuUsage(), at: performance.now() }
  const cpuMs = (lastReply.cpu.user + lastReply.cpu.system) / 1000
  process.send?.({ ...outcome, id: request.id, idle, cpuMs } satisfies ReplyMessage)
}

async function handle<K extends RequestKind>(request: Incoming<K>): Promise<{ error: string } | { reply: Replies[K] }> {
  try {
    return { reply: await handlers[request.kind](request) }
  } catch (error) {
    return { error: messageOf(error) }
  }
}
