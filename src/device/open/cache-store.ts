// What was found out in one process and saves time in the next, by key: a file in the user's cache folder in Node, localStorage in
// browsers. A convenience only: where nothing can be stored, or what is stored makes no sense, it is simply found out again. Knows
// nothing of what it stores.

import { isNode } from '../core/platform.ts'

export interface CacheStore<T> {
  get(key: string): Promise<T | undefined>
  set(key: string, value: T): Promise<void>
}

export interface CacheStoreOptions<T> {
  /** of the file, without `.json`; each store has its own */
  readonly name: string
  /** Whether something that was read has the right shape: others may have written it. */
  isValid(value: unknown): value is T
}

/** Where the text of a whole store lies. Both may throw. */
interface TextPlace {
  read(): Promise<string>
  write(text: string): Promise<void>
}

const MOST_KEPT = 64

/** The store of this name on this machine. */
export function openCacheStore<T>({ name, isValid }: CacheStoreOptions<T>): CacheStore<T> {
  const place = isNode() ? filePlace(name) : browserPlace(name)
  const readAll = async (): Promise<[string, T][]> => {
    try {
      const parsed: unknown = JSON.parse(await place.read())
      if (typeof parsed !== 'object' || parsed === null) return []
      return Object.entries(parsed).flatMap(([key, value]): [string, T][] => (isValid(value) ? [[key, value]] : []))
    } catch {
      return []
    }
  }
  return {
    get: async (key) => (await readAll()).find(([known]) => known === key)?.[1],
    // Newest last; the oldest are forgotten. Two processes at once may lose one of their values, never the file.
    set: async (key, value) => {
      const kept = (await readAll()).filter(([known]) => known !== key).slice(1 - MOST_KEPT)
      await place.write(JSON.stringify(Object.fromEntries([...kept, [key, value]]), null, 1)).catch(() => {})
    },
  }
}

/** A file in the user's cache folder. Replaced whole, so that no reader sees half of it. */
function filePlace(name: string): TextPlace {
  const locate = async (): Promise<{ folder: string; file: string }> => {
    const [{ join }, { homedir }] = await Promise.all([import('node:path'), import('node:os')])
    const cache = process.env.XDG_CACHE_HOME
    const folder = join(cache === undefined || cache === '' ? join(homedir(), '.cache') : cache, 'ingot')
    return { folder, file: join(folder, `${name}.json`) }
  }
  return {
    read: async () => (await import('node:fs/promises')).readFile((await locate()).file, 'utf8'),
    write: async (text) => {
      const { mkdir, rename, rm, writeFile } = await import('node:fs/promises')
      const { folder, file } = await locate()
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

function browserPlace(name: string): TextPlace {
  const key = `ingot.${name}`
  return {
    read: async () => localStorage.getItem(key) ?? '',
    write: async (text) => localStorage.setItem(key, text),
  }
}
