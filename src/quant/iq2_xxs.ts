// IQ2_XXS: 256 weights in 66 bytes: half d, then 8 bytes per 32 weights: four bytes that each choose eight magnitudes from a grid,
// and a word with four 7-bit sign patterns (the eighth sign makes the parity even) and a 4-bit scale.
// y = d*(0.5 + scale)*0.25 * magnitude * sign.

import { halfOf, wordOf16 } from './bytes.ts'
import type { Format } from './format.ts'

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

/** The grid as bytes, four to a word, two words to an entry. */
const WORDS = Array.from({ length: 512 }, (_, i) => {
  const entry = Number.parseInt(GRID.slice(4 * (i >> 1), 4 * (i >> 1) + 4), 16) >> (8 * (i & 1))
  return [0, 1, 2, 3].reduce((word, byte) => word + ([8, 25, 43][(entry >> (2 * byte)) & 3] ?? 0) * 256 ** byte, 0)
})

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
        const sign = [0, 1, 2, 3].map((lane) =>
          k.const('f32', 1).sub(
            eight
              .shr(4 * half + lane)
              .and(1)
              .to('f32')
              .mul(2),
          ),
        )
        const magnitude = k.table('u32', WORDS, entry.add(half)).unpackU8().to('f32')
        return magnitude.mul(d).mul(k.vec(...sign) as never)
      })
    })
  },
}
