// Small vocabularies of every kind, as the metadata of a model file would carry them.

const [NORMAL, UNKNOWN, CONTROL, USER, BYTE] = [1, 2, 3, 4, 6] as const

type Entry = readonly [text: string, type: number, score?: number]

function toMetadata(model: string, entries: readonly Entry[], more: Readonly<Record<string, unknown>>): Map<string, unknown> {
  return new Map<string, unknown>([
    ['tokenizer.ggml.model', model],
    ['tokenizer.ggml.tokens', entries.map(([text]) => text)],
    ['tokenizer.ggml.token_type', Int32Array.from(entries, ([, type]) => type)],
    ['tokenizer.ggml.scores', Float32Array.from(entries, ([, , score = 0]) => score)],
    ...Object.entries(more),
  ])
}

/** `▁`, letters a-d and joins of them, scored in the order listed; all bytes. */
export const SPM_PIECES = [
  'ab',
  '▁a',
  'aa',
  'bc',
  '▁▁',
  'abc',
  'aaaa',
  '▁ab',
  '▁▁▁▁',
  'cd',
  '▁abc',
  'abcd',
  'dd',
  'é',
  'ca',
  '▁',
  'a',
  'b',
  'c',
  'd',
  '!',
]

export function spmMetadata(more: Readonly<Record<string, unknown>> = {}): Map<string, unknown> {
  const bytes = Array.from({ length: 256 }, (_, byte): Entry => [`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, BYTE])
  const pieces = SPM_PIECES.map((piece, i): Entry => [piece, NORMAL, -i])
  const [before, after]: [Entry[], Entry[]] = [
    [
      ['<unk>', UNKNOWN],
      ['<s>', CONTROL],
      ['</s>', CONTROL],
    ],
    [
      ['<|end|>', CONTROL],
      ['<tool>', USER],
    ],
  ]
  const entries = [...before, ...bytes, ...pieces, ...after]
  return toMetadata('llama', entries, more)
}

/** The printable stand-ins of GPT-2 for the 256 bytes. */
export const BYTE_CHARACTERS: readonly string[] = ((): string[] => {
  const plain = new Set<number>()
  for (const [from, to] of [
    [33, 126],
    [161, 172],
    [174, 255],
  ] as const)
    for (let b = from; b <= to; b++) plain.add(b)
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(plain.has(byte) ? byte : next++))
})()

export const BPE_MERGES = [
  'a b',
  'Ġ a',
  'a a',
  'Ġ Ġ',
  'ab c',
  'aa aa',
  'Ã ©',
  'c d',
  'ab cd',
  'b c',
  'd d',
  'ĠĠ ĠĠ',
  'Ġ ab',
  'Ċ Ċ',
  '1 2',
  'q z',
]

export function bpeMetadata(more: Readonly<Record<string, unknown>> = {}): Map<string, unknown> {
  // `qz` is a merge that leads to no token: it must come out byte by byte
  const joins = BPE_MERGES.map((merge) => merge.replace(' ', '')).filter((text) => text !== 'qz')
  const entries = [...BYTE_CHARACTERS, ...joins, 'bcd'].map((text): Entry => [text, NORMAL])
  entries.push(['<|endoftext|>', CONTROL], ['<|im_end|>', CONTROL], ['<tool>', USER], ['<tool>x', USER])
  return toMetadata('gpt2', entries, { 'tokenizer.ggml.pre': 'gpt-2', 'tokenizer.ggml.merges': BPE_MERGES, ...more })
}

const WORDS = ['un', 'want', 'the', 'a', ',', '中', 'run', 'e']
const ENDINGS = ['##want', '##ed', '##ning', '##s', '##a', '##,']

/** `##` for continuations, or U+2581 for beginnings, as converted files have it. */
export function wordPieceMetadata(form: '##' | '▁', more: Readonly<Record<string, unknown>> = {}): Map<string, unknown> {
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'].map((text): Entry => [text, CONTROL])
  const turned = (text: string): string => (text.startsWith('##') ? text.slice(2) : `▁${text}`)
  const pieces = [...WORDS, ...ENDINGS].map((text): Entry => [form === '##' ? text : turned(text), NORMAL])
  return toMetadata('bert', [...special, ...pieces], {
    'tokenizer.ggml.unknown_token_id': 1,
    'tokenizer.ggml.cls_token_id': 2,
    'tokenizer.ggml.seperator_token_id': 3,
    ...more,
  })
}
