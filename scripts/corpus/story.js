// Stories: a plot is a list of beats, of which each is told in one of several ways, and questions about it with their answers.

import { readFileSync, readdirSync } from 'node:fs'
import { castStory } from './cast.js'
import { readBlocks, spin } from './spin.js'
import { vary } from './vary.js'

/** @typedef {import('./random.js').Choice} Choice */
/** @typedef {{ about: string, beats: string[][], questions: string[] }} Plot */
/** @typedef {{ about: string, text: string, hero: string, answers: { question: string, answer: string }[] }} Story */

const FOLDER = new URL('./plot/', import.meta.url)
const PARAGRAPH_SHARE = 0.35
const read = (/** @type {string} */ name) => readBlocks(readFileSync(new URL(name, FOLDER), 'utf8'))

/** @type {Map<string, readonly string[]>} */
const MACROS = new Map(read('common.txt').map(([name = '', ...lines]) => [name.replace(/^= */, ''), lines]))

/** @type {Plot[]} */
export const PLOTS = readdirSync(FOLDER)
  .filter((name) => name !== 'common.txt')
  .sort()
  .flatMap((name) => readPlots(read(name)))

/** @param {string[][]} blocks @returns {Plot[]} */
function readPlots(blocks) {
  /** @type {Plot[]} */
  const plots = []
  for (const block of blocks) {
    const plot = plots.at(-1)
    const [first = ''] = block
    if (first.startsWith('plot ')) plots.push({ about: first.slice(5), beats: [], questions: [] })
    else if (plot === undefined) throw new Error(`no plot before: ${first}`)
    else if (first.startsWith('?')) plot.questions.push(...block.map((line) => line.replace(/^\? */, '')))
    else plot.beats.push(block)
  }
  return plots
}

/** Questions that any story answers. */
const GENERAL = [
  'Who [is|was] the story about? | [It|The story] [is|was] about {A}.',
  'What was the name of the {A.kind}? | {A.His} name was {A}.',
  '[What was {A}|Was {A} a child or an animal]? | {A} was a {A.kind}.',
]

/** What else a story is about, besides its plot. */
const TOPICS = ['a {A.trait} {A.kind}', 'a {A.kind} named {A}', '{A}', '{A} and {B}', 'a {pet}', 'a {thing}', 'a {A.kind}']
const PLOT_SHARE = 0.45
const ASIDE_SHARE = 0.2
const MOST_TRIES = 12
/** Words with which a person enters a story. */
const ENTRANCE = /\b(friends?|cousin|neighbours?|named|called|I am|My name|who|old)\b/

/** @param {Choice} choice @returns {Story} */
export function tellStory(choice) {
  const plot = choice.pick(PLOTS)
  const values = castStory(choice)
  const say = (/** @type {string} */ text, valuesOf = values) => spin(text, { choice, values: valuesOf, macros: MACROS })
  let text = ''
  let since = 0
  let rested = false // one remark by the way is enough
  plot.beats.forEach((beat, at) => {
    const last = at === plot.beats.length - 1
    const told = retry(
      () => tell(choice.pick(beat), say),
      (line) => !last || !hasStranger(line, text, values),
    )
    if (told === '') return
    const aside = at > 1 && !last && !rested && choice.chance(ASIDE_SHARE) ? `${say('<aside>')} ` : ''
    rested ||= aside !== ''
    const line = introduce(`${aside}${told}`, text, values)
    const breaks = since >= 2 && choice.chance(PARAGRAPH_SHARE)
    text += text === '' ? line : `${breaks ? '\n\n' : ' '}${line}`
    since = breaks ? 0 : since + 1
  })
  text = vary(text, choice, values)
  const topic = retry(
    () => choice.pick(TOPICS),
    (line) => answer(`| ${line}`, text, values, say).length > 0,
  )
  const answers = choice.shuffle([...plot.questions, choice.pick(GENERAL)]).flatMap((line) => answer(line, text, values, say))
  return { about: lowerFirst(say(choice.chance(PLOT_SHARE) ? plot.about : topic), values), text, hero: values('A'), answers }
}

/** @param {string} line @param {(text: string) => string} say */
function tell(line, say) {
  return line === '-' ? '' : say(line)
}

/** @template T @param {() => T} make @param {(made: T) => boolean} good @returns {T} */
function retry(make, good) {
  let made = make()
  for (let i = 0; i < MOST_TRIES && !good(made); i++) made = make()
  return made
}

/**
 * Whether a line names somebody whom the story has not met.
 * @param {string} line @param {string} before @param {(name: string) => string} values
 */
function hasStranger(line, before, values) {
  return ['B', 'C'].some((key) => names(line, values(key)) && !names(before, values(key)))
}

/**
 * Says who somebody is who enters without a word about it.
 * @param {string} line @param {string} before @param {(name: string) => string} values
 */
function introduce(line, before, values) {
  const name = values('B')
  if (!names(line, name) || names(before, name) || before === '') return line
  const at = line.search(new RegExp(`\\b${name}\\b`))
  const sentence = line.slice(line.slice(0, at).search(/[^.!?]*$/), at + name.length + 24)
  const quoted = line.slice(0, at).split('"').length % 2 === 0
  if (quoted || ENTRANCE.test(sentence)) return line
  const begins = /(^|[.!?]"? )$/.test(line.slice(0, at))
  return `${line.slice(0, at)}${values(begins ? 'A.His' : 'A.his')} friend ${line.slice(at)}`
}

/** @param {string} text @param {string} name */
function names(text, name) {
  return new RegExp(`\\b${name}\\b`).test(text)
}

/**
 * A question and its answer, unless they speak of something that this telling of the plot left out.
 * @param {string} line @param {string} text @param {(name: string) => string} values
 * @param {(text: string, values?: (name: string) => string) => string} say
 */
function answer(line, text, values, say) {
  const lower = text.toLowerCase()
  let told = true
  const checked = (/** @type {string} */ name) => {
    const value = values(name)
    if (!/\.(he|him|his|himself|word|kind)$/i.test(name)) told &&= lower.includes(value.toLowerCase())
    return value
  }
  const [question = '', reply = ''] = line.split(' | ').map((part) => say(part, checked))
  return told ? [{ question, answer: reply }] : []
}

/** @param {string} text @param {(name: string) => string} values */
function lowerFirst(text, values) {
  return ['A', 'B'].some((key) => text.startsWith(values(key))) ? text : text.charAt(0).toLowerCase() + text.slice(1)
}
