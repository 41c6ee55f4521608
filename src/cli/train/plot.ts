// A curve of losses over steps: as lines of a terminal, in dots of braille, and as an SVG file. Knows points, not runs.

/** A point of a curve. */
export interface Point {
  readonly step: number
  readonly loss: number
}

/** What is drawn: losses as they were, their moving mean, and measurements of what was not learnt. */
export interface Curves {
  readonly losses: readonly Point[]
  readonly smooth: readonly Point[]
  readonly validation: readonly Point[]
}

const [DOTS_WIDE, DOTS_HIGH] = [2, 4] // of a character
const BRAILLE = 0x2800
/** Bits of the dots of a character: by column, then by row. */
const BITS = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]] as const // prettier-ignore

/** The curve in `height` lines of `width` characters, with its highest and lowest value before it; nothing for fewer than two points. */
export function drawPlot(points: readonly Point[], width: number, height: number): string[] {
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined || points.length < 2) return []
  const [low, high] = rangeOf(points)
  const margin = Math.max(show(low).length, show(high).length)
  const columns = Math.max(8, width - margin - 3)
  const cells = Array.from({ length: height }, () => new Uint8Array(columns))
  const [right, bottom] = [columns * DOTS_WIDE - 1, height * DOTS_HIGH - 1]
  let before: number | undefined
  for (let x = 0; x <= right; x++) {
    const value = valueAt(points, first.step + (x / right) * (last.step - first.step))
    const y = Math.round(((high - value) / (high - low)) * bottom)
    // Steep parts are drawn through.
    for (let each = Math.min(y, before ?? y); each <= Math.max(y, before ?? y); each++) {
      const row = cells[Math.floor(each / DOTS_HIGH)]
      const at = Math.floor(x / DOTS_WIDE)
      if (row !== undefined) row[at] = (row[at] ?? 0) | (BITS[x % DOTS_WIDE]?.[each % DOTS_HIGH] ?? 0)
    }
    before = y
  }
  return cells.map((row, i) => {
    const label = i === 0 ? show(high) : i === height - 1 ? show(low) : ''
    const dots = Array.from(row, (bits) => String.fromCharCode(BRAILLE + bits)).join('')
    return `${label.padStart(margin)} ${label === '' ? '│' : '┤'} ${dots}`
  })
}

/** The curves as an SVG file, with axes. */
export function drawSvg({ losses, smooth, validation }: Curves, title: string): string {
  const [wide, high, left, top] = [720, 360, 56, 36]
  const [right, bottom] = [wide - 16, high - 40]
  const all = [...losses, ...validation]
  const [low, most] = all.length === 0 ? [0, 1] : rangeOf(all)
  const [from, to] = [all[0]?.step ?? 0, Math.max(1, ...all.map(({ step }) => step))]
  const x = (step: number): string => (left + ((step - from) / Math.max(1, to - from)) * (right - left)).toFixed(1)
  const y = (loss: number): string => (bottom - ((loss - low) / (most - low)) * (bottom - top)).toFixed(1)
  const line = (points: readonly Point[], style: string): string =>
    points.length === 0
      ? ''
      : `<polyline fill="none" ${style} points="${points.map(({ step, loss }) => `${x(step)},${y(loss)}`).join(' ')}"/>`
  const ticks = Array.from({ length: 5 }, (_, i) => low + ((most - low) * i) / 4)
  const steps = Array.from({ length: 5 }, (_, i) => Math.round(from + ((to - from) * i) / 4))
  const legend = validation.length === 0 ? '' : ' <tspan fill="#c2571a">validation</tspan>'
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" font-family="sans-serif" font-size="12" fill="#444">`,
    `<rect width="${wide}" height="${high}" fill="#fff"/>`,
    `<text x="${left}" y="20" font-size="14" fill="#111">${escapeXml(title)}</text>`,
    ...ticks.flatMap((loss) => [
      `<path d="M${left} ${y(loss)}H${right}" stroke="#e5e5e5"/>`,
      `<text x="${left - 6}" y="${y(loss)}" dy="4" text-anchor="end">${show(loss)}</text>`,
    ]),
    ...steps.map((step) => `<text x="${x(step)}" y="${bottom + 18}" text-anchor="middle">${step}</text>`),
    line(thinned(losses), 'stroke="#b9cdf0"'),
    line(thinned(smooth), 'stroke="#2457b3" stroke-width="2"'),
    line(validation, 'stroke="#c2571a" stroke-width="2"'),
    ...validation.map(({ step, loss }) => `<circle cx="${x(step)}" cy="${y(loss)}" r="3" fill="#c2571a"/>`),
    `<text x="${right}" y="20" text-anchor="end"><tspan fill="#2457b3">loss</tspan>${legend} by step</text>`,
    '</svg>\n',
  ]
    .filter((part) => part !== '')
    .join('\n')
}

/** Most points of a line of a file. */
const MOST_POINTS = 2000

function thinned(points: readonly Point[]): readonly Point[] {
  const every = Math.ceil(points.length / MOST_POINTS)
  return every <= 1 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1)
}

function rangeOf(points: readonly Point[]): [low: number, high: number] {
  let [low, high] = [Infinity, -Infinity]
  for (const { loss } of points) [low, high] = [Math.min(low, loss), Math.max(high, loss)]
  return high > low ? [low, high] : [low - 0.5, low + 0.5]
}

/** Between two points, on the line from one to the other. */
function valueAt(points: readonly Point[], step: number): number {
  let [below, above] = [0, points.length - 1]
  while (above - below > 1) {
    const middle = (below + above) >> 1
    if ((points[middle]?.step ?? 0) <= step) below = middle
    else above = middle
  }
  const [a, b] = [points[below], points[above]]
  if (a === undefined || b === undefined || b.step === a.step) return (a ?? b)?.loss ?? 0
  const part = Math.min(1, Math.max(0, (step - a.step) / (b.step - a.step)))
  return a.loss + part * (b.loss - a.loss)
}

function show(loss: number): string {
  return loss.toPrecision(3)
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
