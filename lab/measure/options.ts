// What every experiment takes: `--device cpu,wasm,webgpu --threads 2 --only q4_k,512 --rounds 9 --quick --json`. Knows no kernel.

export interface Options {
  readonly devices: readonly string[]
  /** of CPUs; undefined: as many as the library takes */
  readonly threads: number | undefined
  /** texts of which the name or shape of an entry must hold one; none: all entries */
  readonly only: readonly string[]
  /** samples of each entry */
  readonly rounds: number
  /** few entries, few samples, less memory */
  readonly quick: boolean
  readonly json: boolean
}

const ROUNDS = { quick: 3, usual: 9 } as const

export function parseOptions(args: readonly string[]): Options {
  const quick = args.includes('--quick')
  return {
    quick,
    json: args.includes('--json'),
    devices: wordsOf(args, 'device') ?? ['cpu'],
    threads: countOf(args, 'threads'),
    only: wordsOf(args, 'only') ?? [],
    rounds: countOf(args, 'rounds') ?? (quick ? ROUNDS.quick : ROUNDS.usual),
  }
}

/** The words after `--name`, split at commas. */
export function wordsOf(args: readonly string[], name: string): string[] | undefined {
  const at = args.indexOf(`--${name}`)
  return at < 0 ? undefined : (args[at + 1] ?? '').split(',')
}

function countOf(args: readonly string[], name: string): number | undefined {
  const [word] = wordsOf(args, name) ?? []
  if (word === undefined) return undefined
  const count = Number(word)
  if (!Number.isInteger(count) || count < 1) throw new Error(`--${name} wants a whole number from 1, got ${word}`)
  return count
}
