// Methods of neural networks: norms, attention, losses, dropout and recurrent cells. All but the first few are definitions in terms of
// other methods; kernels of their own would only make them faster.

import type { AttentionAttrs, RopeAttrs } from '../node.ts'
import { checkFinite, checkWhole, checkWord, fail, optionsOf } from '../operand.ts'
import type { Axes } from './base.ts'
import { WindowMethods } from './window.ts'

/** What recurrent cells open and close their gates with. */
export type Activation = 'sigmoid' | 'tanh' | 'relu'
const ACTIVATIONS: readonly Activation[] = ['sigmoid', 'tanh', 'relu']
export type Reduction = 'mean' | 'sum' | 'none'
const REDUCTIONS: readonly Reduction[] = ['mean', 'sum', 'none']

export interface AttentionOptions<T> {
  /** added to the scores: [.., rows, columns] */
  readonly mask?: T
  /** a row sees the columns up to its own, counted from the ends of both */
  readonly causal?: boolean
  /** default: one over the root of the size of a head */
  readonly scale?: number
}

export interface CrossEntropyOptions {
  readonly reduction?: Reduction
  /** targets that do not count */
  readonly ignoreIndex?: number
  /** how much of the target is spread over all classes */
  readonly labelSmoothing?: number
}

/**
 * Weights of a cell, for all its gates one after the other: [gates * hidden, input], [gates * hidden, hidden] and two of [gates * hidden].
 */
export interface CellWeights<T> {
  readonly weight: T
  readonly recurrentWeight: T
  readonly bias?: T
  readonly recurrentBias?: T
}

/** Scales of a norm, [channels] along `axis` (default 1). */
export interface NormOptions<T> {
  readonly weight?: T
  readonly bias?: T
  readonly axis?: number
  readonly eps?: number
}
export interface LstmOptions<T> {
  /** weights from the cell to its gates: [3 * hidden], input, output, forget */
  readonly peephole?: T
  readonly activations?: readonly [gate: Activation, inner: Activation, outer: Activation]
}
/** Where the rows of a step lie in caches of pages. */
export interface RowPlaces<T> {
  /** [n]: each row's place in its sequence */
  readonly positions: T
  /** [n]: the row of the table that its sequence has */
  readonly slots: T
  /** [slots, pages of a sequence]: which pages of the cache they are */
  readonly table: T
}

/** What long short-term memory hands on. */
export interface Memory<T> {
  readonly state: T
  readonly cell: T
}

