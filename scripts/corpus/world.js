// The words of the small world: who lives there, what they have, and where they go.

const list = (/** @type {string} */ text) => text.trim().split(/\s*,\s*/)

export const GIRLS = list(`Anna, Mia, Lily, Rose, Ella, Nora, Ruby, Clara, Ivy, Emma, Zoe, Lucy, Tess, Hanna, May, Wren, Ada, Greta, Lena,
  Molly, Sara, Olive, Poppy, Ines, Kate, June, Freya, Maya, Nina, Dora`)
export const BOYS = list(`Ben, Tom, Max, Leo, Sam, Finn, Jack, Otto, Hugo, Noah, Theo, Will, Emil, Luke, Paul, Milo, Felix, Oscar, Peter,
  Adam, Jonas, Karl, Owen, Toby, Ravi, Omar, Nils, Eric, Dan, Hans`)
export const CREATURES = list(`rabbit, fox, bear, mouse, hedgehog, squirrel, frog, owl, badger, duck, beaver, otter, turtle, mole, goat,
  hen, lamb, cat, dog, pony`)
export const CREATURE_NAMES = list(`Pip, Rusty, Bramble, Fern, Hazel, Moss, Nutmeg, Acorn, Pebble, Willow, Clover, Tuft, Button, Maple,
  Sorrel, Dusty, Thistle, Minnow, Berry, Flint`)
export const PETS = list(`dog, cat, puppy, kitten, rabbit, duck, hen, pony, turtle, mouse, goat, lamb, bird`)
export const PET_NAMES = list(
  `Spot, Biscuit, Shadow, Snowy, Patch, Ginger, Coco, Pepper, Socks, Daisy, Bella, Rex, Lucky, Star, Honey, Bobo`,
)
export const WILD = list(`bird, squirrel, hedgehog, fox, deer, frog, owl, duck, rabbit, mouse, swan, crow`)
export const TRAITS = list(`kind, brave, shy, clever, curious, quiet, cheerful, careful, gentle, busy, proud, patient, lazy, funny, honest,
  stubborn`)
export const COLOURS = list(`red, blue, green, yellow, purple, orange, white, brown, pink, black, golden, silver, grey`)
export const LOOKS = list(`old, new, shiny, little, pretty, striped, big, round, plain`)
export const THINGS = list(`ball, kite, doll, book, hat, key, scarf, drum, bell, cup, basket, blanket, lamp, spoon, ring, ribbon, marble,
  whistle, button, map, box, toy car, teddy bear, robot, flute, puzzle, umbrella, coin, shell, feather, clock, paper boat, toy train,
  mirror, pencil, backpack, crown, rope, top, bucket`)
export const GIFTS = list(`ball, kite, doll, book, hat, scarf, drum, bell, cup, blanket, lamp, ring, toy car, teddy bear, robot, flute,
  puzzle, clock, toy train, crown, pair of boots, box of paints, music box, wooden horse, jar of honey, bunch of flowers`)
export const FOODS = list(`bread, soup, cheese, honey, jam, pancakes, porridge, cake, pie, apples, nuts, berries, carrots, plums, cookies,
  rice, eggs, toast, pears, cherries`)
export const BAKES = list(`carrot cake, apple pie, chocolate cake, loaf of bread, honey cake, berry pie, plum cake, pumpkin pie, nut cake,
  lemon cake, cherry pie, birthday cake`)
export const FRUITS = list(`apples, pears, berries, plums, cherries, carrots, nuts, pumpkins, beans, potatoes, mushrooms, flowers`)
export const PLANTS = list(
  `sunflower, tomato plant, rose, apple tree, bean plant, pumpkin, tulip, carrot, strawberry plant, little oak tree`,
)
export const WEATHERS = list(`sunny, rainy, windy, cold, warm, cloudy, snowy, foggy, bright, hot, cool, quiet`)
export const TIMES = list(`morning, afternoon, evening, day`)
export const FEELINGS_GOOD = list(`happy, glad, proud, pleased, cheerful`)
export const FEELINGS_BAD = list(`sad, upset, worried, unhappy`)
export const GAMES = list(`hide and seek, tag, catch, ball, chess, house, pirates, cards`)
export const JOBS = list(`baker, farmer, teacher, fisherman, doctor, painter, gardener, miller, shoemaker, postman, tailor, cook`)
export const CRAFTS =
  list(`draw, sing, swim, whistle, read, dance, ride a bike, climb trees, play the flute, skate, bake bread, count to ten,
  tie a knot, fly a kite, play the drum, paint`)
export const SHAPES_OF_CLOUDS = list(`a ship, a horse, a big fish, a castle, a dragon, a sheep, a hand, a tree`)

/** Where people go, and how one says that they are there. @type {readonly (readonly [string, string])[]} */
export const PLACES = /** @type {const} */ ([
  ['the park', 'in the park'],
  ['the forest', 'in the forest'],
  ['the river', 'by the river'],
  ['the lake', 'by the lake'],
  ['the beach', 'on the beach'],
  ['the hill', 'on the hill'],
  ['the garden', 'in the garden'],
  ['the farm', 'on the farm'],
  ['the market', 'at the market'],
  ['the school', 'at the school'],
  ['the library', 'in the library'],
  ['the village', 'in the village'],
  ['the meadow', 'in the meadow'],
  ['the old barn', 'in the old barn'],
  ['the pond', 'by the pond'],
  ['the mill', 'at the mill'],
  ['the bridge', 'near the bridge'],
  ['the field', 'in the field'],
  ['the playground', 'on the playground'],
  ['the town square', 'in the town square'],
  ['the orchard', 'in the orchard'],
  ['the harbour', 'at the harbour'],
])
export const HOMES = list(`in a small house near the forest, in a little village by the sea, on a farm, in a tall house in the town,
  at the edge of the woods, near a wide river, at the foot of a hill, in a yellow house with a green door, beside an old mill,
  in a cosy house at the end of the road`)
export const BURROWS = list(`under an old oak tree, in a hole beside the river, in a hollow log, near the pond, at the edge of the woods,
  in a snug nest of leaves, behind the big rock, under the roots of a tree`)
export const SPOTS = list(`under the bed, behind the sofa, in the tall grass, beside the well, in the old barn, under a bush,
  on top of the shelf, between two rocks, in the apple basket, next to the gate, under the kitchen table, inside a boot,
  at the bottom of the stairs, behind the blue door, near the duck pond, under a pile of leaves, in the hay, behind the curtain,
  on the window sill, under the bridge, in a hollow tree, beside the stove`)
