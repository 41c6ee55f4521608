// Whether logits name the same tokens as a witness's, where the question makes sense: a position counts only where the witness's best
// token leads the next by more than four times the RMS error of all logits. Below that the two are a near tie, which the rounding of
// activations may turn either way. Pure: knows numbers, no models.

/** A margin of fewer errors than this is a near tie: the difference of two logits has 1.4 times the error of one. */
const ERRORS = 4

export interface Agreement {
  /** positions with a margin that counts */
  readonly counted: number
  /** of these, the ones at which both name the same token */
  readonly same: number
  /** positions that would count if the error were the largest that is allowed: that none of them counts is a fault of its own */
  readonly clear: number
}

/** `got` and `want` are [positions][vocabulary]; `mostNmse` is the largest error allowed, as a part of the witness's power. */
export function agreement(got: Float32Array, want: Float32Array, positions: number, mostNmse: number): Agreement {
  const vocabulary = want.length / positions
  if (!Number.isInteger(vocabulary) || got.length !== want.length) throw new Error(`${got.length} and ${want.length} logits cannot be rows`)
  const error = rms(want.map((value, i) => (got[i] ?? NaN) - value))
  const allowed = Math.sqrt(mostNmse) * rms(want)
  const rows = Array.from({ length: positions }, (_, row) => {
    const part = (logits: Float32Array): Float32Array => logits.subarray(row * vocabulary, (row + 1) * vocabulary)
    const [mine, theirs] = [bestOf(part(got)), bestOf(part(want))]
    return { same: mine.token === theirs.token, margin: theirs.margin }
  })
  const counted = rows.filter(({ margin }) => margin > ERRORS * error)
  return {
    counted: counted.length,
    same: counted.filter(({ same }) => same).length,
    clear: rows.filter(({ margin }) => margin > ERRORS * allowed).length,
  }
}

/** Why the logits do not agree, or undefined: `part` of the positions that count must name the same token, and clear ones must count. */
export function describeDisagreement({ counted, same, clear }: Agreement, part: number): string | undefined {
  if (counted === 0) return clear === 0 ? undefined : `none of ${clear} positions with clear margins counts: the logits are too far off`
  return same >= part * counted ? undefined : `the same token at ${same} of ${counted} positions that count, wanted ${part * 100} %`
}

function rms(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length)
}

/** The first of the highest, and how far it leads the next. */
function bestOf(logits: Float32Array): { readonly token: number; readonly margin: number } {
  let [token, highest, second] = [-1, -Infinity, -Infinity]
  logits.forEach((logit, id) => {
    if (logit > highest) [token, highest, second] = [id, logit, highest]
    else if (logit > second) second = logit
  })
  return { token, margin: highest - second }
}
