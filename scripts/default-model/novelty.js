// How much of a text stands word for word in the corpus: the share of its runs of twelve words that the documents of a run have.

import { documents, render } from '../corpus/index.js'

export const RUN = 12 // words

/** The runs of twelve words of a text, without case and punctuation. @param {string} text */
export function runsOf(text) {
  const words =
    text
      .replace(/<\|\w+\|>/g, ' ')
      .toLowerCase()
      .match(/[a-z']+/g) ?? []
  return Array.from({ length: Math.max(0, words.length - RUN + 1) }, (_, at) => words.slice(at, at + RUN).join(' '))
}

/** The share for each text. @param {readonly string[]} texts @param {{ seed: number, count: number }} corpus */
export function knownShares(texts, { seed, count }) {
  const runs = texts.map(runsOf)
  const wanted = new Set(runs.flat())
  const known = new Set()
  const stream = documents(seed)
  for (let i = 0; i < count; i++) for (const run of runsOf(render(stream.next().value))) if (wanted.has(run)) known.add(run)
  return runs.map((each) => each.filter((run) => known.has(run)).length / Math.max(1, each.length))
}
