// A child's end of its IPC channel: handles one request after the other until the channel closes, and says with every reply how much CPU
// time went by while nobody asked.

import { messageOf } from '../base/error.ts'
import type { HandlersOf, Protocol, ReplyMessage } from './contender.ts'

export function serve<P extends Protocol<P>>(handlers: HandlersOf<P>): void {
  type Incoming<K extends keyof P = keyof P> = P[K]['request'] & { readonly id: number; readonly kind: K }
  let lastReply = { cpu: process.cpuUsage(), at: performance.now() }

  const handle = async <K extends keyof P>(request: Incoming<K>): Promise<{ error: string } | { reply: P[K]['reply'] }> => {
    try {
      return { reply: await handlers[request.kind](request) }
    } catch (error) {
      return { error: messageOf(error) }
    }
  }
  const respond = async (request: Incoming): Promise<void> => {
    const { user, system } = process.cpuUsage(lastReply.cpu)
    const idle = { cpuMs: (user + system) / 1000, ms: performance.now() - lastReply.at }
    const outcome = await handle(request)
    lastReply = { cpu: process.cpuUsage(), at: performance.now() }
    const cpuMs = (lastReply.cpu.user + lastReply.cpu.system) / 1000
    process.send?.({ ...outcome, id: request.id, idle, cpuMs } satisfies ReplyMessage)
  }
  process.on('message', (request: Incoming) => void respond(request))
  process.on('disconnect', () => process.exit())
}