export abstract class NetworkMethods extends WindowMethods {
  /** x over the root of its mean square, along the last axis */
  rmsNorm(weight?: this, eps = 1e-5): this {
    return this.apply('norm', weight ? [this, weight] : [this], { kind: 'rms', eps, weight: weight !== undefined, bias: false })
  }
  /** x less its mean, over its deviation, along the last axis, or all that `weight` has */
  layerNorm(weight?: this, bias?: this, eps = 1e-5): this {
    this.checkTensors('layerNorm', [], [weight, bias])
    const axes = Math.max(1, (weight ?? bias)?.rank ?? 1)
    if (axes > 1) {
      const flat = (tensor: this | undefined): this | undefined => tensor?.reshape(tensor.size)
      return this.flatten(-axes)
        .layerNorm(flat(weight), flat(bias), eps)
        .reshape(...this.shape)
    }
    const scales = [weight, bias].filter((tensor) => tensor !== undefined)
    return this.apply('norm', [this, ...scales], { kind: 'layer', eps, weight: weight !== undefined, bias: bias !== undefined })
  }
  /** x less its mean, over its deviation, along any axes */
  standardize(axes: Axes, eps = 1e-5): this {
    checkFinite('standardize', 'eps', eps, 0)
    const centred = this.sub(this.mean(axes, true))
    return centred.mul(centred.square().mean(axes, true).add(eps).rsqrt())
  }
  /** By mean and variance of each channel, which are given: [channels] along `axis`. */
  batchNorm(mean: this, variance: this, options: NormOptions<this> = {}): this {
    const { weight, bias, axis = 1, eps = 1e-5 } = optionsOf('batchNorm', options)
    this.checkTensors('batchNorm', [mean, variance], [weight, bias])
    checkFinite('batchNorm', 'eps', eps, 0)
    const normal = this.floats('batchNorm')
      .sub(this.#channels(mean, axis))
      .mul(this.#channels(variance.add(eps).rsqrt(), axis))
    return normal.#scaled(weight, bias, axis)
  }
  /** Each channel of each image by itself: [n, c, ...]. */
  instanceNorm(options: NormOptions<this> = {}): this {
    const { weight, bias, axis = 1, eps = 1e-5 } = optionsOf('instanceNorm', options)
    this.checkTensors('instanceNorm', [], [weight, bias])
    const channel = this.axisOf('instanceNorm', axis)
    const rest = this.shape.flatMap((_, each) => (each === 0 || each === channel ? [] : [each]))
    return this.standardize(rest, eps).#scaled(weight, bias, axis)
  }
  /** Channels in groups, each group of each image by itself: [n, c, ...]. */
  groupNorm(groups: number, weight?: this, bias?: this, eps = 1e-5): this {
    const [n = 1, channels = 1] = this.shape
    this.checkTensors('groupNorm', [], [weight, bias])
    checkWhole('groupNorm', 'the number of groups', groups, 1, channels)
    if (channels % groups !== 0) fail('groupNorm', 'channels do not fall into groups', channels, `a multiple of ${groups}`)
    const normal = this.reshape(n, groups, -1)
      .standardize(-1, eps)
      .reshape(...this.shape)
    return normal.#scaled(weight, bias, 1)
  }
  /** x over the root of its sum of squares along an axis, which is `eps` at least */
  l2Normalize(axis = -1, eps = 1e-12): this {
    return this.div(this.l2Norm(axis, true).maximum(eps))
  }
  /** [channels] as a tensor that broadcasts along an axis of this one */
  #channels(values: this, axis: number): this {
    const at = this.axisOf('norm', axis)
    return values.reshape(...this.shape.map((_, each) => (each === at ? values.size : 1)))
  }
  #scaled(weight: this | undefined, bias: this | undefined, axis: number): this {
    const weighted = weight === undefined ? this : this.mul(this.#channels(weight, axis))
    return bias === undefined ? weighted : weighted.add(this.#channels(bias, axis))
  }

  /** Attention of queries [.., heads, rows, dim] to keys and values [.., kvHeads, columns, dim]; several heads may share keys. */
  scaledDotProductAttention(keys: this, values: this, options: AttentionOptions<this> = {}): this {
    const { mask, causal = false, scale } = optionsOf('attention', options)
    this.checkTensors('attention', [keys, values], [mask])
    if (Math.min(this.rank, keys.rank, values.rank) < 2)
      fail('attention', 'too few axes', [this, keys, values].map(({ form }) => form).join(' and '), '[.., heads, rows, dim]')
    const [heads, kvHeads] = [this.shape.at(-3) ?? 1, keys.shape.at(-3) ?? 1]
    if (heads % kvHeads !== 0) fail('attention', 'heads do not share keys evenly', heads, `a multiple of ${kvHeads}`)
    const group = heads / kvHeads
    const [rows, columns, dim] = [this.shape.at(-2) ?? 1, keys.shape.at(-2) ?? 1, this.shape.at(-1) ?? 1]
    const grouped = this.reshape(...this.shape.slice(0, -3), kvHeads, group, rows, dim)
    const scores = grouped.matmul(keys.unsqueeze(-3).transpose()).mul(scale ?? 1 / Math.sqrt(dim)) // [.., kvHeads, group, rows, columns]
    const masked = mask === undefined ? scores : scores.add(mask)
    const [row, column] = [this.indices([rows, columns], 0), this.indices([rows, columns], 1)]
    const seen = causal
      ? column
          .to('i32')
          .le(row.to('i32').add(columns - rows))
          .where(masked, -Infinity)
      : masked
    const mixed = seen.softmax().matmul(values.unsqueeze(-3))
    return mixed.reshape(...this.shape.slice(0, -1), values.shape.at(-1) ?? 1)
  }

  /** How badly logits [n, classes] (this) predict targets [n], which are class ids. */
  crossEntropy(target: this, options: CrossEntropyOptions = {}): this {
    const { reduction = 'mean', ignoreIndex = -100, labelSmoothing = 0 } = optionsOf('crossEntropy', options)
    this.checkTensors('crossEntropy', [target])
    checkWord('crossEntropy', 'reduction', reduction, REDUCTIONS)
    checkFinite('crossEntropy', 'the label smoothing', labelSmoothing, 0)
    const [rows = 1, classes = 1] = this.shape
    if (this.rank !== 2 || target.size !== rows)
      fail('crossEntropy', 'wrong shape of the targets', target.shape, `[${rows}] for ${this.form}`)
    const ids = target.to('i32').reshape(rows)
    const counts = ids.ne(ignoreIndex)
    const logs = this.logSoftmax(-1)
    const taken = logs.gatherElements(counts.where(ids, 0).reshape(rows, 1), 1).reshape(rows)
    const smooth = labelSmoothing === 0 ? taken : taken.mul(1 - labelSmoothing).add(logs.sum(-1).mul(labelSmoothing / classes))
    const losses = counts.where(smooth.neg(), 0)
    if (reduction === 'none') return losses
    return reduction === 'sum' ? losses.sum() : losses.sum().div(counts.to('f32').sum()).to(losses.elementType('crossEntropy'))
  }
  /** The squared difference from a target. */
  mse(target: this, reduction: Reduction = 'mean'): this {
    return this.sub(target).square().#reduced(reduction)
  }
  /** How far logarithms of probabilities (this) are from a target distribution, or from its logarithms. */
  klDiv(target: this, options: { reduction?: Reduction | 'batchmean'; logTarget?: boolean } = {}): this {
    const { reduction = 'mean', logTarget = false } = optionsOf('klDiv', options)
    this.checkTensors('klDiv', [target])
    const losses = logTarget
      ? target.exp().mul(target.sub(this))
      : target.gt(0).where(target.mul(target.maximum(Number.MIN_VALUE).log().sub(this)), target.mul(this).neg())
    return reduction === 'batchmean' ? losses.sum().div(this.shape[0] ?? 1) : losses.#reduced(reduction)
  }
  #reduced(reduction: Reduction): this {
    checkWord('loss', 'reduction', reduction, REDUCTIONS)
    return reduction === 'none' ? this : reduction === 'sum' ? this.sum() : this.mean()
  }

  #cellWeights(op: string, state: this, weights: CellWeights<this>): CellWeights<this> {
    const { weight, recurrentWeight, bias, recurrentBias } = optionsOf(op, weights)
    this.checkTensors(op, [state, weight, recurrentWeight], [bias, recurrentBias])
    return weights
  }
  /** A step of a gated recurrent unit: this [n, input] and the state [n, hidden] give the next state. Gates: update, reset, new. */
  gruCell(
    state: this,
    weights: CellWeights<this>,
    options: { resetAfter?: boolean; activations?: readonly [gate: Activation, inner: Activation] } = {},
  ): this {
    const { weight, recurrentWeight, bias, recurrentBias } = this.#cellWeights('gruCell', state, weights)
    const { resetAfter = true, activations: [gate, inner] = ['sigmoid', 'tanh'] } = optionsOf('gruCell', options)
    for (const each of [gate, inner]) checkWord('gruCell', 'activation', each, ACTIVATIONS)
    const hidden = state.shape.at(-1) ?? 1
    const part = (tensor: this | undefined, i: number): this | undefined => tensor?.narrow(0, i * hidden, hidden)
    const plus = (x: this, b: this | undefined): this => (b === undefined ? x : x.add(b))
    const from = (x: this, w: this, b: this | undefined, i: number): this =>
      plus(x.matmul(w.narrow(0, i * hidden, hidden).transpose()), part(b, i))
    const sum = (i: number): this => from(this, weight, bias, i).add(from(state, recurrentWeight, recurrentBias, i))
    const [update, reset] = [sum(0)[gate](), sum(1)[gate]()]
    const seen = resetAfter
      ? reset.mul(from(state, recurrentWeight, recurrentBias, 2))
      : from(reset.mul(state), recurrentWeight, recurrentBias, 2)
    const next = from(this, weight, bias, 2).add(seen)[inner]()
    return update.mul(state).add(next.sub(update.mul(next)))
  }
  /**
   * A step of long short-term memory: this [n, input], the state and the cell [n, hidden] give the next two. Gates: input, output, forget,
   * cell.
   */
  lstmCell(state: this, cell: this, weights: CellWeights<this>, options: LstmOptions<this> = {}): Memory<this> {
    const { weight, recurrentWeight, bias, recurrentBias } = this.#cellWeights('lstmCell', state, weights)
    const { peephole, activations: [gate, inner, outer] = ['sigmoid', 'tanh', 'tanh'] } = optionsOf('lstmCell', options)
    this.checkTensors('lstmCell', [cell], [peephole])
    for (const each of [gate, inner, outer]) checkWord('lstmCell', 'activation', each, ACTIVATIONS)
    const hidden = state.shape.at(-1) ?? 1
    const sums = [this.matmul(weight.transpose()), state.matmul(recurrentWeight.transpose()), bias, recurrentBias]
    const all = sums.filter((each) => each !== undefined).reduce((a, b) => a.add(b)) // [n, 4 * hidden]
    const part = (i: number): this => all.narrow(-1, i * hidden, hidden)
    const seen = (x: this, i: number, from: this): this =>
      peephole === undefined ? x : x.add(peephole.narrow(0, i * hidden, hidden).mul(from))
    const [input, forget] = [seen(part(0), 0, cell)[gate](), seen(part(2), 2, cell)[gate]()]
    const next = forget.mul(cell).add(input.mul(part(3)[inner]()))
    const output = seen(part(1), 1, next)[gate]()
    return { state: output.mul(next[outer]()), cell: next }
  }

