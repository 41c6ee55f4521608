// The fuzzer (scripts/fuzz/) with types, for tests.

export interface FuzzFile {
  readonly name: string
}

export interface FuzzOptions {
  readonly device: string
  readonly seed: number
  readonly from: number
  readonly count: number
  /** instead of the one that loads models */
  readonly program?: string
  /** milliseconds of one case */
  readonly longest?: number
}

export interface FuzzResult {
  /** how many cases ended so */
  readonly outcomes: Readonly<Record<string, number>>
  readonly faults: readonly { readonly number: number; readonly fault: string; readonly what: string }[]
}

export interface Fuzzer {
  readonly bases: readonly FuzzFile[]
  chooseBase(bases: readonly FuzzFile[], seed: number, number: number): FuzzFile
  mutate(base: FuzzFile, seed: number, number: number): { readonly bytes: Uint8Array; readonly what: string }
  putTogether(base: FuzzFile): { readonly bytes: Uint8Array }
  missingDevice(device: string): string | undefined
  fuzz(options: FuzzOptions): Promise<FuzzResult>
}

export async function loadFuzzer(): Promise<Fuzzer> {
  const [{ loadBases }, ...parts] = (await Promise.all(
    ['base', 'mutation', 'parts', 'watch'].map((name) => import(new URL(`../../scripts/fuzz/${name}.js`, import.meta.url).href)),
  )) as [{ loadBases: () => Promise<FuzzFile[]> }, ...Fuzzer[]]
  return Object.assign({ bases: await loadBases() }, ...parts) as Fuzzer
}
