// What emission must know about the machine that will run a kernel, and what it gives back. Data only.

/** The abilities that change the text of a kernel. */
export interface Caps {
  /** lanes of a hardware subgroup; 0 if subgroup operations cannot be used */
  readonly subgroup: number
  /** true if f16 values may live in registers */
  readonly f16: boolean
  /** true if there are 8x8 matrix tiles */
  readonly tiles: boolean
}

/** A kernel as text. */
export interface Source {
  readonly text: string
  /** name of the function to call or dispatch */
  readonly entry: string
  /** lanes of a workgroup as the text has them; a kernel for subgroups that the machine lacks runs in one */
  readonly workgroup: readonly [number, number, number]
}
