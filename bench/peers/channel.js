// A peer's end of its IPC channel: handles one request after the other until the channel closes, and says with every reply how much CPU
// time went by while nobody asked. The same as src/bench/channel.ts.

/** @param {Record<string, (request: any) => Promise<object>>} handlers */
export function serve(handlers) {
  let lastReply = { cpu: process.cpuUsage(), at: performance.now() }

  process.on('message', async (/** @type {{ id: number, kind: string }} */ request) => {
    const { user, system } = process.cpuUsage(lastReply.cpu)
    const idle = { cpuMs: (user + system) / 1000, ms: performance.now() - lastReply.at }
    const outcome = await handle(request)
    lastReply = { cpu: process.cpuUsage(), at: performance.now() }
    process.send?.({ ...outcome, id: request.id, idle, cpuMs: (lastReply.cpu.user + lastReply.cpu.system) / 1000 })
  })

  process.on('disconnect', () => process.exit())

  async function handle(/** @type {{ kind: string }} */ request) {
    try {
      return { reply: await handlers[request.kind]?.(request) }
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) }
    }
  }
}