  // of language models

  /** x [n, heads * dim] turned by positions [n] times frequencies */
  rope(positions: this, freqs: this, attrs: RopeAttrs): this {
    return this.apply('rope', [this, positions, freqs], optionsOf('rope', attrs))
  }
  /** This cache [heads, pages * 64, dim] after writing `x` [n, heads * dim], in place, where the rows' sequences have their pages. */
  cacheWrite(x: this, places: RowPlaces<this>): this {
    const { positions, slots, table } = optionsOf('cacheWrite', places)
    return this.apply('cacheWrite', [this, x, positions, slots, table], { heads: this.shape[0] ?? 1 })
  }
  /** Attention of this [n, heads * dim] over caches [kvHeads, pages * 64, dim]; a row sees its sequence up to its position. */
  cachedAttention(keys: this, values: this, places: RowPlaces<this>, attrs: AttentionAttrs): this {
    const { positions, slots, table } = optionsOf('attention', places)
    return this.apply('attention', [this, keys, values, positions, slots, table], optionsOf('attention', attrs))
  }
  /** Ids, then value bits, of the k largest of each row. */
  candidates(k: number): this {
    return this.apply('topk', [this], { k })
  }
  /** A token for each row, drawn from its `candidates` by its rule (kernel/select/draw.ts) and its position: [n], u32. */
  draw(rule: this, positions: this): this {
    return this.apply('draw', [this, rule, positions], {})
  }
}
