// Random programs that run: every register is written before it is read, loops end, lanes keep to their own memory or wait for each other.
// They use most of the instruction set, and what they leave is comparable: integers to the last bit, floats within a tolerance. So no
// float decides where to go, none becomes an integer, and none grows beyond LIMIT; and what devices round in their own ways (functions,
// quotients, sums of products) goes into an accumulator that nothing else is computed from.
import * as fc from 'fast-check'
import { type ProgramWriter, type Register, computedAt, indirectAt, program } from '../../src/atlas/build.ts'
import type { AtlasProgram } from '../../src/atlas/program.ts'
import { type AtlasType, isIntegerType } from '../../src/atlas/type.ts'

const INTEGER = ['add', 'sub', 'mul', 'min', 'max', 'and', 'or', 'xor', 'div', 'abs', 'neg', 'not', 'mad'] as const
/** Of these, every device gives the same bits. */
const FLOAT = ['add', 'sub', 'mul', 'min', 'max', 'abs', 'neg', 'mad'] as const
/** Of a number from -1 to 1, and of one from 1 to 2. */
const BOUNDED = ['exp', 'sin', 'cos', 'tan', 'tanh', 'sigmoid', 'fma'] as const
const POSITIVE = ['sqrt', 'rsqrt', 'log', 'log2', 'log10', 'div'] as const
const REDUCTIONS = ['reduceAdd', 'reduceMin', 'reduceMax', 'reduceMul'] as const
const CONDITIONS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'ltu', 'leu', 'gtu', 'geu'] as const
const CONTROL = ['loop', 'branch', 'call', 'skip', 'tangle'] as const

/** Registers that are watched, lanes, and bytes that a lane has in every buffer. */
export const SLOTS = 6
export const LANES = 8
/** A slot for each of the registers, and for the accumulators of f32 and f64. */
export const LANE_BYTES = 8 * (SLOTS + 2)
export const BLOCK = LANES / 2
/** The size that floats are cut to: the product of two such is still an f16. */
const LIMIT = 100

/** A step of a program: what it does with which of the registers that there are. */
export type Step =
  | { readonly kind: 'integer'; readonly op: (typeof INTEGER)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'float'; readonly op: (typeof FLOAT)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'function'; readonly op: (typeof BOUNDED | typeof POSITIVE)[number]; readonly a: number }
  | { readonly kind: 'reduce'; readonly op: (typeof REDUCTIONS)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'shift'; readonly op: 'shl' | 'shr'; readonly a: number; readonly by: number }
  | { readonly kind: 'convert'; readonly to: number; readonly a: number }
  | { readonly kind: 'choose'; readonly condition: (typeof CONDITIONS)[number]; readonly a: number; readonly b: number }
  | { readonly kind: 'class' | 'pool' | 'handle' | 'exchange' | 'boundary'; readonly a: number; readonly b: number }
  | { readonly kind: (typeof CONTROL)[number]; readonly times: number; readonly a: number; readonly body: readonly Step[] }

export function steps(): fc.Arbitrary<readonly Step[]> {
  const which = fc.nat(SLOTS - 1)
  const { list } = fc.letrec<{ step: Step; list: readonly Step[] }>((tie) => ({
    step: fc.oneof(
      { maxDepth: 2, depthSize: 'small' },
      fc.record({ kind: fc.constant('integer'), op: fc.constantFrom(...INTEGER), a: which, b: which }),
      fc.record({ kind: fc.constant('float'), op: fc.constantFrom(...FLOAT), a: which, b: which }),
      fc.record({ kind: fc.constant('function'), op: fc.constantFrom(...BOUNDED, ...POSITIVE), a: which }),
      fc.record({ kind: fc.constant('reduce'), op: fc.constantFrom(...REDUCTIONS), a: which, b: which }),
      fc.record({ kind: fc.constant('shift'), op: fc.constantFrom('shl', 'shr'), a: which, by: fc.nat(70) }),
      fc.record({ kind: fc.constant('convert'), to: which, a: which }),
      fc.record({ kind: fc.constant('choose'), condition: fc.constantFrom(...CONDITIONS), a: which, b: which }),
      fc.record({ kind: fc.constantFrom('class', 'pool', 'handle', 'exchange', 'boundary'), a: which, b: which }),
      fc.record({ kind: fc.constantFrom(...CONTROL), times: fc.nat(3), a: which, body: tie('list') }),
    ),
    list: fc.array(tie('step'), { minLength: 1, maxLength: 5 }),
  }))
  return list
}

