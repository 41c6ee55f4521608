// Whether a library is whole: its size and hash are those that its manifest names. Asked before it is loaded, since a file that was cut
// short maps without complaint and ends the process (SIGBUS) when the part that is missing is first touched. Knows nothing of what a
// library holds. Node only.
//
// Reading and hashing two megabytes takes three to ten milliseconds; a file is hashed once in a process unless it changes.

/** What a manifest says of its library. */
export interface LibraryFile {
  readonly bytes: number
  readonly sha256: string
}

/** Hashes that were taken in this process, by path, inode, time and size. */
const taken = new Map<string, string>()

/** What is wrong with the file, or undefined. Throws where it cannot be read. */
export async function findDamage(path: string, { bytes, sha256 }: LibraryFile): Promise<string | undefined> {
  const [{ createHash }, { readFileSync, statSync }] = await Promise.all([import('node:crypto'), import('node:fs')])
  const { size, ino, mtimeMs } = statSync(path)
  if (size !== bytes) return `it has ${size} bytes instead of ${bytes}`
  const key = `${path} ${ino} ${mtimeMs} ${size}`
  const hash = taken.get(key) ?? createHash('sha256').update(readFileSync(path)).digest('hex')
  taken.set(key, hash)
  return hash === sha256 ? undefined : 'its content is not what was built'
}
