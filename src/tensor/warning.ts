// What people may want to know about how their tensors are computed. Nobody is told unless somebody listens, and of each thing once.

import { checkOption, isFunction } from '../base/argument.ts'

let listener: ((line: string) => void) | undefined
const said = new Set<string>()

/** Gets a line, once, for each operation that is computed in a wider type than its operands have; undefined: nobody does. */
export function onTensorWarning(listen: ((line: string) => void) | undefined): void {
  checkOption('onTensorWarning', 'who listens', listen, 'a function', isFunction)
  listener = listen
  said.clear()
}

export function warnOnce(line: string): void {
  if (listener === undefined || said.has(line)) return
  said.add(line)
  listener(line)
}