/** Loads registers of every type, works on them, and stores them again: integers to buffer 1, floats to buffer 2. */
export function programOf(list: readonly Step[], types: readonly AtlasType[]): AtlasProgram {
  return program((p) => {
    const handle = p.movImm('u64', 1)
    const start = p.mul(p.globalLane, p.movImm('u64', LANE_BYTES))
    const offset = p.register('u64')
    const at = (bytes: number): Register<'u64'> => {
      p.movImm('u64', bytes, offset)
      return p.add(start, offset, offset)
    }
    const registers = Array.from({ length: SLOTS }, (_, slot): Register => {
      const type = types[slot % types.length] ?? 'u32'
      const held = p.ldg('u32', computedAt(handle, at(8 * slot)))
      // any bits are an integer; floats are made of small ones, so that they stay finite
      if (isIntegerType(type)) return Reflect.apply(p.cvt, p, [type, held])
      const small = p.shr(p.cvt('i32', held), p.movImm('u32', 24))
      return Reflect.apply(p.cvt, p, [type, small])
    })
    const totals = (['f32', 'f64'] as const)
      .filter((type) => types.includes(type))
      .map((type): Register => Reflect.apply(p.movImm, p, [type, 0]))
    const writing = new Writing(p, registers, totals, start)
    // what goes through a dispatch loop has no barriers
    writing.write(list, !list.some(isTangled))
    const [word, wide, number, upper] = [p.register('u32'), p.register('u64'), p.register('f32'), p.movImm('u32', 32)]
    ;[...registers, ...totals].forEach((register, slot) => {
      if (isIntegerType(register.type)) {
        Reflect.apply(p.cvt, p, ['u64', register, wide])
        p.stg(p.cvt('u32', wide, word), computedAt(handle, at(8 * slot)))
        p.shr(wide, upper, wide)
        p.stg(p.cvt('u32', wide, word), computedAt(handle, at(8 * slot + 4)))
      } else {
        // floats as what any device can store
        Reflect.apply(p.cvt, p, ['f32', register, number])
        p.stg(number, computedAt(p.movImm('u64', 2, wide), at(8 * slot)))
      }
    })
    p.exit()
    writing.finish()
  })
}

/** Writes steps; registers of a type take turns as results. */
class Writing {
  readonly #p: ProgramWriter
  readonly #registers: readonly Register[]
  /** accumulators */
  readonly #totals: readonly Register[]
  readonly #start: Register<'u64'>
  readonly #scratch = new Map<string, Register>()
  #next = 0
  #labels = 0
  readonly #later: (() => void)[] = []

  constructor(p: ProgramWriter, registers: readonly Register[], totals: readonly Register[], start: Register<'u64'>) {
    this.#p = p
    this.#registers = registers
    this.#totals = totals
    this.#start = start
  }

  /** `isUniform`: all lanes come by here. */
  write(list: readonly Step[], isUniform = false): void {
    for (const step of list) this.#step(step, isUniform)
  }

  /** What calls lead to, behind the end. */
  finish(): void {
    for (let write = this.#later.shift(); write !== undefined; write = this.#later.shift()) write()
  }

  #of(type: AtlasType, at: number): Register {
    const all = this.#registers.filter((register) => register.type === type)
    const found = all[at % all.length]
    if (found === undefined) throw new Error(`no register of ${type}`)
    return found
  }

