// Names for what a kernel declares: the author's hint where possible, made legal and unique among the names in sight. A name
// may be used again once its scope has closed. Knows no language; the dialect brings its reserved words.

export class Names {
  readonly #reserved: ReadonlySet<string>
  readonly #scopes: Set<string>[] = [new Set()]

  constructor(reserved: ReadonlySet<string>) {
    this.#reserved = reserved
  }

  open(): void {
    this.#scopes.push(new Set())
  }
  close(): void {
    this.#scopes.pop()
  }

  /** A new name in the innermost scope. */
  declare(hint: string): string {
    const base = this.#legal(hint)
    let name = base
    for (let count = 2; this.#taken(name); count++) name = /\d$/.test(base) ? `${base}_${count}` : `${base}${count}`
    this.#scopes.at(-1)?.add(name)
    return name
  }

  /** `max` would hide a function; `x` hides the buffer it was loaded from: both become `...Value`. */
  #legal(hint: string): string {
    const clean =
      hint
        .replace(/[^A-Za-z0-9_]+/g, '_')
        .replace(/^[_\d]+|_+$/g, '')
        .replace(/__+/g, '_') || 'value'
    return this.#reserved.has(clean) || (this.#scopes[0]?.has(clean) === true && this.#scopes.length > 1) ? `${clean}Value` : clean
  }

  #taken(name: string): boolean {
    return this.#reserved.has(name) || this.#scopes.some((scope) => scope.has(name))
  }
}

/** A reserved-word list written as one text. */
export function words(...texts: readonly string[]): ReadonlySet<string> {
  return new Set(
    texts
      .join(' ')
      .split(/\s+/)
      .filter((word) => word !== ''),
  )
}
