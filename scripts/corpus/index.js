// The corpus of the default model: stories of a small world, and chats about them. The same seed gives the same documents; there is no end
// to them, so that a run need not read any document twice.

import { readFileSync } from 'node:fs'
import { drill } from './drill.js'
import { createChoice } from './random.js'
import { readBlocks, spin } from './spin.js'
import { tellStory } from './story.js'

/** @typedef {import('./random.js').Choice} Choice */
/** @typedef {{ role: 'user' | 'assistant', content: string }} Message */
/** @typedef {string | Message[]} Document a story, or a chat */

/** How often each kind of document comes. Small talk and drills are short. */
const KINDS = /** @type {const} */ ([
  [0.24, story],
  [0.14, request],
  [0.14, reading],
  [0.03, continuation],
  [0.07, smallTalk],
  [0.06, session],
  [0.32, drill],
])
const MOST_QUESTIONS = 3

const TALK = readBlocks(readFileSync(new URL('./talk.txt', import.meta.url), 'utf8')).map((block) => ({
  asks: block.filter((line) => !line.startsWith('> ')),
  answers: block.filter((line) => line.startsWith('> ')).map((line) => line.slice(2)),
}))

/** Documents without end. @param {number} seed @returns {Generator<Document, never>} */
export function* documents(seed) {
  const choice = createChoice(seed)
  for (;;) {
    let at = choice.next()
    const [, make] = KINDS.find(([share]) => (at -= share) < 0) ?? KINDS[0]
    yield make(choice)
  }
}

/** A document as the model reads it, with the marks of its chat template. @param {Document} document */
export function render(document) {
  if (typeof document === 'string') return `${document}<|end|>`
  return document.map(({ role, content }) => `<|${role}|>${content}<|end|>`).join('')
}

/** @param {Choice} choice @returns {Document} */
function story(choice) {
  return tellStory(choice).text
}

/** @param {Choice} choice @returns {Document} */
function request(choice) {
  const { about, text, answers } = tellStory(choice)
  const ask = choice.chance(0.2)
    ? '[[Tell me a story|Please tell me a story|A story, please][.|!|]|Can you tell me a story[?|]|Do you know a story?]'
    : `[Tell me a story|Please tell me a story|Can you tell a story|I want a story|Write a story] about ${about}[.||]`
  const greeting = choice.chance(0.1) ? smallTalk(choice) : []
  return [
    ...(typeof greeting === 'string' ? [] : greeting.slice(0, 2)),
    user(say(choice, ask)),
    assistant(text),
    ...answers.slice(0, Math.floor(choice.next() * (MOST_QUESTIONS + 1))).flatMap(turn),
    ...(choice.chance(0.12) ? thanks(choice) : []),
  ]
}

/** Somebody tells a story and asks about it. @param {Choice} choice @returns {Document} */
function reading(choice) {
  const { text, answers } = tellStory(choice)
  const [first, ...more] = answers
  if (first === undefined) return text
  const told = choice.pick([
    `${text}\n\n${first.question}`,
    `Read this story: ${text}\n\n${first.question}`,
    `${first.question}\n\n${text}`,
  ])
  return [user(told), assistant(first.answer), ...more.slice(0, MOST_QUESTIONS).flatMap(turn)]
}

/** Somebody begins a story. @param {Choice} choice @returns {Document} */
function continuation(choice) {
  const { text } = tellStory(choice)
  const sentences = text.match(/[^.!?]+[.!?]+"?\s*/g) ?? [text]
  const cut = 1 + Math.floor(choice.next() * 3)
  const ask = say(choice, '[Continue|Go on|Continue this story|How does this story go on|Finish the story][:]')
  return [user(`${ask} ${sentences.slice(0, cut).join('').trim()}`), assistant(sentences.slice(cut).join('').trim() || text)]
}

/** @param {Choice} choice @returns {Message[]} */
function smallTalk(choice) {
  const turns = 1 + Math.floor(choice.next() * 4)
  return choice
    .shuffle(TALK)
    .slice(0, turns)
    .flatMap(({ asks, answers }) => [user(casual(choice, say(choice, choice.pick(asks)))), assistant(say(choice, choice.pick(answers)))])
}

/** Somebody who stays for a while: several chats, one after the other. @param {Choice} choice @returns {Document} */
function session(choice) {
  const parts = [smallTalk, choice.pick([request, reading]), choice.pick([request, reading, drill, smallTalk])].map((make) => make(choice))
  return parts.flatMap((part) => (typeof part === 'string' ? [] : part))
}

/** @param {Choice} choice */
function thanks(choice) {
  return [
    user(say(choice, '[Thank you|Thanks|That was nice|I like that story][!|.|]')),
    assistant(say(choice, '[You are welcome|I am glad that you liked it][!|.] [Shall I tell another one?|]')),
  ]
}

/** Some people write without capitals. @param {Choice} choice @param {string} text */
function casual(choice, text) {
  return choice.chance(0.15) ? text.toLowerCase() : text
}

/** @param {Choice} choice @param {string} text */
function say(choice, text) {
  return spin(text, { choice, values: (name) => name, macros: new Map() })
}

/** @param {{ question: string, answer: string }} each @returns {Message[]} */
function turn({ question, answer }) {
  return [user(question), assistant(answer)]
}

/** @param {string} content @returns {Message} */
function user(content) {
  return { role: 'user', content }
}

/** @param {string} content @returns {Message} */
function assistant(content) {
  return { role: 'assistant', content }
}
