// The loss curve of a run as an SVG.

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 360, 48, 36, 28, 16]

/**
 * @param {readonly { tokens: number, loss: number }[]} training
 * @param {readonly { tokens: number, loss: number }[]} validation
 */
export function drawCurve(training, validation) {
  const mostTokens = Math.max(1, ...training.map(({ tokens }) => tokens))
  const mostLoss = Math.ceil(Math.max(...training.map(({ loss }) => loss)))
  const x = (/** @type {number} */ tokens) => (LEFT + (tokens / mostTokens) * (WIDTH - LEFT - RIGHT)).toFixed(1)
  const y = (/** @type {number} */ loss) => (HEIGHT - BOTTOM - (loss / mostLoss) * (HEIGHT - BOTTOM - TOP)).toFixed(1)
  const line = (/** @type {readonly { tokens: number, loss: number }[]} */ points) =>
    points.map(({ tokens, loss }, i) => `${i === 0 ? 'M' : 'L'}${x(tokens)} ${y(loss)}`).join('')
  const levels = Array.from({ length: mostLoss + 1 }, (_, loss) => loss)
  const millions = Array.from({ length: Math.floor(mostTokens / 1e6) + 1 }, (_, i) => i)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
${levels.map((loss) => `<path d="M${LEFT} ${y(loss)}H${WIDTH - RIGHT}" stroke="#e5e5e5"/><text x="${LEFT - 8}" y="${y(loss)}" text-anchor="end" dy="4" fill="#555">${loss}</text>`).join('\n')}
${millions.map((m) => `<text x="${x(m * 1e6)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle" fill="#555">${m} M</text>`).join('\n')}
<text x="${LEFT}" y="16" fill="#333">loss (nats per token) over tokens seen: training (blue), held out (red)</text>
<path d="${line(training)}" fill="none" stroke="#2b6cb0" stroke-width="1.2"/>
<path d="${line(validation)}" fill="none" stroke="#c53030" stroke-width="1.6"/>
${validation.map(({ tokens, loss }) => `<circle cx="${x(tokens)}" cy="${y(loss)}" r="2" fill="#c53030"/>`).join('\n')}
</svg>
`
}
