// Numbers as text: the fewest decimal digits that give the same number back, and hexadecimal for bit patterns. Languages
// differ in suffixes and in how they say infinity; the dialects add those.

/** The largest f32. Its shortest decimal is above it, and WGSL refuses numbers above the largest before it rounds them. */
const LARGEST = 3.4028234663852886e38
const LARGEST_HALF = 65504

/** The shortest decimal that rounds to this f32: `0.1`, `1e-5`, `3.4028234e38`. Always has a point or an exponent. */
export function floatDigits(value: number): string {
  if (value < 0 || Object.is(value, -0)) return `-${floatDigits(-value)}`
  if (value === 0) return '0.0'
  if (value === LARGEST) return '3.4028234e38'
  for (let digits = 1; digits < 9; digits++) {
    const short = value.toPrecision(digits)
    if (roundsTo(Number(short), value)) return decimal(short)
  }
  return decimal(value.toPrecision(9))
}

/** The f16 nearest to a number that an author wrote, as text; values past the largest f16 give undefined. */
export function halfDigits(value: number): string | undefined {
  return Math.abs(value) >= 65520 ? undefined : decimal(String(Math.max(-LARGEST_HALF, Math.min(LARGEST_HALF, value))))
}

/** The shortest decimal that rounds to this f64. */
export function doubleDigits(value: number): string {
  return decimal(Object.is(value, -0) ? '-0' : String(value))
}

/** `0xff00` */
export function hex(value: number): string {
  return `0x${(value >>> 0).toString(16)}`
}

/** Compilers round the decimal to f32 directly; JavaScript rounds twice. Both agree away from the middle of two f32. */
function roundsTo(decimalValue: number, value: number): boolean {
  const nudge = decimalValue * 2 ** -50
  return Math.fround(decimalValue + nudge) === value && Math.fround(decimalValue - nudge) === value
}

function decimal(text: string): string {
  const value = Number(text)
  if (value === 0) return Object.is(value, -0) || text.startsWith('-') ? '-0.0' : '0.0'
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e')
  const power = Number(exponent)
  if (power < -4 || power > 8) return `${mantissa}e${power}`
  const plain = value.toFixed(Math.max(1, mantissa.replace(/[-.]/g, '').length - 1 - power))
  return plain
}
