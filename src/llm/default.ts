// Choices that `load` makes where the caller makes none. Apart from it, so that describing a file need not load what computes.

/** Tokens a sequence may have, where the model was trained for more. */
export const DEFAULT_CONTEXT = 4096
/** Prompt tokens of one submission. */
export const DEFAULT_CHUNK = 128
/** Bytes that the cache of a default context may take whatever the weights take: more than that of any model so small. */
export const MOST_CACHE = 2 ** 28
/** And as a multiple of the weights: more than that of any large one. */
export const MOST_CACHE_SHARE = 4
