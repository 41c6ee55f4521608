// Where a lane is, as an expression of its number in the workgroup.

import type { Kernel } from '../kernel.ts'
import type { Node, NodeOf } from '../node.ts'
import type { Value } from '../value.ts'

/** What an index means for a lane; an index that no lane is needed for stays. */
export function positionOf({ workgroup: [x, y, z], subgroup }: Kernel, node: NodeOf<'index'>, lane: Value<'u32'>): Node {
  switch (node.arg) {
    case 'lane':
      return lane.node
    case 'lane.x':
      return y * z === 1 ? lane.node : lane.rem(x).node
    case 'lane.y':
      return z === 1 ? (y === 1 ? lane.sub(lane) : lane.div(x)).node : lane.div(x).rem(y).node
    case 'lane.z':
      return z === 1 ? lane.sub(lane).node : lane.div(x * y).node
    case 'subgroup':
      return lane.div(subgroup).node
    case 'sublane':
      return lane.rem(subgroup).node
    default:
      return node
  }
}
