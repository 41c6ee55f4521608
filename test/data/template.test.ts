// Chat templates against the output of the reference Jinja engine, one test per case of the index.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { isIngotError } from '../../src/base/error.ts'
import { createTemplate, type ChatMessage } from '../../src/llm/template.ts'

const folder = join(process.env['INGOT_DATA'] ?? '../shared/data', 'templates')
const present = existsSync(join(folder, 'index.json'))

interface Case {
  readonly template: string
  readonly context: string
  readonly golden?: string
  readonly error?: string
}
interface Context extends Record<string, unknown> {
  readonly messages: ChatMessage[]
  readonly add_generation_prompt: boolean
  readonly bos_token: string
  readonly eos_token: string
  readonly tools?: unknown[]
}
interface ToolCall {
  readonly function: { arguments: unknown }
}

const read = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8')

/** `<name>_obj` is the context `<name>` with the arguments of its tool calls as objects instead of JSON text. */
function readContext(name: string): Context {
  const asObjects = name.endsWith('_obj')
  const context = JSON.parse(read('contexts', `${asObjects ? name.slice(0, -4) : name}.json`)) as Context
  if (!asObjects) return context
  for (const message of context.messages) {
    for (const call of (message['tool_calls'] as ToolCall[] | undefined) ?? []) {
      call.function.arguments = JSON.parse(String(call.function.arguments))
    }
  }
  return context
}

describe.skipIf(!present)('templates of the data folder', () => {
  const index = present ? (JSON.parse(read('index.json')) as { now: string; cases: Case[] }) : { now: '', cases: [] }
  test.each(index.cases)('$template: $context', ({ template, context, golden, error }) => {
    const { messages, tools, add_generation_prompt, bos_token, eos_token, ...variables } = readContext(context)
    const { render } = createTemplate(read('jinja', `${template}.jinja`), { bosToken: bos_token, eosToken: eos_token })
    const now = new Date(index.now)
    const run = (): string => render(messages, { addGenerationPrompt: add_generation_prompt, ...(tools && { tools }), now, variables })
    if (golden !== undefined) return expect(run()).toBe(read('goldens', golden))
    try {
      run()
    } catch (caught) {
      expect(isIngotError(caught, 'bad-argument')).toBe(true)
      return expect((caught as Error).message).toContain(error!.replace('TemplateError: ', ''))
    }
    throw new Error('wanted an exception')
  })
})
