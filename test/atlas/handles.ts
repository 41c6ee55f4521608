// Programs whose handles are computed while they run, and programs that use pools of the host; compiled.ts runs them on every device.
import type { RunOptions } from './compiled.ts'

const bytes = (count: number): Uint8Array => Uint8Array.from({ length: count }, (_, i) => (i * 37 + 11) & 255)

/** r1 = the handle of every lane, 1 or 2 in turn; r7 = four bytes a lane. */
const IN_TURN = `
  movimm.u64 r0, 1
  movimm.u32 r8, 2
  shl.u64 r7, r255, r8
  and.u64 r1, r255, r0
  add.u64 r1, r1, r0`

export const HANDLE_CASES: Record<string, { text: string; launch?: RunOptions; buffers?: readonly Uint8Array[] }> = {
  'handles that differ from lane to lane': {
    text: `${IN_TURN}
      ldg.u32 r2, [r1 + r7]
      ldg.u16 r3, [r1 + 6]
      ldg.u64 r5, [r1 + 8]
      cvt.u32.u16 r4, r3
      add.u32 r2, r2, r4
      cvt.u32.u64 r6, r5
      xor.u32 r2, r2, r6
      movimm.u64 r11, 2
      add.u64 r10, r1, r11
      stg.u32 r2, [r10 + r7]`,
    launch: { block: [4], grid: [2] },
    buffers: [bytes(32), bytes(32).map((byte) => byte ^ 90), bytes(32), bytes(32)],
  },
  'a handle that is read from memory': {
    text: `
      ldg.u64 r1, [buf3 + 0]
      movimm.u32 r2, 77
      stg.u32 r2, [r1 + 4]
      ldg.f32 r3, [r1 + 8]
      stg.f32 r3, [r1 + 12]`,
    buffers: [bytes(16), bytes(16), Uint8Array.of(2, 0, 0, 0, 0, 0, 0, 0)],
  },
  'pools of the host': {
    text: `
      movimm.u64 r1, 1
      movimm.u64 r2, 2
      movimm.u32 r8, 2
      shl.u64 r7, r255, r8
      poolload.u32 r3, r1, r7
      poolload.u16 r4, r2, r7
      cvt.u32.u16 r5, r4
      add.u32 r3, r3, r5
      poolstore.u32 r3, r2, r7`,
    launch: { block: [4], pools: [bytes(16), bytes(16)] },
  },
  'pools of the host and of lanes, by one register': {
    text: `${IN_TURN}
      poolalloc 32, r2
      movimm.u64 r3, 2
      movimm.u32 r4, 1000
      poolstore.u32 r4, r2, r7
      seteq.u64 p0, r1, r3
      sel.u64 r5, p0, r2, r1
      poolload.u32 r6, r5, r7
      add.u32 r6, r6, r252
      poolstore.u32 r6, r5, r7
      poolload.u32 r6, r5, r7
      poolstore.u32 r6, r3, r7`,
    launch: { block: [4], grid: [2], pools: [bytes(32), bytes(32)] },
  },
}

/** Programs of eight lanes with a buffer and a pool of 16 bytes each that run into an error: which, and which lane is the first. */
export const HANDLE_FAULTS: readonly [code: string, text: string, lane: number][] = [
  ['unknown-handle', 'movimm.u64 r0, 4\nsub.u64 r0, r0, r255\nmovimm.u64 r1, 1\nmax.u64 r0, r0, r1\nldg.u8 r1, [r0 + 0]', 0],
  ['unknown-handle', 'movimm.u32 r1, 32\nmovimm.u64 r0, 1\nshl.u64 r2, r255, r1\nadd.u64 r0, r0, r2\nldg.u8 r1, [r0 + 0]', 1],
  ['out-of-range', 'movimm.u64 r0, 1\nand.u64 r0, r0, r0\nmovimm.u64 r2, 11\nadd.u64 r2, r2, r255\nstg.u64 r2, [r0 + r2]', 0],
  ['bad-address', 'movimm.u64 r0, 1\nand.u64 r0, r0, r0\nmovimm.u16 r1, 1\nstg.u16 r1, [r0 + r255]', 1],
  ['uninitialised', 'movimm.u64 r0, 1\nand.u64 r0, r0, r0\nldg.u8 r1, [r0 + r2]', 0],
  ['out-of-range', 'movimm.u64 r0, 1\nmovimm.u64 r1, 11\nadd.u64 r1, r1, r255\npoolload.u8 r2, r0, r1', 5],
  ['bad-address', 'movimm.u64 r0, 1\npoolload.u16 r2, r0, r255', 1],
  ['unknown-handle', 'movimm.u64 r0, 1\npoolfree r0', 0],
  ['unknown-handle', 'movimm.u64 r0, 1\nmul.u64 r0, r255, r0\npoolload.u8 r2, r0, r255', 0],
]
