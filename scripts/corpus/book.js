// Pieces of books, as seasoning: words and turns of phrase that the small world does not have. A piece is some paragraphs as they stand.

/** @typedef {import('./random.js').Choice} Choice */

const [FEWEST_LETTERS, MOST_LETTERS] = [300, 700]
/** Shorter paragraphs are titles and page numbers. */
const LEAST_PARAGRAPH = 40

/** Paragraphs of the text of a book, each on one line; a verse of the Bible loses its number. @param {string} text */
export function readParagraphs(text) {
  return text
    .replaceAll('\r', '')
    .split(/\n\s*\n/)
    .map((paragraph) =>
      paragraph
        .replaceAll('_', '')
        .replace(/^\s*\d+:\d+ /, '')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((paragraph) => paragraph.length >= LEAST_PARAGRAPH)
}

/** Paragraphs from some place of one of the books, not too many. @param {Choice} choice @param {readonly (readonly string[])[]} books */
export function bookPiece(choice, books) {
  const book = choice.pick(books)
  const wanted = FEWEST_LETTERS + choice.next() * (MOST_LETTERS - FEWEST_LETTERS)
  let piece = ''
  for (let at = Math.floor(choice.next() * book.length); piece.length < wanted && at < book.length; at++)
    piece += `${piece === '' ? '' : '\n'}${book[at]}`
  return piece
}
