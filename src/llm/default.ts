// Choices that `load` makes where the caller makes none. Apart from it, so that describing a file need not load what computes.

/** Tokens a sequence may have, where the model was trained for more. */
export const DEFAULT_CONTEXT = 4096
/** Prompt tokens of one submission. */
export const DEFAULT_CHUNK = 128
/** Bytes that the cache of a default context may take even where the weights take less: more than that of any model so small. */
export const MOST_CACHE = 2 ** 28
