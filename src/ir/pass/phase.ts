// What serialize makes of a kernel, before there are loops over lanes: phases, which lanes run without waiting for each other, in a tree of
// the control flow around them. All of it is still written in terms of one lane.

import type { Node } from '../node.ts'
import type { ArgOf } from '../op.ts'

export interface Phase {
  readonly kind: 'phase'
  /** once per subgroup instead of for every lane */
  readonly lead: boolean
  readonly mask: string | undefined
  readonly statements: readonly Node[]
}
export type PhaseTree =
  | Phase
  /** what needs no lane */
  | { readonly kind: 'once'; readonly statements: readonly Node[] }
  /** a loop that all lanes leave at once, and where */
  | { readonly kind: 'around'; readonly body: readonly PhaseTree[] }
  | { readonly kind: 'break'; readonly condition: Node }
  | { readonly kind: 'if'; readonly condition: Node; readonly yes: readonly PhaseTree[]; readonly no: readonly PhaseTree[] }
  | { readonly kind: 'for'; readonly bounds: readonly Node[]; readonly arg: ArgOf<'for'>; readonly body: readonly PhaseTree[] }
  /** repeats head and body until, after the head, no lane of the mask is active */
  | { readonly kind: 'loop'; readonly head: readonly PhaseTree[]; readonly mask: string; readonly body: readonly PhaseTree[] }
