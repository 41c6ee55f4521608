// Which code is running: the package's version and the sizes and times of the files that make kernels. Cheap enough for every start,
// and any change of a kernel, a pass or an emitter changes it.

const FOLDERS = ['base', 'ir', 'emit', 'quant', 'kernel', 'device'] as const

/** In browsers, where files cannot be asked, a constant: a page's code changes with its address. */
export async function codeStamp(): Promise<string> {
  try {
    const [{ readdir, stat, readFile }, { hashText }] = await Promise.all([import('node:fs/promises'), import('../ir/hash.ts')])
    const root = new URL('../', import.meta.url)
    const { version } = JSON.parse(await readFile(new URL('../package.json', root), 'utf8')) as { version: string }
    const facts = await Promise.all(FOLDERS.map(async (folder) => {
      const at = new URL(`${folder}/`, root)
      const names = (await readdir(at, { recursive: true })).filter((name) => /\.(js|ts)$/.test(name) && !name.endsWith('.d.ts')).sort()
      return Promise.all(names.map(async (name) => {
        const { size, mtimeMs } = await stat(new URL(name, at))
        return `${folder}/${name} ${size} ${mtimeMs}`
      }))
    }))
    return `${version}-${hashText(facts.flat().join('\n'))}`
  } catch {
    return 'unknown'
  }
}
