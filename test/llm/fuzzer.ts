// The fuzzer (scripts/fuzz/) with types, for tests.

export interface FuzzFile {
  readonly name: string
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
  fuzz(options: { device: string; seed: number; from: number; count: number }): Promise<FuzzResult>
}

export async function loadFuzzer(): Promise<Fuzzer> {
  const [{ loadBases }, ...parts] = (await Promise.all(
    ['base', 'mutation', 'parts', 'watch'].map((name) => import(new URL(`../../scripts/fuzz/${name}.js`, import.meta.url).href)),
  )) as [{ loadBases: () => Promise<FuzzFile[]> }, ...Fuzzer[]]
  return Object.assign({ bases: await loadBases() }, ...parts) as Fuzzer
}
