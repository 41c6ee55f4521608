// Which code is running, by its content: a hash over the files that make kernels, for the library that was built from them, and one
// over these and the devices, for what was found out about them. Any change of a file changes it, whatever clocks and file times say.
//
// Files are walked and read one after the other: two hundred small ones take a few milliseconds, and as many promises ten times that.

import { IngotError } from '../../base/error.ts'
import { bundled, codeFolder, packageFile } from '../../base/place.ts'

/** Everything that decides the text of a kernel. */
const SOURCES = ['base', 'ir', 'emit', 'quant', 'kernel'] as const
/** What else decides whether a device computes it right. */
const DEVICES = ['device'] as const
/** of a file of code: far more than the longest, which test/ladder.test.ts limits */
const MOST_BYTES = 1 << 18

/**
 * A hash of the code that makes kernels, below a folder like src/ or dist/. Kernels are known by keys, which stand for their
 * text only as long as this is the same.
 */
export function hashSources(root: URL): Promise<string> {
  return hashFolders(root, SOURCES)
}

let runningSources: Promise<string> | undefined
let runningCode: Promise<string> | undefined

/** `hashSources` of the code that runs here. */
export async function hashRunningSources(): Promise<string> {
  return (runningSources ??= bundled === undefined ? hashSources(codeFolder()) : Promise.resolve(bundled.sources))
}

/** A hash of the devices below a folder like src/ or dist/. */
export function hashDevices(root: URL): Promise<string> {
  return hashFolders(root, DEVICES)
}

/**
 * The version, sources and devices that run here: what was found out with other code says nothing about this one. In browsers, where
 * files cannot be asked, a constant: a page's code changes with its address.
 */
export function hashRunningCode(): Promise<string> {
  return (runningCode ??= hashAll().catch(() => 'unknown'))
}

async function hashAll(): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  const { version } = JSON.parse(await readFile(packageFile('package.json'), 'utf8')) as { version: string } // our own
  const devices = bundled === undefined ? await hashDevices(codeFolder()) : bundled.devices
  return `${version}-${await hashRunningSources()}-${devices}`
}

async function hashFolders(root: URL, folders: readonly string[]): Promise<string> {
  const [{ createHash }, { closeSync, openSync, readdirSync, readSync }, { fileURLToPath }] = await Promise.all([
    import('node:crypto'),
    import('node:fs'),
    import('node:url'),
  ])
  const base = fileURLToPath(root)
  const codeBelow = (folder: string): string[] =>
    readdirSync(`${base}${folder}`, { withFileTypes: true }).flatMap((entry) => {
      const path = `${folder}/${entry.name}`
      if (entry.isDirectory()) return codeBelow(path)
      return /\.[jt]s$/.test(path) && !path.endsWith('.d.ts') ? [path] : []
    })
  const hash = createHash('sha256')
  const room = Buffer.allocUnsafe(MOST_BYTES) // one for all: three calls a file instead of four, and no memory, take a third of the time
  for (const path of folders.flatMap(codeBelow).sort()) {
    const file = openSync(`${base}${path}`, 'r')
    try {
      const length = readSync(file, room, 0, MOST_BYTES, 0)
      if (length === MOST_BYTES) throw new IngotError('too-large', 'a file of code is too long to hash', { op: 'open', got: path })
      hash.update(`${path} ${length}\n`).update(room.subarray(0, length))
    } finally {
      closeSync(file)
    }
  }
  return hash.digest('hex')
}
