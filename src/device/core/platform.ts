// Where this code runs: Node, or a page. Asked before anything of `process` is touched.

export function isNode(): boolean {
  return typeof process !== 'undefined' && process.versions?.node !== undefined
}

/** Whether an import failed because there is no such package. */
export function isMissingPackage(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_MODULE_NOT_FOUND'
}

/** The variables of the process; a page has none. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  return typeof process === 'undefined' ? {} : (process.env ?? {})
}
