// Handles of pools. Those of the host are small numbers, as it gives them out; those that a lane takes for itself are above all of them,
// so that one can never be mistaken for the other. Both machines (interpret.ts, compile/) number them alike.

/** Handles from here on are of pools that lanes have for themselves. */
const LANE_POOLS = 2n ** 32n

/** The handle of the pool that the poolAlloc of this number gives a lane. */
export function laneHandle(instruction: number): bigint {
  return LANE_POOLS + BigInt(instruction) + 1n
}

export function isLaneHandle(handle: bigint): boolean {
  return handle >= LANE_POOLS
}
