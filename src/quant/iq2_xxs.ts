// IQ2_XXS: 256 weights in 66 bytes: half d, then 8 bytes per 32 weights: four bytes that each choose eight magnitudes from a grid,
// and a word with four 7-bit sign patterns (the eighth sign makes the parity even) and a 4-bit scale.
// y = d*(0.5 + scale)*0.25 * magnitude * sign.

import type { Value } from '../ir/value.ts'
import type { Format } from './format.ts'
import { interleaved } from './packed/interleaved.ts'
import { type Field, copied, spreadNibble } from './packed/packed.ts'
import { halfOf, wordOf16 } from './unaligned.ts'

/** The grid of the format: 256 entries of eight magnitudes, 0: 8, 1: 25, 2: 43, two bits each, as four hex digits. */
const GRID =
  '0000000200050008000a00110014002000220028002a00410044005000580061006400800082008a00a2010101040110' +
  '0115014001840198020002020222028204010404041004210424044004420448046004810484049004a4050005020508' +
  '05200546056905800591060906100640068406a40800080508080814082808410844085008520888090409400a020a14' +
  '1001100410101021104010601084109010951100110811201150115a1180122412451400140814201425144914801518' +
  '156216001616180118041810184018811900190519a01a5120002002200a204420612080208221292148220022022401' +
  '240424102440245625002541256426902808282028942a44400140044010401840214024404040484056406040814084' +
  '409041004120416141804185420142104248425642684400440844204480449945124524460048014804481048404845' +
  '49004958496149824a454a9050005008501150195020508050885104514251a4529154905492550a5601565458005811' +
  '5819586459405a086004601060406068610061556218626064006405651065126584684280008002800a804180828104' +
  '811881408211840184048410841584408460850085468594860986408660880289048a11900490109024904090a19116' +
  '91809245940094229444955198819920a002a050a085a109a200a418a850a904'

const MAGNITUDES = [8, 25, 43]
const LARGEST = 43
/** Two bits of magnitude and a sign as unsigned bytes. */
const VALUES = [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0].map((value) => value + LARGEST)

/** The grid as numbers: eight magnitudes for each byte. */
export function gridOf(): readonly (readonly number[])[] {
  return Array.from({ length: 256 }, (_, entry) => {
    const bits = Number.parseInt(GRID.slice(4 * entry, 4 * entry + 4), 16)
    return Array.from({ length: 8 }, (_, i) => MAGNITUDES[(bits >> (2 * i)) & 3] ?? 0)
  })
}

/** The grid with a byte for each magnitude, four to a word, two words to an entry. */
function packGrid(byteOf: (magnitude: number) => number): number[] {
  return gridOf().flatMap((entry) =>
    [0, 4].map((from) => entry.slice(from, from + 4).reduce((word, magnitude, byte) => word + byteOf(magnitude) * 256 ** byte, 0)),
  )
}

// Made when a kernel or a model first needs them: few files have this format.
let wholeGrid: readonly number[] | undefined
let codedGrid: readonly number[] | undefined
const magnitudeWords = (): readonly number[] => (wholeGrid ??= packGrid((magnitude) => magnitude))
const codeWords = (): readonly number[] => (codedGrid ??= packGrid((magnitude) => MAGNITUDES.indexOf(magnitude)))

/** Byte of a block where the choices of sub-block `sub` are; its signs and scale follow. */
const FIRST = 2

/** Word w of half n: byte b has the codes of weights 4w + b of the half's four sub-blocks, two bits each. */
const magnitudes: Field = {
  bytes: 4,
  count: 16,
  write: (k, read, i) => {
    const [half, word] = [i.shr(3), i.and(7)]
    const codes = [0, 1, 2, 3].map((sub) => {
      const choice = read(half.mul(32).add(FIRST + 8 * sub), 4)
      const entry = choice.shr(word.shr(1).mul(8)).and(255)
      return k.table('u32', codeWords(), entry.mul(2).add(word.and(1))).shl(2 * sub)
    })
    return codes.reduce((a, b) => a.or(b))
  },
  define: (read, i) => {
    const [half, word] = [i >> 3, i & 7]
    return [0, 1, 2, 3].reduce((all, sub) => {
      const entry = (read(32 * half + FIRST + 8 * sub, 4) >>> (8 * (word >> 1))) & 255
      return (all | ((codeWords()[2 * entry + (word & 1)] ?? 0) << (2 * sub))) >>> 0
    }, 0)
  },
}

