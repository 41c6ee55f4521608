// Faults in the kernel language and its emitters.

/** @type {readonly import('../mutations.js').Mutation[]} */
export const LANGUAGE = [
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
    name: 'wide vectors are zipped in the wrong order',
    file: 'src/ir/pass/widen.ts',
    find: '[a.at(piece), b.at(piece)], half % 2)',
    replace: '[a.at(piece), b.at(piece)], 1 - (half % 2))',
    tests: ['test/emit/wasm-emit.test.ts'],
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
  {
    name: 'lanes side by side take a guard to hold for all where it holds for the first',
    file: 'src/ir/pass/lane-value.ts',
    find: "return { all: make('and', first, last), any: make('or', first, last) }",
    replace: "return { all: first, any: make('or', first, last) }",
    tests: ['test/emit/lanes.test.ts'],
  },
  {
    name: 'a value that carries into the bits of other lanes is taken to grow evenly',
    file: 'src/ir/pass/lane-shape.ts',
    find: 'by * (this.width - 1) < 2 ** Math.min(zeros, 31)',
    replace: 'by < 2 ** Math.min(zeros, 31)',
    tests: ['test/emit/lanes.test.ts'],
  },
  {
    name: 'what a lane has set alone is forgotten',
    file: 'src/ir/pass/lane-apart.ts',
    find: 'if (mem !== undefined && set.has(id))',
    replace: 'if (mem === undefined && set.has(id))',
    tests: ['test/emit/lanes.test.ts'],
  },
]
