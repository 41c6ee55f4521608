// Text from files and drivers as it may be shown: a terminal obeys control characters, and a reversed line reads as another one. They are
// written out instead (`\x1b`). Lines and tabs stay. Knows nothing of terminals, nor of who shows it.

// C0 but for tab and newline, DEL, C1 (a terminal may take U+009B for ESC [), and what changes the direction of text.
const UNSAFE = '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069'
const CONTROLS = new RegExp(`[${UNSAFE}]`, 'g')

/** The text with control characters written out. */
export function printable(text: string): string {
  return text.replace(CONTROLS, spell)
}

/** The same in one line: for names, which have none of their own. */
export function printableLine(text: string): string {
  return printable(text.replace(/[\t\n]+/g, ' '))
}

/** A name from a file as it may stand in a message: in quotes, on one line, not endless. */
export function quoted(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}...` : name)
}

/** JSON that is safe to show and parses to the same: JSON itself escapes only the first 32 characters. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(CONTROLS, (char) => `\\u${hex(char, 4)}`)
}

function spell(char: string): string {
  return char < '\u0100' ? `\\x${hex(char, 2)}` : `\\u${hex(char, 4)}`
}

function hex(char: string, digits: number): string {
  return char.charCodeAt(0).toString(16).padStart(digits, '0')
}
