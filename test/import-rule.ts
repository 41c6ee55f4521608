// The ladder as data, and the functions that hold a source file against it. Reads text, never runs or compiles it: an
// import counts whether it brings values or only types, at the top of a file or in the middle of a function.

import { posix } from 'node:path'

/** Folder -> folders it may import from, besides itself. The order is the order of the rungs. */
export const LADDER = {
  base: [],
  ir: ['base'],
  emit: ['base', 'ir'],
  quant: ['base', 'ir'],
  kernel: ['base', 'ir', 'quant'],
  weights: ['base', 'quant'],
  device: ['base', 'ir', 'emit'],
  tensor: ['base', 'ir', 'quant', 'kernel'],
  atlas: ['base', 'ir'],
  nn: ['base', 'quant', 'tensor'],
  model: ['base', 'tensor', 'nn'],
  llm: ['base', 'ir', 'emit', 'quant', 'kernel', 'weights', 'device', 'tensor', 'atlas', 'nn', 'model'],
  train: ['base', 'ir', 'emit', 'quant', 'kernel', 'weights', 'device', 'tensor', 'atlas', 'nn', 'model', 'llm'],
  serve: ['base', 'llm'],
  bench: ['base', 'ir', 'emit', 'quant', 'kernel', 'weights', 'device', 'tensor', 'atlas', 'nn', 'model', 'llm', 'train'],
  cli: ['base', 'ir', 'emit', 'quant', 'kernel', 'weights', 'device', 'tensor', 'atlas', 'nn', 'model', 'llm', 'train', 'serve', 'bench'],
} as const satisfies Record<string, readonly string[]>

export type Folder = keyof typeof LADDER

/** Single doors through the ladder: who may use them, and what is behind. A name without `.ts` is a whole folder. */
const DOORS: readonly { readonly from: string; readonly to: string }[] = [
  { from: 'tensor', to: 'device/device.ts' },
  { from: 'tensor/default-device.ts', to: 'device/open/open.ts' },
  { from: 'tensor/file.ts', to: 'weights' },
  { from: 'atlas', to: 'device/device.ts' },
  { from: 'device/open/self-test.ts', to: 'kernel' },
  { from: 'device/open/self-test.ts', to: 'quant' },
]

/** The package's public entries may import anything; nothing but the command line may import them. */
const ENTRIES: readonly string[] = ['index.ts', 'kernel.ts', 'train.ts', 'atlas.ts']

/** One import of a file of this repository; paths are relative to src/. */
export interface Import {
  readonly file: string
  readonly line: number
  /** as written: `../device/device.ts` */
  readonly specifier: string
  /** as resolved: `device/device.ts` */
  readonly target: string
}

const IMPORTS = [
  /^[ \t]*import\s+[^'"`]+?\bfrom\s*['"]([^'"]+)['"]/gm, // import x from '', also over several lines
  /^[ \t]*import\s*['"]([^'"]+)['"]/gm, // import ''
  /^[ \t]*export\s+(?:type\s+)?(?:\*|\{[^}]*\})[^'"`{}()=]*?\bfrom\s*['"]([^'"]+)['"]/gm, // export { x } from ''
  /\bimport\s*\(\s*['"`]([^'"`]+)['"`]/g, // import('') and typeof import('')
]

/** Every relative import of a source text, in the order of its lines. */
export function readImports(file: string, text: string): Import[] {
  const found = IMPORTS.flatMap((pattern) => [...text.matchAll(pattern)]).flatMap((match): Import[] => {
    const specifier = match[1] ?? ''
    if (!specifier.startsWith('.')) return []
    const end = match.index + match[0].length
    const line = text.slice(0, end).split('\n').length
    return [{ file, line, specifier, target: posix.join(posix.dirname(file), specifier) }]
  })
  return found.toSorted((a, b) => a.line - b.line)
}

/** What is wrong with an import: `src/nn/linear.ts:3 imports '../device/open.ts': nn may import ...`. */
export function findBreach({ file, line, specifier, target }: Import): string | undefined {
  if (ENTRIES.includes(file)) return undefined
  const from = folderOf(file)
  if (!isFolder(from)) return `src/${file}: ${from === '' ? 'src/' : from} is no rung of the ladder (${Object.keys(LADDER).join(' ')})`
  const to = folderOf(target)
  const allowed: readonly string[] = LADDER[from]
  const doors = DOORS.filter((door) => covers(door.from, file))
  if (to === from || allowed.includes(to) || doors.some((door) => covers(door.to, target))) return undefined
  if (from === 'cli' && ENTRIES.includes(target)) return undefined
  const wanted = [`${from}/ itself`, ...allowed, ...doors.map((door) => door.to)].join(', ')
  return `src/${file}:${line} imports '${specifier}': ${from} may import ${wanted}`
}

/** One cycle of every group of files that import each other in a ring: `ir/a.ts -> ir/b.ts -> ir/a.ts`. */
export function findCycles(imports: readonly Import[]): string[] {
  const targets = groupByFile(imports)
  const done = new Set<string>()
  const path: string[] = []
  const cycles: string[] = []
  const visit = (file: string): void => {
    const start = path.indexOf(file)
    if (start >= 0) cycles.push([...path.slice(start), file].join(' -> '))
    if (start >= 0 || done.has(file)) return
    path.push(file)
    for (const { target } of targets.get(file) ?? []) visit(target)
    path.pop()
    done.add(file)
  }
  for (const file of targets.keys()) visit(file)
  return cycles
}

function groupByFile(imports: readonly Import[]): Map<string, Import[]> {
  const groups = new Map<string, Import[]>()
  for (const each of imports) groups.set(each.file, [...(groups.get(each.file) ?? []), each])
  return groups
}

/** `ir/pass/fold.ts` -> `ir`; a file right in src/ -> ``; a path that leaves src/ -> `..`. */
function folderOf(path: string): string {
  const cut = path.indexOf('/')
  return cut < 0 ? '' : path.slice(0, cut)
}

function isFolder(name: string): name is Folder {
  return Object.hasOwn(LADDER, name)
}

function covers(place: string, path: string): boolean {
  return place.endsWith('.ts') ? place === path : folderOf(path) === place
}
