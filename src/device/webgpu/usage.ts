// The flags of WebGPU buffers. Browsers have them as globals; Node does not.

export const MAP_READ = 0x1
export const COPY_SRC = 0x4
export const COPY_DST = 0x8
export const UNIFORM = 0x40
export const STORAGE = 0x80
