// Lists whose lengths are known where they are written.

/** The element at `index` of a list that has it; a RangeError tells where that was wrong. */
export function item<T>(list: readonly T[], index: number): T {
  const found = list[index]
  if (found === undefined) throw new RangeError(`no item ${index} in a list of ${list.length}`)
  return found
}
