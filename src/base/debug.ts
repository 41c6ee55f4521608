// The one ladder of debugging: INGOT_DEBUG=0..4. Each step shows or checks more than the one before.
//   1  kernels are verified between all passes, not only when written
//   2  every compiled kernel is named on stderr
//   3  ... with its source
//   4  ... and its lowered form

const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process

/** 0 unless INGOT_DEBUG says otherwise. */
export const debugLevel: number = Number(process?.env?.['INGOT_DEBUG'] ?? 0) || 0
