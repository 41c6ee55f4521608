// Faults of 64-bit floats, and of elements in memory.

/** @type {readonly import('../mutations.js').Mutation[]} */
export const ELEMENT = [
  {
    name: 'constants of 64 bits are rounded to 32',
    file: 'src/ir/build.ts',
    find: "scalar === 'f32' ? Math.fround(number) : value",
    replace: 'isFloat(scalar) ? Math.fround(number) : value',
    tests: ['test/ir/double.test.ts', 'test/emit/double.test.ts'],
  },
  {
    name: 'an f64 becomes an f16 by way of the nearest f32',
    file: 'src/ir/decompose.ts',
    find: "return back.eq(x).select(near, down.or(1).as('f32'))",
    replace: 'return near',
    tests: ['test/ir/double.test.ts', 'test/emit/double.test.ts'],
  },
  {
    name: 'WebAssembly takes the upper word of the first comparison for the second',
    file: 'src/emit/wasm/cast.ts',
    find: '[0, 8, 0, 8].flatMap(',
    replace: '[0, 4, 0, 4].flatMap(',
    tests: ['test/emit/double.test.ts', 'test/emit/wasm-random.test.ts'],
  },
  {
    name: 'WebAssembly spreads an f64 over one lane',
    file: 'src/emit/wasm/access.ts',
    find: "if (held === 'f64') return void speaker.f.emit('v128.load64_splat'",
    replace: "if (held === 'f64') return void speaker.f.emit('v128.load64_zero'",
    tests: ['test/emit/wasm-random.test.ts', 'test/emit/double.test.ts'],
  },
  {
    name: 'vectors of f64 are cut as if four fitted a register',
    file: 'src/ir/pass/widen.ts',
    find: 'const count = Math.min(limitOf(dtype), ...vectors.map((operand) => limitOf(operand.dtype)))',
    replace: 'const count = limitOf(dtype)',
    tests: ['test/ir/double.test.ts', 'test/ir/pass-random.test.ts'],
  },
  {
    name: 'memory of four f64 is indexed as if it held single ones',
    file: 'src/ir/pass/widen.ts',
    find: 'scattered.has(mem) ? first.mul(widthOf(dtype)) : first',
    replace: 'first',
    tests: ['test/ir/double.test.ts', 'test/emit/double.test.ts'],
  },
  {
    name: 'C selects between vectors of f64 by masks of which half the bits are missing',
    file: 'native/cpu/prelude-f64.h',
    find: '_choose(__builtin_convertvector(m, i64x##N), a, b); } \\',
    replace: '_choose(__builtin_convertvector(m, i64x##N) & 0xffffffff, a, b); } \\',
    tests: ['test/emit/double.test.ts', 'test/emit/c-random.test.ts'],
  },
  {
    name: 'an f64 next to -2^31 becomes it in C',
    file: 'native/cpu/prelude-f64.h',
    find: 'x > -2147483649.0 ? (int32_t)x',
    replace: 'x > -2147483647.0 ? (int32_t)x',
    tests: ['test/emit/double.test.ts'],
  },
  {
    name: 'threads do not give modules the functions of f64',
    file: 'src/device/cpu/wasm/thread.ts',
    find: '{ env: { memory }, math: Math }',
    replace: '{ env: { memory } }',
    tests: ['test/device/cpu.test.ts'],
  },
  {
    name: 'a shader may be asked for 64-bit floats',
    file: 'src/ir/pass/index.ts',
    find: 'target.double === undefined && usesDouble(kernel)',
    replace: 'target.double === null && usesDouble(kernel)',
    tests: ['test/emit/double.test.ts'],
  },
  {
    name: 'bf16 is cut instead of rounded where a double lies between two floats',
    file: 'src/base/element.ts',
    find: '(Math.abs(float[0]) > Math.abs(x) ? word - 1 : word) | 1',
    replace: 'word',
    tests: ['test/base/element.test.ts'],
  },
  {
    name: 'whole numbers past 53 bits are rounded in silence',
    file: 'src/base/element.ts',
    find: 'if (sum - upper !== low[2 * i]!)',
    replace: 'if (Number.isNaN(sum))',
    tests: ['test/base/element.test.ts'],
  },
]
