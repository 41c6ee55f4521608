// Chat templates on sources written here: what the data folder does not reach.

import { describe, expect, test } from 'vitest'
import { BUDGET, Budget, MOST_MS } from '../../src/llm/jinja-limit.ts'
import { createTemplate } from '../../src/llm/template.ts'

const user = [{ role: 'user', content: 'hi' }]
const render = (source: string, variables: Record<string, unknown> = {}): string =>
  createTemplate(source).render(user, { variables, now: new Date(2024, 0, 5, 15, 4, 9) })

describe('template', () => {
  test('without a source it is ChatML, and says so', () => {
    const warnings: string[] = []
    const template = createTemplate(undefined, { warn: (text) => warnings.push(text) })
    expect(template.render(user)).toBe('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
    expect(template.render(user, { addGenerationPrompt: false })).toBe('<|im_start|>user\nhi<|im_end|>\n')
    expect(warnings).toHaveLength(1)
  })

  test('raise_exception is a bad argument with the words of the template', () => {
    expect(() => render("{{ raise_exception('no system role') }}")).toThrow(
      expect.objectContaining({ code: 'bad-argument', message: expect.stringContaining('no system role') }),
    )
  })

  test('a template that cannot be parsed, and one that cannot be run', () => {
    expect(() => createTemplate('{% if %}')).toThrow(expect.objectContaining({ code: 'bad-file' }))
    expect(() => render('{{ messages | nonesuch }}')).toThrow(expect.objectContaining({ code: 'unsupported' }))
  })

  test('a loop over an undefined name is empty, also under a condition', () => {
    expect(render('[{% for t in tools %}x{% endfor %}{% for t in tools if t %}x{% else %}none{% endfor %}]')).toBe('[none]')
  })

  test('tojson as Python writes it', () => {
    const value = { a: [], b: {}, c: [1, 'é\n"', null, true], d: { e: 1.5 } }
    expect(render('{{ v | tojson }}', { v: value })).toBe('{"a": [], "b": {}, "c": [1, "é\\n\\"", null, true], "d": {"e": 1.5}}')
    expect(render('{{ v | tojson(indent=2) }}', { v: { a: [], b: { c: {} }, d: [1] } })).toBe(
      '{\n  "a": [],\n  "b": {\n    "c": {}\n  },\n  "d": [\n    1\n  ]\n}',
    )
    expect(render("{{ v | tojson(ensure_ascii=true, separators=(',', ':'), sort_keys=true) }}", { v: { b: 'é', a: 1 } })).toBe(
      '{"a":1,"b":"\\u00e9"}',
    )
    expect(render("{{ ([1] | tojson)[1:] + {'k': v | tojson}.k }}", { v: 'x' })).toBe('1]"x"')
  })

  test('strftime_now speaks English and takes the given time', () => {
    expect(render("{{ strftime_now('%d %b %Y, %A %B %-d %H:%M:%S %I%p %% %Q') }}")).toBe('05 Jan 2024, Friday January 5 15:04:09 03PM % %Q')
  })

  test('a variable may shadow a global; blocks are trimmed as transformers does', () => {
    expect(render('{{ range }}', { range: 'mine' })).toBe('mine')
    expect(render('{% for i in range(1, 6, 2) %}\n  {{ i }}\n  {% if i == 3 %}\nthree\n  {% endif %}\n{% endfor %}')).toBe(
      '  1\n  3\nthree\n  5\n',
    )
  })
})

/** Milliseconds of computing before a template is refused: nobody waits for ever, and Ctrl-C is heard after it. */
const LONGEST = 5000
const spent = (): number => process.cpuUsage().user / 1000
const twice = (times: number, statement: string): string => `{% for i in range(${times}) %}${statement}{% endfor %}`

describe('a budget', () => {
  test('ends by steps', () => {
    const budget = new Budget()
    budget.charge(BUDGET)
    expect(() => budget.charge(1)).toThrow(/does not come to an end/)
    expect(() => new Budget().charge(NaN)).toThrow(/does not come to an end/)
  })

  test('ends by the clock where steps take longer than they should', () => {
    let now = 0
    const budget = new Budget(() => now)
    budget.charge(2000)
    now = MOST_MS
    budget.charge(2000)
    now = MOST_MS + 1
    expect(() => budget.charge(2000)).toThrow(/takes too long/)
  })
})

describe('a template that does not end', () => {
  const ENDLESS: Readonly<Record<string, string>> = {
    'a range of a hundred million': '{% for i in range(100000000) %}x{% endfor %}',
    'a range that is never looped over': '{{ range(100000000) | length }}',
    'a range from infinity': '{{ range(-(10 ** 300) * (10 ** 300), 5) }}',
    'steps too small to count': '{{ range(0, 1, 0.0000000000001) }}',
    'loops in loops': '{% set l = range(100000) %}{% for a in l %}{% for b in l %}{% for c in l %}{% endfor %}{% endfor %}{% endfor %}',
    'loops that write': '{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}',
    'a text that doubles': `{% set ns = namespace(s='x') %}${twice(60, '{% set ns.s = ns.s + ns.s %}')}{{ ns.s }}`,
    'a text that doubles by ~': `{% set ns = namespace(s='x') %}${twice(60, '{% set ns.s = ns.s ~ ns.s %}')}{{ ns.s | length }}`,
    'a list that doubles': `{% set ns = namespace(l=[1]) %}${twice(60, '{% set ns.l = ns.l + ns.l %}')}{{ ns.l | length }}`,
    'lists in lists': `{% set ns = namespace(l=[1]) %}${twice(60, '{% set ns.l = [ns.l, ns.l] %}')}{{ ns.l }}`,
    'objects in objects': `{% set ns = namespace(l=1) %}${twice(60, "{% set ns.l = {'a': ns.l, 'b': ns.l} %}")}{{ ns.l | tojson }}`,
    'namespaces in namespaces': `${Array.from({ length: 40 }, (_, i) => `{% set n${i} = namespace() %}`).join('')}${Array.from(
      { length: 39 },
      (_, i) => `{% set n${i + 1}.a = [n${i}, n${i}] %}`,
    ).join('')}{{ n39 }}`,
    'a namespace that is asked again and again':
      '{% set n = namespace() %}{% set m = namespace() %}{% set n.l = [m] %}{% set n.m = range(100000) %}{% set m.a = [[n.m, n.m], [n.m, n.m]] %}{% for i in n.m %}{% if n.l %}{% endif %}{% endfor %}',
    'a macro that calls itself': '{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}',
    'a search through a long list': "{% set l = range(100000) %}{% for i in l %}{{ 'x' in l }}{% endfor %}",
    'lists that are written': "{% set l = range(100000) %}{% for i in l %}{% set x = l ~ '' %}{% set y %}{{ l }}{% endset %}{% endfor %}",
    'texts that are searched': `{% set ns = namespace(s='x') %}${twice(21, '{% set ns.s = ns.s + ns.s %}')}${twice(100000, "{% if 'y' in ns.s %}{% endif %}")}`,
    'texts that are replaced': `{% set ns = namespace(s='ab') %}${twice(19, '{% set ns.s = ns.s + ns.s %}')}${twice(1000, "{% set x = ns.s | replace('a', 'bb') %}")}`,
    'JSON that is indented far': "{{ {'a': [1, 2]} | tojson(indent=100000000) }}",
    'JSON with long separators': `{% set ns = namespace(s='x') %}${twice(21, '{% set ns.s = ns.s + ns.s %}')}{{ range(1000) | tojson(separators=(ns.s, ns.s)) }}`,
  }

  test.each(Object.entries(ENDLESS))('%s', (_what, source) => {
    const begun = spent()
    expect(() => render(source)).toThrow(expect.objectContaining({ name: 'IngotError', code: 'unsupported' }))
    expect(spent() - begun).toBeLessThan(LONGEST)
  })

  test.each([
    ['too long', 'x'.repeat(300_000)],
    ['white space, whose square the tokenizer takes', `a${' '.repeat(100_000)}b`],
    ['too deep', `{{ ${'('.repeat(50_000)}1${')'.repeat(50_000)} }}`],
  ])('a source that is %s', (_what, source) => {
    const begun = spent()
    expect(() => createTemplate(source)).toThrow(expect.objectContaining({ name: 'IngotError', code: 'bad-file' }))
    expect(spent() - begun).toBeLessThan(LONGEST)
  })

  test('quotes its own words in short', () => {
    expect(() =>
      render("{% set ns = namespace(s='x') %}" + twice(20, '{% set ns.s = ns.s + ns.s %}') + '{{ raise_exception(ns.s) }}'),
    ).toThrow(expect.objectContaining({ code: 'bad-argument', message: expect.stringMatching(/^.{1,700}$/) }))
  })
})

test('a long conversation is no endless template', () => {
  const messages = Array.from({ length: 2000 }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: 'word '.repeat(60) }))
  const source = `{% set ns = namespace(text='', last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
    {% set ns.text = ns.text + m.role + m.content | trim %}{% if messages[loop.index0 - 1].role == m.role %}{{ raise_exception('no') }}{% endif %}{% endfor %}{{ ns.text }}`
  expect(createTemplate(source).render(messages).length).toBeGreaterThan(500_000)
})
