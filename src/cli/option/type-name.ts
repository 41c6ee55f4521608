// Reads the name of a weight format from a command line, in any case: `Q4_K`.

import { InvalidArgumentError } from 'commander'
import { type GgmlType, isGgmlType } from '../../quant/type.ts'

export function typeName(known: readonly GgmlType[]): (text: string) => GgmlType {
  return (text) => {
    const name = text.toLowerCase()
    if (isGgmlType(name) && known.includes(name)) return name
    throw new InvalidArgumentError(`It must be one of ${known.join(', ')}.`)
  }
}
