// Pre-tokenizers of byte-level BPE: which words a text is cut into before merging, by the name in `tokenizer.ggml.pre`.
// A pre-tokenizer is a list of patterns; each cuts what the one before left into its matches and the gaps between them.
// Knows nothing of vocabularies.
//
// Invariants: the words of a text, joined, are the text. No pattern may take more than linear time: a run that a pattern
// scans in vain must be consumed by the next alternative, never rescanned from its second character.

import { IngotError } from '../../base/error.ts'

export interface PreTokenizer {
  readonly name: string
  /** a word that is a token as a whole is that token, whatever the merges say */
  readonly wholeWords: boolean
  /** whether texts begin with BOS when the file does not say */
  readonly addBos: boolean
  split(text: string): readonly string[]
}

interface Recipe {
  readonly patterns: readonly string[]
  readonly names: readonly string[]
  readonly wholeWords?: boolean
  readonly addBos?: boolean
}

const CONTRACTION = "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
const SPACES = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/** Words since cl100k: one leading mark may join a word, newlines join the punctuation before them. */
const cl100k = (digits: string): string => `${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${SPACES}`

/** Words since o200k: a change from lower to upper case also begins a word. */
const o200k = (digits: string, contraction: string): string => {
  const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]']
  const word = (body: string): string => `[^\\r\\n\\p{L}\\p{N}]?${body}${contraction}`
  const words = `${word(`${upper}*${lower}+`)}|${word(`${upper}+${lower}*`)}`
  return `${words}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`
}

/** The cased letters of the alphabets that DeepSeek lists: those of Unicode without what the list leaves out. */
const DEEPSEEK_LETTER =
  '[[\\p{Lu}\\p{Ll}\\p{Lt}]--[\\u0560-\\u0588\\u10c7-\\u10ff\\u1c80-\\u1c8f\\u2d00-\\u2d2f\\ua790-\\ua7ff\\uab30-\\uab6f' +
  '\\u{10570}-\\u{105bf}\\u{10d50}-\\u{10d8f}\\u{16e40}-\\u{16eff}\\u{1d400}-\\u{1d7ff}\\u{1df00}-\\u{1dfff}]]'
const DEEPSEEK_CJK = '[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+'
const DEEPSEEK3 = '[!-\\/:-@\\[-`\\{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|' + SPACES
const SENTENCE_WORD = ' ?[^\\(\\s\\|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c\\)]+'

const DEFAULT: Recipe = { names: ['default'], patterns: ['[\\p{P}$+<=>^~\\|]+', GPT2, '\\p{N}+', '[0-9][0-9][0-9]'] }

