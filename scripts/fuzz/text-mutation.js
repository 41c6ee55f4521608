// Changes of what a file says about text: its vocabulary, and its chat template, which is a program. Pure, like all mutations.

import { findKey, setKey } from './parts.js'

/**
 * @typedef {import('./mutation.js').Mutation} Mutation
 * @typedef {import('./parts.js').Parts} Parts
 * @typedef {import('./parts.js').Value} Value
 * @typedef {import('./random.js').Random} Random
 */

const deep = (/** @type {string} */ open, /** @type {string} */ inside, /** @type {string} */ close, /** @type {number} */ depth) =>
  open.repeat(depth) + inside + close.repeat(depth)

/** Programs that do not end, grow without end, nest without end, or make no sense. */
const TEMPLATES = [
  '{% for i in range(1000000000) %}x{% endfor %}',
  '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
  "{% set ns = namespace(t='x') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
  '{% set ns = namespace(t=[1]) %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}',
  '{% set ns = namespace(t=[1]) %}{% for i in range(60) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.t | tojson }}',
  '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
  '{% macro f(n) %}{{ f(n + 1) + f(n + 1) }}{% endmacro %}{{ f(0) }}',
  "{{ 'x' * 1000000000 }}",
  "{{ 'x' | indent(1000000000) }}",
  "{{ ('x' * 4000000) | replace('', 'yyyyyyyyyyyyyyyy') }}",
  "{{ ('a,' * 2000000).split(',') | length }}",
  '{{ range(0, 10, 0) }}',
  '{{ range(0, 1e300) | length }}',
  '{{ 1 / 0 }}{{ 1 % 0 }}{{ 10 ** 400 }}',
  '{{ messages[-1].content[::0] }}',
  '{{ messages[1e9].content }}',
  '{{ none.x }}',
  '{{ messages | map(attribute="a.b.c") | list }}',
  '{{ messages | selectattr("role", "nope") | list }}',
  '{{ messages | sort(attribute="nope") }}',
  "{{ strftime_now('%Y' * 100000) }}",
  "{{ raise_exception('no') }}",
  '{{ raise_exception() }}',
  '{{ undefined_function(1) }}',
  '{{ messages.__proto__ }}{{ messages.constructor("return 1")() }}',
  '{{ ""["constructor"]["constructor"]("return process")() }}',
  `{{ ${deep('(', '1', ')', 20_000)} }}`,
  `{{ ${deep('[', '1', ']', 20_000)} }}`,
  deep('{% if true %}', 'x', '{% endif %}', 5000),
  deep('{% for i in [1] %}', 'x', '{% endfor %}', 5000),
  `{{ a${'.b'.repeat(50_000)} }}`,
  `{{ 1${' + 1'.repeat(50_000)} }}`,
  `{{ 1${' | string'.repeat(20_000)} }}`,
  `{{ ${'not '.repeat(50_000)}1 }}`,
  `{{ ${'-'.repeat(50_000)}1 }}`,
  `{{ "${'\\\\'.repeat(50_000)} }}`,
  '{{',
  '{%',
  '{% for %}',
  '{% if x %}',
  '{% endfor %}',
  '{% set x = %}',
  '{# never closed',
  '{{ "never closed }}',
  '{{ \0 }}',
]
const SPECIAL = ['bos', 'eos', 'eot', 'eom', 'unknown', 'padding', 'seperator', 'cls']
const MODELS = ['llama', 'gpt2', 'bert', 'none', 'test', 't5', 'rwkv', 'nope', '']
const SPLITTERS = ['gpt-2', 'llama-bpe', 'qwen2', 'deepseek-llm', 'nope', '', 'default']

/** @type {Mutation[]} */
export const TEXT_MUTATIONS = [
  { share: 8, apply: changeTemplate },
  { share: 6, apply: changeVocabulary },
  { share: 5, apply: changeSpecial },
  { share: 3, apply: changeTokenizer },
]

function changeTemplate(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const key = 'tokenizer.chat_template'
  const old = String(findKey(parts, key)?.value ?? '{{ messages[0].content }}')
  const at = random.below(old.length + 1)
  const end = Math.min(old.length, at + random.below(12))
  const edited = random.pick([
    old.slice(0, at) + old.slice(end),
    old.slice(0, at) + old.slice(at, end).repeat(50) + old.slice(end),
    old.slice(0, at) +
      random.pick(['{{', '}}', '{%', '%}', "'", '"', '(', '|', '.', '[', '{#', 'loop', '\0', '|tojson', '~', '*9']) +
      old.slice(at),
  ])
  return setKey(parts, key, { type: 'string', value: random.chance(0.5) ? random.pick(TEMPLATES) : edited })
}

/** A list of the vocabulary becomes shorter or longer than the others, or holds what makes no sense. */
function changeVocabulary(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const lists = parts.keys.filter(([key, { type }]) => key.startsWith('tokenizer.') && type === 'array')
  if (lists.length === 0) return changeTokenizer(parts, random)
  const [key, value] = random.pick(lists)
  const items = Array.from(/** @type {ArrayLike<unknown>} */ (value.value))
  const odd = () =>
    value.of === 'string'
      ? random.pick(['', ' ', 'a', 'a b c', '\ufffd', '▁'.repeat(9), 'x'.repeat(70_000)])
      : random.pick([NaN, Infinity, -1, 9, 1e9, 0])
  const kind = random.below(6)
  if (kind === 0) items.length = random.below(items.length + 1)
  else if (kind === 1) items.push(...items.slice(0, 1 + random.below(items.length)))
  else if (kind === 2) items.reverse()
  else if (kind === 3) items.fill(odd())
  else for (let i = 1 + random.below(20); i > 0; i--) items[random.below(items.length)] = odd()
  return `${setKey(parts, key, { ...value, value: items })} (way ${kind})`
}

function changeSpecial(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const value = random.pick([0, 1, 2, 258, 511, 512, 2 ** 31, 2 ** 32 - 1, -1])
  return setKey(parts, `tokenizer.ggml.${random.pick(SPECIAL)}_token_id`, { type: value < 0 ? 'i32' : 'u32', value })
}

function changeTokenizer(/** @type {Parts} */ parts, /** @type {Random} */ random) {
  const kind = random.below(3)
  if (kind === 0) return setKey(parts, 'tokenizer.ggml.model', { type: 'string', value: random.pick(MODELS) })
  if (kind === 1) return setKey(parts, 'tokenizer.ggml.pre', { type: 'string', value: random.pick(SPLITTERS) })
  const flag = random.pick(['add_bos_token', 'add_eos_token', 'add_space_prefix', 'remove_extra_whitespaces'])
  return setKey(parts, `tokenizer.ggml.${flag}`, { type: 'bool', value: random.chance(0.5) })
}
