// Says the same in other words, so that few sentences stand twice in the corpus: synonyms, contractions, who speaks before or after the
// verb, and pronouns where the name was just said.

/** @typedef {import('./random.js').Choice} Choice */

/** Words that may stand for each other wherever the first of them does. @type {readonly (readonly [RegExp, readonly string[]])[]} */
const SYNONYMS = [
  [/\bvery\b/, ['very', 'very', 'really', 'quite']],
  [/\b(began|started) to\b/, ['began to', 'started to']],
  [/\b(at last|in the end|finally)\b/, ['at last', 'in the end', 'finally']],
  [/\bsuddenly\b/, ['suddenly', 'all at once', 'all of a sudden']],
  [/\bthen (?=[A-Z])/, ['then ', 'then ', 'after that, ', 'and then ', 'soon after, ', 'so ']],
  [/\b(everyone|everybody)\b/, ['everyone', 'everybody']],
  [/\b(nobody|no one)\b/, ['nobody', 'no one']],
  [/\b(someone|somebody)\b/, ['someone', 'somebody']],
  [/\bwanted to\b/, ['wanted to', 'wanted to', 'wished to', 'hoped to']],
  [/\bthe next day\b/, ['the next day', 'the day after', 'the following day', 'the next morning']],
  [/\bin the morning\b/, ['in the morning', 'when morning came', 'at sunrise']],
  [/\bin the evening\b/, ['in the evening', 'when evening came', 'at the end of the day', 'after sunset']],
  [/\ball day\b(?! long)/, ['all day', 'all day long', 'the whole day']],
  [/\blooked at\b/, ['looked at', 'looked at', 'stared at', 'gazed at']],
  [/\b(afraid|scared)\b/, ['afraid', 'scared', 'frightened']],
  [/\bangry\b/, ['angry', 'cross']],
  [/\bsmiled\b/, ['smiled', 'smiled', 'grinned', 'beamed']],
  [/\blaughed\b(?! (at|until|out|and laughed))/, ['laughed', 'laughed', 'giggled', 'chuckled']],
  [/\bshouted\b/, ['shouted', 'yelled', 'called out']],
  [/\bslowly\b/, ['slowly', 'bit by bit', 'little by little']],
  [/\bfor a (moment|while)\b/, ['for a moment', 'for a while', 'for a little while']],
  [/\ba lot of\b/, ['a lot of', 'lots of', 'plenty of']],
  [/, but\b/, [', but', ', but', ', yet']],
  [/\bfell asleep\b/, ['fell asleep', 'went to sleep', 'was soon fast asleep']],
  [/\bcould not\b/, ['could not', 'could not', 'was not able to']],
  [/\bfrom (that day|then) on\b/, ['from that day on', 'from then on', 'ever since that day', 'since that day']],
  [/\bonce upon a time\b/, ['once upon a time', 'once upon a time', 'once', 'a long time ago']],
  [/\bwent home\b/, ['went home', 'walked home', 'ran home', 'made their way home']],
  [/\bsat down\b/, ['sat down', 'took a seat', 'sat down']],
  [/\bjumped\b/, ['jumped', 'hopped', 'leapt']],
  [/\bwhispered\b/, ['whispered', 'murmured', 'said in a low voice']],
  [/\bcried and cried\b/, ['cried and cried', 'cried without a break']],
  [/\ball alone\b/, ['all alone', 'quite alone', 'on its own']],
  [/\bmany\b/, ['many', 'a great many', 'so many']],
  [/\bat once\b/, ['at once', 'right away', 'without waiting']],
  [/\bcarefully\b/, ['carefully', 'with great care', 'gently']],
  [/\bhappily\b/, ['happily', 'with joy', 'merrily']],
  [/\ba bit\b/, ['a bit', 'a little']],
  [/\bran\b(?! (away|after|into|over|in))/, ['ran', 'ran', 'hurried', 'rushed']],
]
const SYNONYM_SHARE = 0.75

/** Only whole styles: who writes "don't" writes "isn't", too. @type {readonly (readonly [RegExp, string])[]} */
const CONTRACTIONS = [
  [/\b(did|do|does|was|is|had|would|could|should) not\b/g, "$1n't"],
  [/\bI am\b/g, "I'm"],
  [/\bI will\b/g, "I'll"],
  [/\b([Ii]t|[Tt]hat|[Hh]ere|[Ww]hat|[Ww]here) is\b(?! (?:mine|yours)\b)/g, "$1's"],
  [/\byou are\b/g, "you're"],
  [/\bYou are\b/g, "You're"],
  [/\bLet us\b/g, "Let's"],
  [/\bdo not\b/g, "don't"],
]
const CONTRACTION_SHARE = 0.35
const SWAP_SHARE = 0.45
const PRONOUN_SHARE = 0.55

/** @param {string} text @param {Choice} choice @param {(name: string) => string} values */
export function vary(text, choice, values) {
  let out = text
  for (const [pattern, words] of SYNONYMS) {
    out = out.replace(new RegExp(pattern.source, 'gi'), (found) => {
      if (!choice.chance(SYNONYM_SHARE)) return found
      const word = choice.pick(words)
      return /^[A-Z]/.test(found) ? word.charAt(0).toUpperCase() + word.slice(1) : word
    })
  }
  out = out.replace(/!" (said|cried|called) (?=[A-Z])/g, () => `!" ${choice.pick(['said', 'cried', 'called', 'shouted'])} `)
  out = out.replace(/(," |!" |\?" )(said|cried|called|shouted|asked) ([A-Z][a-z]+)(?=[., ])/g, (whole, quote, verb, name) =>
    choice.chance(SWAP_SHARE) ? `${quote}${name} ${verb}` : whole,
  )
  out = usePronouns(out, choice, values)
  if (choice.chance(CONTRACTION_SHARE)) for (const [pattern, by] of CONTRACTIONS) out = out.replace(pattern, by)
  return out
}

/**
 * A sentence after one about the hero need not name the hero again.
 * @param {string} text @param {Choice} choice @param {(name: string) => string} values
 */
function usePronouns(text, choice, values) {
  const [name, he, his] = [values('A'), values('A.He'), values('A.His')]
  const others = [values('B'), values('C'), values('P'), values('pet.name')]
  const sentences = text.split(/(?<=[.!?]) (?=[A-Z"])/)
  return sentences
    .map((sentence, i) => {
      const before = sentences[i - 1] ?? ''
      const clear = before.includes(name) && !before.includes('"') && !others.some((other) => before.includes(other))
      if (!clear || before.includes('\n') || !choice.chance(PRONOUN_SHARE)) return sentence
      if (sentence.startsWith(`${name}'s `)) return `${his}${sentence.slice(name.length + 2)}`
      if (sentence.startsWith(`${name} `) && !sentence.startsWith(`${name} and `)) return `${he}${sentence.slice(name.length)}`
      return sentence
    })
    .join(' ')
}
