// Where a lane is: one record per index that a kernel can ask for. Data only.

export const AXES = ['x', 'y', 'z'] as const
export type Axis = (typeof AXES)[number]

/** How far a value is the same: for all lanes of a workgroup, of a subgroup, or for one lane only. */
export type Level = 'workgroup' | 'subgroup' | 'lane'

/**
 * `of` is what is counted: workgroups (`workgroup`: which one, `grid`: how many), lanes, subgroups, lanes within a subgroup; along
 * an axis of the grid or of the workgroup, or over all axes, counting x first.
 */
export type IndexRecord = { readonly uniform: Level } & (
  | { readonly of: 'workgroup' | 'grid' | 'lane'; readonly axis: Axis }
  | { readonly of: 'lane' | 'subgroup' | 'sublane'; readonly axis?: undefined }
)

export const INDICES = {
  'workgroup.x': { of: 'workgroup', axis: 'x', uniform: 'workgroup' },
  'workgroup.y': { of: 'workgroup', axis: 'y', uniform: 'workgroup' },
  'workgroup.z': { of: 'workgroup', axis: 'z', uniform: 'workgroup' },
  'grid.x': { of: 'grid', axis: 'x', uniform: 'workgroup' },
  'grid.y': { of: 'grid', axis: 'y', uniform: 'workgroup' },
  'grid.z': { of: 'grid', axis: 'z', uniform: 'workgroup' },
  'lane.x': { of: 'lane', axis: 'x', uniform: 'lane' },
  'lane.y': { of: 'lane', axis: 'y', uniform: 'lane' },
  'lane.z': { of: 'lane', axis: 'z', uniform: 'lane' },
  lane: { of: 'lane', uniform: 'lane' },
  subgroup: { of: 'subgroup', uniform: 'subgroup' },
  sublane: { of: 'sublane', uniform: 'lane' },
} as const satisfies Record<string, IndexRecord>

export type IndexName = keyof typeof INDICES

export function indexRecord(name: IndexName): IndexRecord {
  return INDICES[name]
}
