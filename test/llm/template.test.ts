// Chat templates on sources written here: what the data folder does not reach.

import { describe, expect, test } from 'vitest'
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
