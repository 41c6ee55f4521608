// Faults in graphs, gradients and plans.

const ORDER = ['test/tensor/order.test.ts']
const GRADIENT = ['test/tensor/gradient.test.ts']
const DTYPE = ['test/tensor/dtype.test.ts']

/** @type {readonly import('../mutations.js').Mutation[]} */
export const TENSOR = [
  {
    name: 'readers of an old value do not come before what overwrites it',
    file: 'src/tensor/order.ts',
    find: 'const needed = [...before, ...operands',
    replace: 'const needed = [...before.slice(1), ...operands',
    tests: ORDER,
  },
  {
    name: 'a value that is read and overwritten is not copied for who asked for it',
    file: 'src/tensor/order.ts',
    find: 'i < reads && gone.has(valueOf(root)) ? copyOf(root) : root',
    replace: 'i < reads && gone.size < 0 ? copyOf(root) : root',
    tests: ORDER,
  },
  {
    name: 'a map is computed in place whichever way it reads its operand',
    file: 'src/tensor/op/map.ts',
    find: 'return isAll && input.type === attrs.type ?',
    replace: 'return input.type === attrs.type ?',
    tests: ORDER,
  },
  {
    name: 'a slice that goes backwards begins one element too far',
    file: 'src/tensor/view.ts',
    find: 'strides: strides.map((step, axis) => step * (steps[axis] ?? 1)),',
    replace: 'strides: strides.map((step, axis) => step * Math.abs(steps[axis] ?? 1)),',
    tests: ['test/tensor/view.test.ts'],
  },
  {
    name: 'another shape is taken for a view though its axes are no run',
    file: 'src/tensor/view.ts',
    find: 'if (!isRun) return undefined',
    replace: 'if (!isRun && to.length > 3) return undefined',
    tests: ['test/tensor/view.test.ts'],
  },
  {
    name: 'chains keep more digits than the type between them holds',
    file: 'src/tensor/rewrite/chain.ts',
    find: "return type === 'f16' || type === 'bf16' ||",
    replace: 'return',
    tests: ['test/tensor/rewrite.test.ts'],
  },
  {
    name: 'graphs that differ in what is kept share a recipe',
    file: 'src/tensor/recipe.ts',
    find: "${keep(node) ? ' kept' : ''}",
    replace: '',
    tests: ['test/tensor/evaluate.test.ts'],
  },
  {
    name: 'two leaves of one memory are taken for two memories',
    file: 'src/tensor/recipe.ts',
    find: 'const known = storages.get(storage) ?? storages.size',
    replace: 'const known = storages.size',
    tests: ['test/tensor/rewrite.test.ts'],
  },
  {
    name: 'a gradient is not summed over what was broadcast',
    file: 'src/tensor/method/reduce.ts',
    find: 'return axes.length === 0 ? this : this.sum(axes, true).reshape(...shape)',
    replace: 'return axes.length === 0 ? this : this.mean(axes, true).reshape(...shape)',
    tests: GRADIENT,
  },
  {
    name: 'the slope of tanh has the wrong sign',
    file: 'src/kernel/map/slope.ts',
    find: 'tanh: (_, y, n) => [sub(n(1), mul(y, y))]',
    replace: 'tanh: (_, y, n) => [sub(mul(y, y), n(1))]',
    tests: ['test/kernel/slope.test.ts'],
  },
  {
    name: 'a value that is used twice has only one of its gradients',
    file: 'src/tensor/gradient.ts',
    find: 'changes.set(operand, changes.get(operand)?.add(part) ?? part)',
    replace: 'changes.set(operand, part)',
    tests: GRADIENT,
  },
  {
    name: 'a checkpoint keeps what lies inside after all',
    file: 'src/tensor/gradient.ts',
    find: "fixed.has(original) || below.has(original) || node.op === 'leaf' ? original : anonymous(node)",
    replace: 'original',
    tests: GRADIENT,
  },
  {
    name: 'a compiled function does not see what was assigned between calls',
    file: 'src/tensor/compile.ts',
    find: 'if (tensor === undefined || !tensor.isWanted || tensor.node === leaf) return',
    replace: 'if (tensor === undefined || tensor.isWanted) return',
    tests: ['test/tensor/compile.test.ts'],
  },
  {
    name: 'memory of tensors that nobody can reach is not given back',
    file: 'src/tensor/storage.ts',
    find: 'abandoned.register(this, this.#owned, this)',
    replace: 'void abandoned',
    tests: ['test/tensor/evaluate.test.ts'],
  },
  {
    name: 'what joined maps hand each other is not rounded as memory would round it',
    file: 'src/tensor/rewrite/chain.ts',
    find: "return type === 'f16' || type === 'bf16' || type === 'i8'",
    replace: "return type === 'i8'",
    tests: DTYPE,
  },
  {
    name: 'memory of another device is read as if it were the own',
    file: 'src/tensor/storage.ts',
    find: 'if (this.#device === undefined || this.#device === device) return',
    replace: 'if (this.#device === undefined || device !== undefined) return',
    tests: ['test/tensor/device.test.ts'],
  },
  {
    name: 'small integers are multiplied in their own type',
    file: 'src/tensor/method/product.ts',
    find: "const wide = type === 'u32' || type === 'u8' ? 'u32' : 'i32'",
    replace: "const wide = type === 'u32' ? 'f32' : 'i32'",
    tests: DTYPE,
  },
  {
    name: 'differences of unsigned integers are not computed in floats',
    file: 'src/tensor/method/elementwise.ts',
    find: "return isFloatType(this.elementType(op)) ? this : this.to('f32')",
    replace: "return isFloatType(this.elementType(op)) || op !== 'none' ? this : this.to('f32')",
    tests: DTYPE,
  },
  {
    name: 'what defines an operation on doubles is not looked at again',
    file: 'src/tensor/rewrite/double.ts',
    find: '  again: true,\n',
    replace: '',
    tests: DTYPE,
  },
  {
    name: 'what should be a list is not looked at',
    file: 'src/tensor/operand.ts',
    find: 'if (!Array.isArray(value)) fail(op, `${name} is no list`',
    replace: 'if (value === undefined) fail(op, `${name} is no list`',
    tests: ['test/tensor/junk.test.ts'],
  },
]