/** Word w: bit s of byte b is the sign of weight 4w + b of sub-block s. */
const signBits: Field = {
  bytes: 4,
  count: 8,
  write: (_k, read, i) => {
    const bits = Array.from({ length: 8 }, (_, sub) => {
      const seven = read(i.mul(0).add(FIRST + 8 * sub + 4), 4)
        .shr(i.shr(1).mul(7))
        .and(127)
      const eight = seven.or(seven.popcount().and(1).shl(7))
      return spreadNibble(eight.shr(i.and(1).mul(4)).and(15)).shl(sub)
    })
    return bits.reduce((a, b) => a.or(b))
  },
  define: (read, i) =>
    Array.from({ length: 8 }, (_, sub) => {
      const seven = (read(FIRST + 8 * sub + 4, 4) >>> (7 * (i >> 1))) & 127
      const parity = [0, 1, 2, 3, 4, 5, 6].reduce((sum, bit) => sum ^ ((seven >> bit) & 1), 0)
      const four = ((seven | (parity << 7)) >> (4 * (i & 1))) & 15
      return [0, 1, 2, 3].reduce((word, byte) => word | (((four >> byte) & 1) << (8 * byte + sub)), 0)
    }).reduce((a, b) => (a | b) >>> 0),
}

/** Twice the scales of the eight sub-blocks and one, four to a word. */
const scaleBytes: Field = {
  bytes: 4,
  count: 2,
  write: (_k, read, i) => {
    const parts = [0, 1, 2, 3].map((sub) => {
      const signs = read(i.mul(32).add(FIRST + 8 * sub + 4), 4)
      return signs
        .shr(28)
        .mul(2)
        .add(1)
        .shl(8 * sub)
    })
    return parts.reduce((a, b) => a.or(b))
  },
  define: (read, i) => [0, 1, 2, 3].reduce((word, sub) => word + (2 * (read(32 * i + FIRST + 8 * sub + 4, 4) >>> 28) + 1) * 256 ** sub, 0),
}

export const iq2_xxs: Format<'u16'> = {
  name: 'iq2_xxs',
  storage: 'u16',
  decode(k, w, chunk) {
    const block = k.let('block', chunk.shr(3).mul(33))
    const at = k.let('at', block.add(1).add(chunk.and(7).mul(4)))
    const choice = k.let('choice', wordOf16(w, at))
    const signs = k.let('signs', wordOf16(w, at.add(2)))
    const d = k.let('d', halfOf(w.at(block)).mul(signs.shr(28).to('f32').add(0.5)).mul(0.25))
    return [0, 1, 2, 3].flatMap((group) => {
      const entry = choice
        .shr(8 * group)
        .and(255)
        .mul(2)
      const seven = signs.shr(7 * group).and(127)
      const eight = k.let('eight', seven.or(seven.popcount().and(1).shl(7)))
      return [0, 1].map((half) => {
        const sign = (lane: number): Value<'f32'> => {
          const negative = eight.shr(4 * half + lane).and(1)
          return k.const('f32', 1).sub(negative.to('f32').mul(2))
        }
        const magnitude = k.table('u32', magnitudeWords(), entry.add(half)).unpackU8().to('f32')
        return magnitude.mul(d).mul(k.vec(sign(0), sign(1), sign(2), sign(3)))
      })
    })
  },
  // Three bits of each weight instead of two: looking the grid up for every weight would take longer than reading the bits.
  packed: interleaved({
    quants: [magnitudes, signBits],
    scales: [copied(0, 2, 1), scaleBytes],
    per: 32,
    scale: 'unsigned',
    offset: LARGEST,
    largest: 2 * LARGEST,
    unit: 1 / 8,
    run: 2,
    quantsOf(tile, half, word, plus, group) {
      const codes = tile.quants(half.mul(8).add(word), plus, group)
      const signs = tile.quants(word, 16 + plus, group).shr(half.mul(4).splat(tile.width))
      return [0, 1, 2, 3].map((sub) => {
        const sign = sub < 2 ? signs.shl(2 - sub) : signs.shr(sub - 2)
        return codes
          .shr(2 * sub)
          .and(0x03030303)
          .or(sign.and(0x04040404))
          .lookup16(VALUES)
      })
    },
  }),
}