  #some(at: number, accepts: (type: AtlasType) => boolean): Register {
    const all = this.#registers.filter(({ type }) => accepts(type))
    const found = all[at % all.length]
    if (found === undefined) throw new Error('no register')
    return found
  }

  /** A register for the moment, one for each type and use: there are only 252. */
  #spare<T extends AtlasType>(type: T, use = ''): Register<T> {
    const key = `${type} ${use}`
    const made = this.#scratch.get(key) ?? this.#p.register(type)
    this.#scratch.set(key, made)
    return made as Register<T>
  }

  #constant<T extends AtlasType>(type: T, value: number, use = ''): Register<T> {
    return this.#call('movImm', type, value, this.#spare(type, `constant${use}`)) as Register<T>
  }

  /** An instruction by name, with arguments that fit: the types are those of the registers. */
  #call(op: string, ...given: readonly unknown[]): Register {
    return Reflect.apply(Reflect.get(this.#p, op) as (...given: readonly unknown[]) => Register, this.#p, given)
  }

  #step(step: Step, isUniform: boolean): void {
    switch (step.kind) {
      case 'integer': {
        const a = this.#some(step.a, isIntegerType)
        return this.#arithmetic(step.op, a, this.#of(a.type, step.b))
      }
      case 'float': {
        const a = this.#some(step.a, (type) => !isIntegerType(type))
        const into = this.#of(a.type, this.#next)
        this.#arithmetic(step.op, a, this.#of(a.type, step.b))
        this.#call('min', into, this.#constant(a.type, LIMIT), into)
        this.#call('max', into, this.#constant(a.type, -LIMIT, 'low'), into)
        return undefined
      }
      case 'function':
        return this.#function(step.op, this.#some(step.a, isFunctionType))
      case 'reduce':
        return this.#reduce(step.op, this.#some(step.a, isReduced), step.b)
      case 'shift': {
        const a = this.#some(step.a, isIntegerType)
        this.#call(step.op, a, this.#constant('u32', step.by), this.#of(a.type, this.#next++))
        return undefined
      }
      case 'convert': {
        // not from floats to integers: what is a little off may be another whole number
        const { type } = this.#registers[step.to % this.#registers.length] ?? { type: 'u32' }
        const a = this.#some(step.a, isIntegerType)
        const small = isIntegerType(type) ? a : this.#call('and', a, this.#constant(a.type, 63), this.#spare(a.type))
        this.#call('cvt', type, small, this.#of(type, this.#next++))
        return undefined
      }
      case 'choose': {
        const a = this.#some(step.a, isIntegerType)
        const b = this.#of(a.type, step.b)
        const condition = this.#call('set', step.condition, a, b, { kind: 'predicate', index: 0 })
        this.#call('sel', condition, a, b, this.#of(a.type, this.#next++))
        return undefined
      }
      case 'class':
      case 'pool':
      case 'handle':
      case 'exchange':
      case 'boundary':
        return this.#memory(step.kind, step.a, step.b, isUniform)
      default:
        return this.#control(step)
    }
  }

  #arithmetic(op: string, a: Register, b: Register): undefined {
    const into = this.#of(a.type, this.#next++)
    if (op === 'abs' || op === 'neg' || op === 'not') this.#call(op, a, into)
    else if (op === 'mad') this.#call(op, a, b, a, into)
    else if (op === 'div') {
      // by an odd number: never zero
      const odd = this.#call('or', b, this.#constant(a.type, 1), this.#spare(a.type))
      this.#call('div', a, odd, into)
    } else this.#call(op, a, b, into)
    return undefined
  }

  /** Of the tangent of it, which is never large. */
  #function(op: string, a: Register): undefined {
    const near = this.#call('tanh', a, this.#spare(a.type))
    if (!BOUNDED.some((each) => each === op)) this.#call('add', this.#call('abs', near, near), this.#constant(a.type, 1), near)
    if (op === 'fma') this.#call(op, near, near, near, near)
    else if (op === 'div') this.#call(op, this.#constant(a.type, 1), near, near)
    else this.#call(op, near, near)
    return this.#accumulate(near)
  }

  /** Half of what was there before, and this: never large, and no error grows. */
  #accumulate(value: Register): undefined {
    const total = this.#totals.find(({ type }) => type === value.type)
    this.#call('mad', total, this.#constant(value.type, 0.5), value, total)
    return undefined
  }

  /** Of three registers in a row; of floats, their tangents. */
  #reduce(op: string, a: Register, b: number): undefined {
    const row = [0, 1, 2].map((i) => this.#spare(a.type, `row${i}`))
    row.forEach((register, i) => {
      this.#call('mov', this.#of(a.type, b + i), register)
      if (!isIntegerType(a.type)) this.#call('tanh', register, register)
    })
    const isRow = row.every(({ index }, i) => index === (row[0]?.index ?? 0) + i)
    if (!isRow) throw new Error('no registers in a row')
    if (isIntegerType(a.type)) this.#call(op, row[0], 3, this.#of(a.type, this.#next++))
    else this.#accumulate(this.#call(op, row[0], 3, this.#spare(a.type)))
    return undefined
  }

  #memory(kind: 'class' | 'pool' | 'handle' | 'exchange' | 'boundary', at: number, by: number, isUniform: boolean): undefined {
    const p = this.#p
    const a = this.#some(at, isIntegerType)
    const into = this.#of('u32', this.#next++) as Register<'u32'>
    const word = this.#call('cvt', 'u32', a, this.#spare('u32')) as Register<'u32'>
    const long = this.#spare('u64')
    switch (kind) {
      case 'class': {
        const [mine, other, count] = [this.#spare('u8', 'class'), this.#spare('u8', 'other'), this.#spare('u32', 'count')]
        p.clsGet(mine)
        p.mirror(mine, other)
        p.nbrCount(other, count)
        p.nbrGet(other, by, mine)
        p.phaseAdv(700 + by)
        p.phaseGet(into)
        p.add(into, count, into)
        p.cvt('u32', p.boundMap(other, this.#constant('u8', 7 * by), mine, long), count)
        p.add(into, count, into)
        return undefined
      }
      case 'pool': {
        const pool = p.poolAlloc(16, this.#spare('u64', 'pool'))
        const place = this.#constant('u64', 4 * (by % 4))
        p.poolStore(word, pool, place)
        p.poolLoad('u32', pool, place, into)
        p.poolFree(pool)
        return undefined
      }
      case 'handle': {
        // buffer 3 or 4, as the number is even or odd; this lane's place there
        const one = this.#constant('u64', 1)
        this.#call('cvt', 'u64', a, long)
        const handle = p.add(p.and(long, one, long), this.#constant('u64', 3, 'three'), long)
        const place = p.add(this.#start, this.#constant('u64', 8 * by, 'place'), this.#spare('u64', 'offset'))
        const held = p.ldg('u32', computedAt(handle, place), this.#spare('u32', 'held'))
        p.stg(p.add(held, word, held), computedAt(handle, place))
        p.mov(held, into)
        return undefined
      }
      case 'exchange': {
        // what another lane of the block has: all must be here
        if (!isUniform) return undefined
        const four = this.#constant('u32', 4)
        const mine = p.cvt('u64', p.mul(p.laneX, four, this.#spare('u32', 'byte')), long)
        p.sts(word, indirectAt(mine))
        p.barSync(by)
        const last = this.#constant('u32', BLOCK - 1, 'last')
        const other = p.xor(p.laneX, last, this.#spare('u32', 'byte'))
        p.lds('u32', indirectAt(p.cvt('u64', p.mul(other, four, other), long)), into)
        p.memFence('block')
        p.barSync(by)
        return undefined
      }
      case 'boundary': {
        // lanes of a block share the class: only a read, of what nobody writes
        p.ldg('u32', { kind: 'phi', class: 90 + by, page: by, byte: 4 * by }, into)
        p.add(into, word, into)
        return undefined
      }
    }
  }

  #control({ kind, times, a: at, body }: Extract<Step, { body: unknown }>): undefined {
    const p = this.#p
    const label = `label${this.#labels++}`
    const a = this.#some(at, isIntegerType)
    const predicate = { kind: 'predicate', index: 1 } as const
    const compare = (): void => void this.#call('set', 'lt', a, this.#of(a.type, at + 1), predicate)
    switch (kind) {
      case 'loop': {
        const left = p.movImm('u32', times)
        p.label(label)
        this.write(body)
        p.loop(left, label)
        return undefined
      }
      case 'tangle': {
        // some lanes enter the loop in its middle
        const left = p.movImm('u32', times)
        compare()
        p.bra(predicate, `${label}.middle`)
        p.label(label)
        this.write(body)
        p.label(`${label}.middle`)
        this.write(body.slice(1))
        p.loop(left, label)
        return undefined
      }
      case 'call':
        p.call(label)
        this.#later.push(() => {
          p.label(label)
          this.write(body)
          p.ret()
        })
        return undefined
      case 'branch':
      case 'skip':
        compare()
        p.bra(predicate, label)
        this.write(body)
        // a branch has another side, which is left by a jump over it
        if (kind === 'branch') {
          p.bra(null, `${label}.end`)
          p.label(label)
          this.write(body.slice(1))
          p.label(`${label}.end`)
        } else p.label(label)
        return undefined
    }
  }
}

function isTangled(step: Step): boolean {
  return 'body' in step && (step.kind === 'tangle' || step.body.some(isTangled))
}

function isFunctionType(type: AtlasType): boolean {
  return type === 'f32' || type === 'f64'
}

/** What is reduced; f32 and u32 are always among the registers, integers of the others may not be. */
function isReduced(type: AtlasType): boolean {
  return type === 'f32' || type === 'f64' || type === 'i32' || type === 'i64'
}
