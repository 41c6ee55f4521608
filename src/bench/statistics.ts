// Numbers about samples: the middle, the spread, and whether two sets of samples differ by more than their noise. Knows nothing of
// what was measured. Everything is robust: one sample that another program disturbed must not decide.

export interface Summary {
  readonly median: number
  /** spread of the samples as a share of the median; Infinity where there are too few to tell */
  readonly noise: number
}

export type Verdict = 'better' | 'worse' | 'same within noise'

export interface Comparison {
  /** first median over second */
  readonly ratio: number
  /** a ratio this close to 1 means nothing */
  readonly noise: number
  readonly verdict: Verdict
}

/** Even identical programs differ by this much from one process to the next: where memory lies, what shares a cache. */
const LEAST_NOISE = 0.02
/** Fewer samples show no spread worth the name. */
const LEAST_SAMPLES = 3
/** These make the median absolute deviation and the interquartile range of normal noise its standard deviation. */
const SIGMA_PER_MAD = 1.4826
const SIGMA_PER_IQR = 1 / 1.349

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

/** Between two samples the quantile is interpolated; of no samples it is NaN. */
export function quantile(values: readonly number[], at: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const position = (sorted.length - 1) * at
  const low = sorted[Math.floor(position)] ?? NaN
  const high = sorted[Math.ceil(position)] ?? NaN
  return low + (high - low) * (position - Math.floor(position))
}

export function summarize(values: readonly number[]): Summary {
  const middle = median(values)
  if (values.length < LEAST_SAMPLES) return { median: middle, noise: Infinity }
  const deviation = SIGMA_PER_MAD * median(values.map((value) => Math.abs(value - middle)))
  const range = SIGMA_PER_IQR * (quantile(values, 0.75) - quantile(values, 0.25))
  const spread = Math.max(deviation, range)
  return { median: middle, noise: spread === 0 ? 0 : spread / Math.abs(middle) }
}

/** Compares two sets of samples; which direction is better is the caller's to say. */
export function compare(first: readonly number[], second: readonly number[], better: 'more' | 'less'): Comparison {
  const [a, b] = [summarize(first), summarize(second)]
  const ratio = a.median / b.median
  const noise = Math.max(LEAST_NOISE, Math.hypot(a.noise, b.noise))
  // In both directions alike: twice as fast is as far from equal as half as fast.
  const distance = Math.max(ratio, 1 / ratio) - 1
  if (!(distance > noise)) return { ratio, noise, verdict: 'same within noise' }
  return { ratio, noise, verdict: ratio > 1 === (better === 'more') ? 'better' : 'worse' }
}
