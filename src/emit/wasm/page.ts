// How WebAssembly measures memory. A file of its own, so that whoever only keeps memory need not load an emitter.

/** Bytes of a page. */
export const PAGE = 65536
/** Pages of a memory that 32 bits can address. */
export const MOST_PAGES = 65536
