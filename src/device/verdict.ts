// What the self-test said of a device, remembered from one process to the next: a file in Node, localStorage in browsers.
// A convenience only: where nothing can be stored, or what is stored makes no sense, the test simply runs again.

export interface Verdict {
  readonly passed: readonly string[]
  /** `lasting` is false for troubles that may be gone tomorrow */
  readonly failed: readonly { readonly name: string; readonly error: string; readonly lasting: boolean }[]
}

export interface VerdictStore {
  get(key: string): Promise<Verdict | undefined>
  set(key: string, verdict: Verdict): Promise<void>
}

/** Where the text of all verdicts lies. Both may throw. */
interface Shelf {
  read(): Promise<string>
  write(text: string): Promise<void>
}

const MOST_VERDICTS = 64
const LOCAL_KEY = 'ingot.verdicts'

/** The store of this machine. */
export function openVerdicts(): VerdictStore {
  const node = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined
  return new TextStore(node ? fileShelf() : browserShelf())
}

class TextStore implements VerdictStore {
  readonly #shelf: Shelf

  constructor(shelf: Shelf) {
    this.#shelf = shelf
  }

  async get(key: string): Promise<Verdict | undefined> {
    return (await this.#all()).find(([known]) => known === key)?.[1]
  }

  /** Newest last; the oldest are forgotten. Two processes at once may lose one of their verdicts, never the file. */
  async set(key: string, verdict: Verdict): Promise<void> {
    const kept = (await this.#all()).filter(([known]) => known !== key).slice(1 - MOST_VERDICTS)
    const text = JSON.stringify(Object.fromEntries([...kept, [key, verdict]]), null, 1)
    await this.#shelf.write(text).catch(() => {})
  }

  async #all(): Promise<(readonly [string, Verdict])[]> {
    try {
      const parsed: unknown = JSON.parse(await this.#shelf.read())
      if (typeof parsed !== 'object' || parsed === null) return []
      return Object.entries(parsed).filter((entry): entry is [string, Verdict] => isVerdict(entry[1]))
    } catch {
      return []
    }
  }
}

function isVerdict(value: unknown): value is Verdict {
  if (typeof value !== 'object' || value === null) return false
  const { passed, failed } = value as Partial<Record<keyof Verdict, unknown>>
  if (!Array.isArray(passed) || !passed.every((name) => typeof name === 'string') || !Array.isArray(failed)) return false
  return failed.every((each: unknown) => {
    if (typeof each !== 'object' || each === null) return false
    const { name, error, lasting } = each as Record<string, unknown>
    return typeof name === 'string' && typeof error === 'string' && typeof lasting === 'boolean'
  })
}

/** `verdicts.json` in the user's cache folder. Replaced whole, so that no reader sees half a file. */
function fileShelf(): Shelf {
  const place = async (): Promise<{ folder: string; file: string }> => {
    const [{ join }, { homedir }] = await Promise.all([import('node:path'), import('node:os')])
    const cache = process.env.XDG_CACHE_HOME
    const folder = join(cache === undefined || cache === '' ? join(homedir(), '.cache') : cache, 'ingot')
    return { folder, file: join(folder, 'verdicts.json') }
  }
  return {
    read: async () => (await import('node:fs/promises')).readFile((await place()).file, 'utf8'),
    write: async (text) => {
      const { mkdir, rename, rm, writeFile } = await import('node:fs/promises')
      const { folder, file } = await place()
      await mkdir(folder, { recursive: true })
      const draft = `${file}.${process.pid}.${Date.now()}`
      try {
        await writeFile(draft, text)
        await rename(draft, file)
      } finally {
        await rm(draft, { force: true })
      }
    },
  }
}

function browserShelf(): Shelf {
  return {
    read: async () => localStorage.getItem(LOCAL_KEY) ?? '',
    write: async (text) => localStorage.setItem(LOCAL_KEY, text),
  }
}
