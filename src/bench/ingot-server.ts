// Ingot as a contender: a model behind the requests of contender.ts, through the API that users have. A reply comes after the device
// has finished: a token that was read back is one that was computed.

import { readFile } from 'node:fs/promises'
import { IngotError } from '../base/error.ts'
import { packageFile } from '../base/place.ts'
import { PAGE } from '../kernel/attention/pages.ts'
import { type Model, load } from '../llm/model.ts'
import type { ContenderInfo, Handlers, RunningContender, Settings } from './contender.ts'

export const INGOT_NAME = 'ingot'

export interface IngotServer {
  readonly handlers: Handlers
  close(): Promise<void>
}

export function createIngotServer(): IngotServer {
  let model: Model | undefined
  const engine = () => {
    if (model === undefined) throw new IngotError('bad-argument', 'no model is open', { op: 'bench' })
    return model.engine
  }
  const close = async (): Promise<void> => {
    const old = model
    model = undefined
    await old?.close()
  }
  const handlers: Handlers = {
    async open({ model: path, context, settings }) {
      await close()
      const begun = performance.now()
      const { sequences } = settings
      const cache = sequences === undefined ? {} : { parallel: sequences, cacheTokens: sequences * (context + PAGE) }
      model = await load(path, { contextLength: context, log: () => {}, ...loadSettings(settings), ...cache })
      const ms = performance.now() - begun
      return { ms, info: await describe(model) }
    },

    async prefill({ tokens }) {
      engine().rewind([])
      const begun = performance.now()
      await engine().prefill(tokens, 'argmax')
      return { ms: performance.now() - begun }
    },

    async decode({ tokens, count }) {
      const kept = engine().rewind(tokens)
      const first = await engine().prefill(tokens.slice(kept), 'argmax')
      if (first.kind !== 'token') throw new IngotError('wrong-result', 'no token came back', { op: 'bench', got: first.kind })
      const decoded: number[] = []
      const begun = performance.now()
      for await (const token of engine().decode(first.token, 'argmax', count)) decoded.push(token)
      return { ms: performance.now() - begun, tokens: decoded }
    },

    async parallel({ prompts, count }) {
      const { scheduler, model: computed } = engine()
      const begun = performance.now()
      const times = await Promise.all(
        prompts.map(async (prompt) => {
          const own: number[] = []
          await scheduler.run({
            model: computed,
            prompt,
            needs: 'argmax',
            maxTokens: count,
            deterministic: false,
            signal: new AbortController().signal,
            begun: () => {},
            prepared: () => {},
            take: (input) => {
              if (input.kind !== 'token') throw new IngotError('wrong-result', 'no token came back', { op: 'bench', got: input.kind })
              own.push(performance.now() - begun)
              return { token: input.token, more: own.length < count }
            },
          })
          return own
        }),
      )
      const ms = performance.now() - begun
      await scheduler.forget()
      return { ms, times }
    },

    async peak() {
      return { bytes: process.resourceUsage().maxRSS * 1024 }
    },
  }
  return { handlers, close }
}

/** The same without a process of its own, for where there is no compiled script to start. */
export function startInProcess(): RunningContender {
  const { handlers, close } = createIngotServer()
  return { name: INGOT_NAME, idle: { cpuMs: 0, ms: 0 }, cpuMs: 0, ask: (kind, request) => handlers[kind](request), close }
}

function loadSettings({ device, threads, chunk }: Settings): Settings {
  return {
    ...(device === undefined ? {} : { device }),
    ...(threads === undefined ? {} : { threads }),
    ...(chunk === undefined ? {} : { chunk }),
  }
}

async function describe({ device }: Model): Promise<ContenderInfo> {
  const manifest = JSON.parse(await readFile(packageFile('package.json'), 'utf8')) as { version?: unknown }
  return { name: INGOT_NAME, version: String(manifest.version), device: device.name, detail: device.detail, gpu: device.caps.lanes > 1 }
}
