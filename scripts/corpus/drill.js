// Short documents whose words come again at once: who repeats, counts and asks here learns to look back, which long stories teach late.

import { castStory } from './cast.js'
import { spin } from './spin.js'
import * as world from './world.js'

/** @typedef {import('./random.js').Choice} Choice */
/** @typedef {{ role: 'user' | 'assistant', content: string }} Message */

const WORDS = [...world.GIRLS, ...world.BOYS, ...world.CREATURES, ...world.COLOURS, ...world.GAMES, ...world.FOODS, ...world.TRAITS]
const [FEWEST, MOST] = [3, 9]

/** Questions about what was just said. `/` parts the user's turns from the answers. */
const TALKS = [
  'My name is {A}. What is my name? / Your name is {A}.',
  'I am {A}, and my friend is {B}. Who is my friend? / Your friend is {B}. / And who am I? / You are {A}.',
  '{A} has a {thing}. {B} has a {other}. Who has the {thing}? / {A} has the {thing}. / What does {B} have? / {B} has a {other}.',
  'The {thing} is {spot}. The {other} is {spot2}. Where is the {other}? / It is {spot2}. / Where is the {thing}? / It is {spot}.',
  '{A} likes {food}. {B} likes {fruit}. Who likes {fruit}? / {B} likes {fruit}. / What does {A} like? / {A} likes {food}.',
  "My {pet}'s name is {pet.name}. What is the name of my {pet}? / It is {pet.name}. / What is {pet.name}? / {pet.name} is a {pet}.",
  '{A} is {A.trait}, and {B} is {B.trait}. Who is {A.trait}? / {A} is {A.trait}. / And {B}? / {B} is {B.trait}.',
]
const TEXTS = [
  '{A} saw {B}. {B} saw {A}. "Hello, {A}!" said {B}. "Hello, {B}!" said {A}. {A} and {B} played {game}.',
  '{A} had a {thing}. {A} gave the {thing} to {B}. Now {B} had the {thing}. "Thank you, {A}," said {B}.',
  '{A}, {B} and {C} went to {place}. {A} went first, then {B}, then {C}. {at}, {A} and {B} and {C} ate {food}.',
  '"Where is {A}?" asked {B}. "{A} is {at}," said {C}. {B} went to {place}, and there was {A}.',
  '{A} was a {A.kind}. {A} was {A.trait}. {B} was a {B.kind}. {B} was {B.trait}. {A} liked {B}, and {B} liked {A}.',
]

/** @param {Choice} choice @returns {string | Message[]} */
export function drill(choice) {
  if (choice.chance(0.4)) return echo(choice)
  const values = castStory(choice)
  const say = (/** @type {string} */ text) => spin(text, { choice, values, macros: new Map() })
  if (choice.chance(0.5)) return say(choice.pick(TEXTS))
  return choice
    .pick(TALKS)
    .split(' / ')
    .map((part, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: say(part) }))
}

/** Words that are said twice. @param {Choice} choice @returns {string | Message[]} */
function echo(choice) {
  const count = FEWEST + Math.floor(choice.next() * (MOST - FEWEST + 1))
  const words = Array.from({ length: count }, () => choice.pick(WORDS)).join(', ')
  if (choice.chance(0.5)) return `${words}.\n${words}.\n${words}.`
  return [
    { role: 'user', content: `${choice.pick(['Say', 'Repeat', 'Say after me', 'Say this'])}: ${words}.` },
    { role: 'assistant', content: `${words}.` },
  ]
}
