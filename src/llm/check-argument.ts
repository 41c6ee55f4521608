// The arguments of `load` and of a model's methods, checked at once and by name: what is wrong with them is said before any work, as
// `bad-argument`, not as what JavaScript makes of it later. Ranges are checked by those who know them.

import {
  checkArgument,
  checkOption,
  checkOptions,
  hasMethods,
  isBoolean,
  isFunction,
  isList,
  isObject,
  isSignal,
  isString,
} from '../base/argument.ts'

/** Of a model: a path, or what can be read like one. */
export function checkLoad(file: unknown, options: unknown): void {
  const op = 'load'
  const isFile = (value: unknown): boolean => value === undefined || isString(value) || hasMethods(value, ['read', 'close'])
  checkArgument(op, 'the file', file, 'a path or a ByteSource', isFile)
  checkOptions(op, options)
  const { device, onProgress, onWarning, log, signal, mmap, chunk, threads, parallel, cacheTokens, adapters } = options as Readonly<
    Record<string, unknown>
  >
  checkOption(
    op,
    'device',
    device,
    'a name or a device',
    (value) => isString(value) || hasMethods(value, ['alloc', 'submit', 'load', 'free']),
  )
  for (const [name, value] of Object.entries({ onProgress, onWarning, log })) checkOption(op, name, value, 'a function', isFunction)
  if (adapters !== undefined) checkAdapters(adapters)
  checkOption(op, 'signal', signal, 'an AbortSignal', isSignal)
  checkOption(op, 'mmap', mmap, 'true or false', isBoolean)
  for (const [name, value] of Object.entries({ chunk, threads, parallel, cacheTokens }))
    checkOption(op, name, value, 'a whole number from 1', isCount)
}

export function checkAdapters(adapters: unknown): void {
  const isChoice = (value: unknown): boolean => isObject(value) && 'path' in value && isString(value.path)
  checkArgument(
    'setAdapters',
    'adapters',
    adapters,
    'a list of objects with a path',
    (value) => Array.isArray(value) && value.every(isChoice),
  )
  for (const { scale } of adapters as readonly { readonly scale?: unknown }[])
    checkOption('setAdapters', 'scale', scale, 'a finite number', Number.isFinite)
}

export function checkGenerate(prompt: unknown, options: unknown): void {
  checkArgument('generate', 'the prompt', prompt, 'a text or token ids', (value) => isString(value) || isList(value))
  checkGenerateOptions('generate', options)
}

export function checkChat(messages: unknown, options: unknown): void {
  const op = 'chat'
  checkArgument(op, 'messages', messages, 'a list of messages with roles', (value) => Array.isArray(value) && value.every(isMessage))
  checkGenerateOptions(op, options)
  const { tools, now, variables } = options as Readonly<Record<string, unknown>>
  checkOption(op, 'tools', tools, 'a list', Array.isArray)
  checkOption(op, 'now', now, 'a Date', (value) => value instanceof Date && !Number.isNaN(value.getTime()))
  checkOption(op, 'variables', variables, 'an object', isObject)
}

export function checkText(op: string, text: unknown, options: unknown = {}): void {
  checkArgument(op, 'the text', text, 'a text', isString)
  checkOptions(op, options)
}

export function checkTokens(op: string, tokens: unknown): void {
  checkArgument(op, 'tokens', tokens, 'a list of token ids', (value) => isList(value) && Array.from(value).every(Number.isInteger))
}

export function checkEmbed(text: unknown, options: unknown): void {
  checkArgument('embed', 'the text', text, 'a text or token ids', (value) => isString(value) || isList(value))
  checkSignal('embed', options)
}

export function checkEvaluate(tokens: unknown, onRows: unknown, options: unknown): void {
  checkTokens('evaluate', tokens)
  checkArgument('evaluate', 'onRows', onRows, 'a function', isFunction)
  checkSignal('evaluate', options)
}

function checkSignal(op: string, options: unknown): void {
  checkOptions(op, options)
  checkOption(op, 'signal', (options as { readonly signal?: unknown }).signal, 'an AbortSignal', isSignal)
}

/** What is not in here is a number, which the sampler checks. */
function checkGenerateOptions(op: string, options: unknown): void {
  checkSignal(op, options)
  const { stop, ignoreEos, deterministic, logitBias } = options as Readonly<Record<string, unknown>>
  checkOption(op, 'stop', stop, 'a text or a list of texts', (value) => isString(value) || (Array.isArray(value) && value.every(isString)))
  checkOption(op, 'ignoreEos', ignoreEos, 'true or false', isBoolean)
  checkOption(op, 'deterministic', deterministic, 'true or false', isBoolean)
  checkOption(op, 'logitBias', logitBias, 'a Map or an object of numbers by token id', isObject)
}

function isMessage(value: unknown): boolean {
  return isObject(value) && 'role' in value && isString(value.role)
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1
}