const RECIPES: readonly Recipe[] = [
  DEFAULT,
  {
    names: [
      'gpt-2',
      'gpt2',
      'phi-2',
      'mpt',
      'olmo',
      'jais',
      'trillion',
      'granite-docling',
      'gigachat',
      'mellum',
      'modern-bert',
      'a.x-4.0',
      'exaone4',
      'roberta-bpe',
      'jina-es',
      'jina-de',
      'jina-v1-en',
      'jina-v2-es',
      'jina-v2-de',
      'jina-v2-code',
    ],
    patterns: [GPT2],
  },
  {
    names: ['starcoder', 'refact', 'command-r', 'smollm', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'],
    patterns: ['\\p{N}', GPT2],
  },
  { names: ['falcon'], patterns: ['[\\p{P}$+<=>^~\\|`]+', GPT2, '[0-9][0-9][0-9]'] },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0', 'lfm2', 'jina-v5-nano'],
    patterns: [cl100k('\\p{N}{1,3}')],
    wholeWords: true,
    addBos: true,
  },
  { names: ['dbrx', 'smaug-bpe', 'glm4', 'chatglm-bpe'], patterns: [cl100k('\\p{N}{1,3}')] },
  { names: ['minicpm5'], patterns: ['\\p{N}{1,3}', cl100k('\\p{N}+')], wholeWords: true },
  {
    names: ['qwen2', 'deepseek-r1-qwen', 'stablelm2', 'megrez', 'hunyuan', 'solar-open', 'grok-2', 'kormo', 'f2llmv2'],
    patterns: [cl100k('\\p{N}')],
  },
  {
    names: ['qwen35'],
    patterns: [`${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`],
  },
  { names: ['tekken'], patterns: [o200k('\\p{N}', '')], wholeWords: true, addBos: true },
  { names: ['gpt-4o', 'llama4', 'kanana2', 'minimax-m2'], patterns: [o200k('\\p{N}{1,3}', `(?:${CONTRACTION})?`)] },
  {
    names: ['deepseek-llm'],
    patterns: [
      '[\\r\\n]',
      `\\s?${DEEPSEEK_LETTER}+`,
      '\\s?[!-\\/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+',
      // the look-behind keeps the search from starting again inside a run of spaces
      '(?<!\\s)\\s+$',
      DEEPSEEK_CJK,
      '\\p{N}+',
    ],
  },
  { names: ['deepseek-coder'], patterns: ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', DEEPSEEK_CJK, '\\p{N}'] },
  {
    names: ['deepseek-v3', 'hunyuan-dense', 'joyai-llm'],
    patterns: ['\\p{N}{1,3}', '[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+', DEEPSEEK3],
  },
  {
    names: ['bailingmoe', 'bailingmoe2', 'llada-moe'],
    patterns: [`${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`],
  },
  {
    names: ['seed-coder'],
    patterns: [`${CONTRACTION}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${SPACES}`],
  },
  { names: ['poro-chat', 'bloom', 'gpt3-finnish'], patterns: [SENTENCE_WORD] },
  { names: ['viking'], patterns: [SENTENCE_WORD, '\\p{N}'] },
]

/** The known names; those of one family cut alike. */
export const PRE_TOKENIZER_FAMILIES: readonly (readonly string[])[] = RECIPES.map((recipe) => recipe.names)
export const PRE_TOKENIZERS: readonly string[] = PRE_TOKENIZER_FAMILIES.flat()

/** An unknown or missing name gets the default and a warning: generation works, a little worse. */
export function createPreTokenizer(name: string | undefined, warn: (message: string) => void): PreTokenizer {
  const known = name !== undefined && PRE_TOKENIZERS.includes(name) ? name : 'default'
  if (known !== name) {
    const what = name === undefined ? 'the file names no pre-tokenizer' : `unknown pre-tokenizer '${name}'`
    warn(`tokenizer: ${what}; using 'default', results may be worse. Known: ${PRE_TOKENIZERS.join(', ')}`)
  }
  const { patterns, wholeWords = false, addBos = false } = RECIPES.find(({ names }) => names.includes(known)) ?? DEFAULT
  const stages = patterns.map(compile)
  return {
    name: known,
    wholeWords,
    addBos,
    split(text) {
      let words: string[] = [text]
      for (const stage of stages) {
        const cut: string[] = []
        for (const word of words) cutWord(word, stage, cut)
        words = cut
      }
      return words
    },
  }
}

function cutWord(word: string, pattern: RegExp, words: string[]): void {
  let end = 0
  pattern.lastIndex = 0
  for (let match = next(pattern, word); match !== null; match = next(pattern, word)) {
    if (match.index > end) words.push(word.slice(end, match.index))
    words.push(match[0])
    end = pattern.lastIndex
  }
  if (end < word.length) words.push(word.slice(end))
}

function next(pattern: RegExp, text: string): RegExpExecArray | null {
  try {
    return pattern.exec(text)
  } catch (cause) {
    // The regular expression engine's stack for backtracking is finite.
    const hint = 'split the text'
    throw new IngotError('too-large', 'a single word is too long', { op: 'tokenizer', got: text.length, hint, cause })
  }
}

/** `\s` is Unicode white space, as the engines that made these vocabularies have it: with U+0085, without U+FEFF. */
function compile(pattern: string): RegExp {
  const source = pattern.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}')
  return new RegExp(source, source.includes('--[') ? 'gv' : 'gu')
}
