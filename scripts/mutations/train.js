// Faults in optimisers, adapters, and steps of training.

/** @type {readonly import('../mutations.js').Mutation[]} */
export const TRAIN = [
  {
    name: 'the first momentum is dampened',
    file: 'src/nn/optim.ts',
    find: 'count.isFirst.where(slope, later)',
    replace: 'later',
    tests: ['test/nn/optim.test.ts'],
  },
  {
    name: 'lion keeps the mean that it steps by',
    file: 'src/nn/optim.ts',
    find: 'state: { mean: mix(mean, g, beta2) }',
    replace: 'state: { mean: mix(mean, g, beta1) }',
    tests: ['test/nn/optim.test.ts'],
  },
  {
    name: 'clipping makes short gradients longer',
    file: 'src/nn/optim.ts',
    find: '.minimum(1)',
    replace: '.minimum(1e9)',
    tests: ['test/nn/optim.test.ts'],
  },
  {
    name: 'packed sequences see each other',
    file: 'src/nn/attention.ts',
    find: 'column.le(row).and(begun)',
    replace: 'column.le(row)',
    tests: ['test/nn/attention.test.ts'],
  },
  {
    name: 'a part of a matrix has the first rows of its adapter',
    file: 'src/nn/linear.ts',
    find: 'b.slice([from, from + out])',
    replace: 'b.slice([0, out])',
    tests: ['test/nn/lora.test.ts'],
  },
  {
    name: 'a layer that has a bias and an adapter loses the bias',
    file: 'src/nn/linear.ts',
    find: 'return bias === undefined ? y : y.add(bias)',
    replace: 'return y',
    tests: ['test/nn/lora.test.ts'],
  },
  {
    name: 'gradients of several batches are added up',
    file: 'src/train/step.ts',
    find: 'number(1 / batches.length)',
    replace: 'number(1)',
    tests: ['test/train/step.test.ts'],
  },
  {
    name: 'a tile of the loss begins where another one ends',
    file: 'src/train/loss.ts',
    find: '[tile * rows, Math',
    replace: '[tile * rows + 1, Math',
    tests: ['test/train/memory.test.ts'],
  },
  {
    name: 'rows of a later tile see what comes after them',
    file: 'src/nn/attention.ts',
    find: 'from === 0 ? index : index.add(from)',
    replace: 'index',
    tests: ['test/nn/attention.test.ts'],
  },
  {
    name: 'layers are kept though they were to be computed again',
    file: 'src/nn/layer.ts',
    find: 'recomputes && i <',
    replace: '!recomputes && i <',
    tests: ['test/train/memory.test.ts'],
  },
  {
    name: 'predicting the last id of a prompt counts',
    file: 'src/train/batch.ts',
    find: 'at + 1 < prompt',
    replace: 'at + 2 < prompt',
    tests: ['test/train/step.test.ts'],
  },
  {
    name: 'rows of keys are swapped by the heads of queries',
    file: 'src/llm/adapter/peft.ts',
    find: "part === 'attn_k' ? kvHeads : 0",
    replace: "part === 'attn_k' ? heads : 0",
    tests: ['test/llm/adapter.test.ts'],
  },
]
