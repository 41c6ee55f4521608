// The assistant's part of conversations, for all templates and vocabularies of the data folder.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type ChatMessage, createTemplate } from '../../src/llm/template.ts'
import { createTokenizer } from '../../src/llm/tokenizer/tokenizer.ts'
import { renderAnswers } from '../../src/train/data/conversation.ts'
import { createSampleEncoder } from '../../src/train/data/encode.ts'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { dataFolder } from './folder.ts'

const folder = join(dataFolder, 'templates')
const isThere = existsSync(join(folder, 'index.json'))
const vocabularies = existsSync(join(dataFolder, 'tokenizers')) ? ['gpt-2', 'llama-bpe', 'llama-spm', 'phi-3', 'qwen2'] : []
const read = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8')

/** What ends an answer in each template, and what may stand before its content. */
const MARKS: Readonly<Record<string, { readonly end: string; readonly before?: string }>> = {
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': { end: '<|im_end|>' },
  'Qwen-Qwen3-0.6B': { end: '<|im_end|>', before: '<think>\n\n</think>\n\n' },
  'google-gemma-2-2b-it': { end: '<end_of_turn>' },
  'meta-llama-Llama-3.2-3B-Instruct': { end: '<|eot_id|>' },
  'microsoft-Phi-3.5-mini-instruct': { end: '<|end|>' },
  'mistralai-Mistral-Nemo-Instruct-2407': { end: '<|endoftext|>' }, // the end of the context
}
const ENDS = [...new Set(Object.values(MARKS).map(({ end }) => end))]

interface Context extends Record<string, unknown> {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
  readonly bos_token: string
  readonly eos_token: string
}

function readContext(name: string): Context {
  const isObject = name.endsWith('_obj')
  const context = JSON.parse(read('contexts', `${isObject ? name.slice(0, -4) : name}.json`)) as Context
  const objects = context.messages.map((message) => {
    const calls = message['tool_calls'] as readonly { readonly function: { readonly arguments: string } }[] | undefined
    if (!isObject || calls === undefined) return message
    return { ...message, tool_calls: calls.map((call) => ({ ...call, function: { ...call.function, arguments: JSON.parse(call.function.arguments) as unknown } })) } // prettier-ignore
  })
  return { ...context, messages: objects }
}

function templateOf(name: string, { bos_token: bosToken, eos_token: eosToken }: Context): ReturnType<typeof createTemplate> {
  return createTemplate(read('jinja', `${name}.jinja`), { bosToken, eosToken })
}

interface Case {
  readonly template: string
  readonly context: string
  readonly error?: string
}
const cases = isThere ? (JSON.parse(read('index.json')) as { cases: Case[] }).cases.filter(({ error }) => error === undefined) : []
const now = new Date('2024-07-26T12:00:00')

describe.skipIf(!isThere)('answers in templates', () => {
  test.for(cases)('$template: $context', ({ template: name, context: contextName }) => {
    const context = readContext(contextName)
    const { messages, tools, bos_token: _bos, eos_token: _eos, add_generation_prompt: _open, ...variables } = context
    const template = templateOf(name, context)
    const render = (some: readonly ChatMessage[], open: boolean): string =>
      template.render(some, { addGenerationPrompt: open, now, variables, ...(tools && { tools }) })
    const { end, before = '' } = MARKS[name]!
    const texts = renderAnswers(messages, 0, render, ENDS)
    const answers = messages.flatMap((message, i) => (message.role === 'assistant' ? [{ message, i }] : []))
    const spans = texts.flatMap(({ text, spans: own }) =>
      own.map(([from, to]) => ({ before: text.slice(0, from), answer: text.slice(from, to) })),
    )
    // The tools of Phi's answers are not written at all.
    const written = answers.filter(({ message }) => message.content !== '' || !name.includes('Phi'))
    expect(spans.filter(({ answer }) => answer !== end)).toHaveLength(written.length)
    for (const { message, i } of written) {
      const prompt = render(messages.slice(0, i), true)
      const found = spans.find((span) => span.before === prompt)
      expect(found, `the answer after ${prompt.slice(-40)}`).toBeDefined()
      const { answer } = found!
      const content = String(message.content)
      // Llama's template ends calls of built-in tools otherwise.
      if (content === '') expect(answer).toMatch(/ipython|test|brave_search/)
      else expect([before + content + end, content + end]).toContain(answer)
      expect(answer.indexOf(end) + end.length === answer.length || answer.includes('eom_id')).toBe(true)
    }
  })

  test.for(vocabularies)('tokens of %s', { timeout: 30_000 }, async (vocabulary) => {
    await using gguf = await openGguf(join(dataFolder, 'tokenizers', `ggml-vocab-${vocabulary}.gguf`))
    const tokenizer = createTokenizer(gguf.metadata)
    const messages = [
      { role: 'user', content: 'Wie heißt du? 你好' },
      { role: 'assistant', content: 'Ich heiße Émile 🙂, und du?' },
      { role: 'user', content: 'Ingot' },
      { role: 'assistant', content: 'Gut, "Ingot"!\n\n  Schön.' },
    ]
    for (const [name, { end, before = '' }] of Object.entries(MARKS)) {
      const template = templateOf(name, readContext('simple'))
      const encoder = createSampleEncoder({ tokenizer, template: () => template, context: 512 })
      const learnt = encoder
        .encode({ kind: 'chat', messages, given: 0 })
        .flatMap(({ ids, spans }) =>
          spans.map(([from, to]) => tokenizer.decode(ids.slice(from, to), { special: true, continuation: true })),
        )
      expect(learnt).toHaveLength(2)
      // Where the mark is no token, the one at its border has a little of what follows. SPM puts a space after special tokens.
      const isToken = tokenizer.encode(end, { parseSpecial: true }).length === 1
      const [front, after] = [tokenizer.kind === 'spm' ? ' ?' : '', isToken ? '' : '[\\s<\\[]?(<.endoftext.>)?']
      learnt.forEach((text, i) => {
        const whole = `${front}(${escape(before)})?${escape(messages[2 * i + 1]!.content)}${escape(end)}${after}$`
        expect(`${name}: ${text}`).toMatch(new RegExp(`^${name}: ${whole}`))
      })
    }
  })
})

function escape(text: string): string {
  return text.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')
}
