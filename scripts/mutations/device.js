// Faults in devices, and in what runs on them.

/** @type {readonly import('../mutations.js').Mutation[]} */
export const DEVICE = [
  {
    name: 'a command does not wait for those that read what it writes',
    file: 'src/device/core/hazard.ts',
    find: '(span.written && meets(span, this.#reads))',
    replace: '(span.written && meets(span, []))',
    tests: ['test/device/metal-order.test.ts', 'test/device/cpu.test.ts', 'test/device/native.test.ts'],
  },
  {
    name: 'a range may end past its buffer',
    file: 'src/device/core/check.ts',
    find: 'if (bytes <= 0 || offset + bytes > buffer.bytes)',
    replace: 'if (bytes <= 0 || offset > buffer.bytes)',
    tests: ['test/device/contract.test.ts'],
  },
  {
    name: 'freed memory is joined with a neighbour that is not next to it',
    file: 'src/device/cpu/heap.ts',
    find: 'after !== undefined && at + bytes === after.at',
    replace: 'after !== undefined && at + bytes <= after.at',
    tests: ['test/device/cpu-heap.test.ts'],
  },
  {
    name: 'a plan gives a slot away while somebody still reads it',
    file: 'src/tensor/schedule.ts',
    find: 'other.to < from || other.from > to',
    replace: 'other.to <= from || other.from > to',
    tests: ['test/tensor/plan.test.ts'],
  },
  {
    name: 'WebGPU writes all uniforms of a submission to one place',
    file: 'src/device/webgpu/encode.ts',
    find: 'offset += slotOf(command)',
    replace: 'offset += 0',
    tests: ['test/device/contract.gpu.test.ts', 'test/device/webgpu.gpu.test.ts'],
    project: 'lavapipe',
  },
  {
    name: 'the barrier of the native pool opens without handing over what was written',
    file: 'native/cpu/runtime.c',
    find: 'atomic_fetch_add(&pool->opened, 1)',
    replace: 'atomic_fetch_add_explicit(&pool->opened, 1, memory_order_relaxed)',
    tests: ['test/device/pool-race.test.ts'],
  },
  {
    name: 'a native dispatch forgets that its range begins inside a buffer',
    file: 'src/device/cpu/native/encode.ts',
    find: 'return this.addressOf(buffer.memory) + offset',
    replace: 'return this.addressOf(buffer.memory) + 0 * offset',
    tests: ['test/device/native.test.ts', 'test/device/native-run.test.ts'],
  },
  {
    name: 'a BLAS library gets rows of a transposed matrix from the wrong place',
    file: 'native/cpu/blas.h',
    find: 'row * (p->transpose_a ? 1 : k)',
    replace: 'row * k',
    tests: ['test/device/blas.test.ts'],
  },
  {
    name: 'set-up compiles only what models of one weight format run',
    file: 'src/llm/kernel-list.ts',
    find: '[packed?.scaled, name])).values()]',
    replace: "[packed?.scaled, name])).values()].filter((name) => name === 'f32')",
    tests: ['test/conformance/coverage.test.ts'],
  },
]
