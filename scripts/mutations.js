// The faults of `npm run mutate`: each is one line that a hurried change could get wrong, and the tests that must notice. To add one, append
// a record: a file, a text that stands in it exactly once, what it becomes, and the tests that should fail. Choose the fastest test that
// has no excuse to miss it. A fault that survives is a missing test: write that first.

/**
 * @typedef {object} Mutation
 * @property {string} name what goes wrong, for people
 * @property {string} file
 * @property {string} find stands in the file exactly once
 * @property {string} replace
 * @property {readonly string[]} tests files of tests, and flags of vitest
 * @property {string} [project] of vitest.config.ts; `main` unless said
 */

const FORMS = ['test/kernel/case.test.ts'] // every form of every family, interpreted
const ATTENTION = ['test/kernel/attention.test.ts']

/** @type {readonly Mutation[]} */
export const MUTATIONS = [
  // kernels
  {
    name: 'minimums of packed Q4_K and Q5_K are 2 % too large',
    file: 'src/quant/packed/blocks-k.ts',
    find: 'total.fma(d, before).sub(least.mul(dmin)',
    replace: 'total.fma(d, before).sub(least.mul(1.02).mul(dmin)',
    tests: FORMS,
  },
  {
    name: 'the second scale of a pair of sub-blocks is that of the first',
    file: 'src/quant/packed/blocks-k.ts',
    find: "return [both.and(255).as('i32'), both.shr(8).and(255).as('i32')]",
    replace: "return [both.and(255).as('i32'), both.and(255).as('i32')]",
    tests: FORMS,
  },
  {
    name: 'int8 activations are cut instead of rounded',
    file: 'src/kernel/bytes.ts',
    find: 'some.mul(inverse).rint()',
    replace: 'some.mul(inverse).trunc()',
    tests: FORMS,
  },
  {
    name: 'a running softmax decays a thousandth too fast',
    file: 'src/kernel/reduce/softmax.ts',
    find: 'value.sub(max).abs().neg().exp()',
    replace: 'value.sub(max).abs().neg().mul(1.001).exp()',
    tests: FORMS,
  },
  {
    name: 'a norm forgets its epsilon',
    file: 'src/kernel/reduce/norm.ts',
    find: 'square.add(p.eps).rsqrt()',
    replace: 'square.rsqrt()',
    tests: FORMS,
  },
  {
    name: 'of equal logits the last one wins',
    file: 'src/kernel/select/argmax.ts',
    find: 'firsts.set(key.gt(before)',
    replace: 'firsts.set(key.ge(before)',
    tests: ['test/kernel/edge.test.ts', ...FORMS],
  },
  {
    name: 'a row that does not exist is read',
    file: 'src/kernel/move/gather.ts',
    find: "k.let('source', ids.at(row).min(last).mul(runs))",
    replace: "k.let('source', ids.at(row).mul(runs))",
    tests: FORMS,
  },
  {
    name: 'a sliding window is one key too long',
    file: 'src/kernel/attention/params.ts',
    find: 'hasFirst.select(last.sub(p.window).add(1)',
    replace: 'hasFirst.select(last.sub(p.window)',
    tests: ATTENTION,
  },
  {
    name: 'the shares of a split attention lose their last block of keys',
    file: 'src/kernel/attention/serial.ts',
    find: 'last.sub(first).add(shares.mul(BLOCK)).sub(1).div(shares.mul(BLOCK))',
    replace: 'last.sub(first).div(shares.mul(BLOCK))',
    tests: ATTENTION,
  },

  // formats
  {
    name: 'a value of the table of IQ4_NL and IQ4_XS is off by one',
    file: 'src/quant/iq4_nl.ts',
    find: '-22, -10, 1, 13',
    replace: '-22, -10, 2, 13',
    tests: ['test/quant/plain.test.ts'],
  },
  {
    name: 'Q6_K is centred on 31',
    file: 'src/quant/q6_k.ts',
    find: '.sub(32)\n        .mul(scales[i >> 2]!)',
    replace: '.sub(31)\n        .mul(scales[i >> 2]!)',
    tests: ['test/quant/plain.test.ts'],
  },
  {
    name: 'repacking drops every eighth of the fifth bits',
    file: 'src/quant/packed/blocks-32.ts',
    find: 'spreadNibble(bits.shr(4 * t).and(15)).shl(t)',
    replace: 'spreadNibble(bits.shr(4 * t).and(t < 7 ? 15 : 0)).shl(t)',
    tests: FORMS,
  },
  {
    name: 'upper bits of the later scales of Q4_K go to the wrong place',
    file: 'src/quant/q4_k.ts',
    find: 'scale: high.select(c.and(15).or(a.shr(6).shl(4)), a.and(63))',
    replace: 'scale: high.select(c.and(15).or(a.shr(6).shl(5)), a.and(63))',
    tests: ['test/quant/plain.test.ts'],
  },

  // the language and its emitters
  {
    name: 'an unsigned remainder by a power of two keeps a bit too few',
    file: 'src/ir/pass/algebra.ts',
    find: "make('and', a, constant(right - 1))",
    replace: "make('and', a, constant((right - 1) >>> 1))",
    tests: ['test/ir/pass-meaning.test.ts', 'test/ir/pass-random.test.ts'],
  },
  {
    name: 'constants lose their ninth digit',
    file: 'src/emit/clike/literal.ts',
    find: 'return decimal(value.toPrecision(9))',
    replace: 'return decimal(value.toPrecision(8))',
    tests: ['test/emit/literal.test.ts'],
  },
  {
    name: 'WebAssembly takes the division of the smallest number by -1 for safe',
    file: 'src/emit/wasm/spell.ts',
    find: 'divisor !== 0 && (divisor | 0) !== -1',
    replace: 'divisor !== 0',
    tests: ['test/emit/wasm-emit.test.ts', 'test/emit/wasm-random.test.ts'],
  },
  {
    name: 'a constant shift in C and MSL is not taken modulo 32',
    file: 'src/emit/clike/spelling.ts',
    find: 'atom(String(count & 31)), LEVEL.shift)',
    replace: 'atom(String(count & 15)), LEVEL.shift)',
    tests: ['test/emit/c.test.ts', 'test/emit/msl.test.ts', 'test/emit/c-random.test.ts'],
  },
  {
    name: 'select in shading languages has its values the wrong way round',
    file: 'src/emit/clike/spelling.ts',
    find: 'select(${b}, ${a}, ${test})',
    replace: 'select(${a}, ${b}, ${test})',
    tests: ['test/emit/wgsl.gpu.test.ts'],
    project: 'swiftshader',
  },

  // devices, and what runs on them
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
    find: 'lastUse.get(child) ?? at) <= at',
    replace: 'lastUse.get(child) ?? at) <= at + 1',
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
    name: 'set-up compiles only what models of one weight format run',
    file: 'src/llm/kernel-list.ts',
    find: '[packed?.scaled, name])).values()]',
    replace: "[packed?.scaled, name])).values()].filter((name) => name === 'f32')",
    tests: ['test/conformance/coverage.test.ts'],
  },

  // files that are damaged or hostile
  {
    name: 'a native library of the right size is loaded whatever it holds',
    file: 'src/device/cpu/native/intact.ts',
    find: 'return hash === sha256 ? undefined',
    replace: "return hash !== '' ? undefined",
    tests: ['test/device/native-run.test.ts'],
  },
  {
    name: 'files are mapped although they should be read',
    file: 'src/llm/weights.ts',
    find: 'tensor.file.path === undefined || !mmap',
    replace: 'tensor.file.path === undefined',
    tests: ['test/llm/model.test.ts', '-t', 'not to be mapped'],
  },
  {
    name: 'who is aborted waits for the turn all the same',
    file: 'src/llm/model.ts',
    find: 'if (!begun) reject(signal.reason)',
    replace: 'if (begun) reject(signal.reason)',
    tests: ['test/llm/model.test.ts', '-t', 'waiting for a turn'],
  },
  {
    name: 'a second close does not wait for the first',
    file: 'src/llm/model.ts',
    find: 'return (this.#closing ??= this.#close())',
    replace: 'return this.#closing !== undefined ? Promise.resolve() : (this.#closing = this.#close())',
    tests: ['test/llm/model.test.ts', '-t', 'second close'],
  },
  {
    name: 'control characters of one byte above 127 reach the terminal',
    file: 'src/base/printable.ts',
    find: '\\\\u007f-\\\\u009f',
    replace: '\\\\u007f',
    tests: ['test/cli/hostile.test.ts'],
  },
  {
    name: 'no clock ends a template',
    file: 'src/llm/jinja-limit.ts',
    find: 'if (this.#now() > this.#until)',
    replace: 'if (this.#now() > Infinity)',
    tests: ['test/llm/template.test.ts', '-t', 'a budget'],
  },
  {
    name: 'a tensor of any shape is taken for a weight',
    file: 'src/llm/model-source.ts',
    find: 'if (!fits) throw',
    replace: 'if (rank > 4) throw',
    tests: ['test/llm/malformed.test.ts'],
  },
  {
    name: 'a small file may ask for a cache of any size',
    file: 'src/llm/model.ts',
    find: 'if (bytes <= most) return',
    replace: 'if (bytes <= most + 2 ** 31) return',
    tests: ['test/llm/malformed.test.ts'],
  },
]
