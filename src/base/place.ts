// Where the code and its package lie, for what is read beside them: the native libraries, the version, the demo's source. This file is two
// folders below the package, whether it is src/base/place.ts, dist/base/place.js or part of a file of dist/bundle/.

/** Hashes of the files that a bundle was made of, as scripts/bundle.js puts them in; elsewhere there is no such thing. */
declare const BUNDLED: { readonly sources: string; readonly devices: string } | undefined
export const bundled = typeof BUNDLED === 'undefined' ? undefined : BUNDLED

/** The folder that holds base/, ir/ and the others: src/ or dist/. Throws where that is no place: a page may load code from memory. */
export function codeFolder(): URL {
  return new URL('../', import.meta.url)
}

/** A script that is a process of its own, by its path below src/; where this code is bundled, so is that. */
export function scriptFile(path: string): URL {
  return new URL(bundled === undefined ? path : `bundle/${path.replaceAll('/', '-')}`, codeFolder())
}

/** A file of the package, by its path there: `package.json`. */
export function packageFile(path: string): URL {
  return new URL(`../../${path}`, import.meta.url)
}
