// Who and what a story is about: chosen once, so that people, things and places stay the same to its end.

import * as world from './world.js'

/** @typedef {import('./random.js').Choice} Choice */

const PRONOUNS = {
  she: { he: 'she', him: 'her', his: 'her', himself: 'herself' },
  he: { he: 'he', him: 'him', his: 'his', himself: 'himself' },
}
const CHILD_SHARE = 0.72

/** @param {Choice} choice @returns {import('./spin.js').Values} */
export function castStory(choice) {
  const { pick, chance, shuffle } = choice
  const human = chance(CHILD_SHARE)
  const girls = shuffle(world.GIRLS)
  const boys = shuffle(world.BOYS)
  const creatures = shuffle(world.CREATURES)
  const creatureNames = shuffle(world.CREATURE_NAMES)
  const traits = shuffle(world.TRAITS)
  /** @param {string} key @param {number} at */
  const person = (key, at) => {
    const female = chance(0.5)
    const name = human ? (female ? girls[at] : boys[at]) : creatureNames[at]
    const kind = human ? (female ? 'girl' : 'boy') : creatures[at]
    return { [key]: name, [`${key}.kind`]: kind, [`${key}.trait`]: traits[at], ...pronouns(key, female) }
  }
  const elder = pick(
    /** @type {const} */ ([
      ['Mom', 'mother', true],
      ['Dad', 'father', false],
      ['Grandma', 'grandmother', true],
      ['Grandpa', 'grandfather', false],
    ]),
  )
  const [places, spots, things, colours] = [world.PLACES, world.SPOTS, world.THINGS, world.COLOURS].map((each) => shuffle(each))
  const look = () => (chance(0.6) ? pick(world.COLOURS) : pick(world.LOOKS))
  const [from, to] = /** @type {[readonly string[], readonly string[]]} */ ([places[0], places[1]])
  const gift = shuffle(world.GIFTS).find((each) => each !== things[0]) ?? 'kite'
  /** @type {Record<string, string>} */
  const values = {
    ...person('A', 0),
    ...person('B', 1),
    ...person('C', 2),
    P: elder[0],
    'P.word': elder[1],
    ...pronouns('P', elder[2]),
    home: pick(human ? world.HOMES : world.BURROWS),
    thing: `${look()} ${things[0]}`,
    'thing.noun': things[0] ?? '',
    other: `${look()} ${things[1]}`,
    gift: `${/ of /.test(gift) ? '' : `${look()} `}${gift}`,
    colour: colours[0] ?? '',
    colour2: colours[1] ?? '',
    pet: pick(world.PETS),
    'pet.name': pick(world.PET_NAMES),
    'pet.look': pick(['black', 'white', 'brown', 'grey', 'little', 'spotted', 'fluffy', 'old']),
    wild: pick(world.WILD),
    place: from[0] ?? '',
    at: from[1] ?? '',
    place2: to[0] ?? '',
    at2: to[1] ?? '',
    spot: spots[0] ?? '',
    spot2: spots[1] ?? '',
    spot3: spots[2] ?? '',
    food: pick(world.FOODS),
    bake: pick(world.BAKES),
    fruit: pick(world.FRUITS),
    plant: pick(world.PLANTS),
    weather: pick(world.WEATHERS),
    time: pick(world.TIMES),
    game: pick(world.GAMES),
    job: pick(world.JOBS),
    craft: pick(world.CRAFTS),
    water: pick(['the pond', 'the lake', 'the river', 'the sea']),
    cloud: pick(world.SHAPES_OF_CLOUDS),
    number: pick(['two', 'three', 'four', 'five', 'six', 'seven', 'ten']),
    ...pronouns('pet', chance(0.5)),
  }
  return (name) => {
    const value = values[name]
    if (value === undefined) throw new Error(`no value ${name}`)
    return value
  }
}

/** @param {string} key @param {boolean} female @returns {Record<string, string>} */
function pronouns(key, female) {
  const forms = PRONOUNS[female ? 'she' : 'he']
  const upper = (/** @type {string} */ word) => word.charAt(0).toUpperCase() + word.slice(1)
  return Object.fromEntries(
    Object.entries(forms).flatMap(([form, word]) => [
      [`${key}.${form}`, word],
      [`${key}.${upper(form)}`, upper(word)],
    ]),
  )
}
