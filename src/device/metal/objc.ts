// Objective-C from TypeScript: classes and selectors found by name, messages sent through functions prepared once per
// signature (objc_msgSend is not variadic: every call needs its exact prototype). Knows what SELECTORS says and no more of
// Metal.
//
// Ownership is in the types: a message that gives +1 returns an `Owned`, only those can be released, and `retain` makes one.
// Borrowed objects (`Id`) live until the autorelease pool around them is popped; pools never stay open across an await.

import { IngotError } from '../../base/error.ts'
import type { Address, Arguments, CType, Ffi, Foreign, FromC, Library } from './ffi.ts'
import { type ClassName, SELECTORS, type Signature } from './selectors.ts'

/** An object that somebody else keeps alive. */
export type Id = Address
/** An object that must be released, once. */
export type Owned = Id & { readonly __owned: true }

type Result<S extends Signature> = S['returns'] extends 'pointer' ? (S['owned'] extends true ? Owned : Id) | null : FromC[S['returns']]
/** To a class no receiver is given: there is only one. */
type Receiver<S extends Signature> = S['onClass'] extends true ? [] : [receiver: Id]
export interface Message<S extends Signature> {
  (...args: [...Receiver<S>, ...Arguments<S['args']>]): Result<S>
  /** On another thread, which has no autorelease pool: for messages that make nothing but what they return. */
  later(...args: [...Receiver<S>, ...Arguments<S['args']>]): Promise<Result<S>>
}
type Table = typeof SELECTORS
export type Messages = {
  readonly [C in ClassName]: { readonly [S in keyof Table[C]]: Table[C][S] extends Signature ? Message<Table[C][S]> : never }
}

const UTF8 = 4
const encoder = new TextEncoder()

export class Objc {
  readonly messages: Messages
  readonly #sent = { count: 0 }
  readonly #functions = new Map<string, Foreign<readonly CType[], CType>>()
  readonly #library: Library
  readonly #getClass: Foreign<['text'], 'pointer'>
  readonly #selector: Foreign<['text'], 'pointer'>
  readonly #push: Foreign<[], 'pointer'>
  readonly #pop: Foreign<['pointer'], 'void'>
  readonly #retain: Foreign<['pointer'], 'pointer'>
  readonly #release: Foreign<['pointer'], 'void'>

  constructor(ffi: Ffi, path: string) {
    const library = ffi.open(path)
    this.#library = library
    this.#getClass = library.declare('objc_getClass', ['text'], 'pointer')
    this.#selector = library.declare('sel_registerName', ['text'], 'pointer')
    this.#push = library.declare('objc_autoreleasePoolPush', [], 'pointer')
    this.#pop = library.declare('objc_autoreleasePoolPop', ['pointer'], 'void')
    this.#retain = library.declare('objc_retain', ['pointer'], 'pointer')
    this.#release = library.declare('objc_release', ['pointer'], 'void')
    const classes = Object.entries(SELECTORS).map(([name, selectors]) => [
      name,
      Object.fromEntries(Object.entries(selectors).map(([selector, signature]) => [selector, this.#prepare(name, selector, signature)])),
    ])
    this.messages = Object.fromEntries(classes) as Messages // made from the very table that the type is made from
  }

  /** Messages sent since the process started, by all devices. */
  get sent(): number {
    return this.#sent.count
  }

  /** Runs `work` inside an autorelease pool; it must not be asynchronous. */
  pooled<T>(work: () => T): T {
    const pool = this.#push()
    try {
      return work()
    } finally {
      this.#pop(pool)
    }
  }

  retain(object: Id): Owned {
    return this.#retain(object) as Owned // the same object, with one more owner
  }

  release(object: Owned): void {
    this.#release(object)
  }

  /** Runs `work` with an object of its own and releases that. */
  using<T>(object: Owned | null, what: string, work: (object: Owned) => T): T {
    const own = required(object, what)
    try {
      return work(own)
    } finally {
      this.release(own)
    }
  }

  /** An NSString. */
  string(text: string): Owned {
    const { alloc, 'initWithBytes:length:encoding:': init } = this.messages.NSString
    const bytes = encoder.encode(text)
    return required(init(required(alloc(), 'an NSString'), bytes, bytes.length, UTF8), 'an NSString')
  }

  /** The text of an NSString; inside a pool. */
  text(string: Id | null): string {
    return string === null ? '' : (this.messages.NSString.UTF8String(string) ?? '')
  }

  /** What an NSError says; inside a pool. */
  describe(error: Id | null): string {
    return error === null ? '' : this.text(this.messages.NSError.localizedDescription(error))
  }

  responds(object: Id, selector: string): boolean {
    return this.messages.NSObject['respondsToSelector:'](object, this.#selector(selector))
  }

  /** True if the system has the class. */
  has(name: ClassName): boolean {
    return this.#getClass(name) !== null
  }

  #prepare(name: string, selector: string, { args, returns, onClass }: Signature): unknown {
    const call = this.#function(args, returns)
    const number = this.#selector(selector)
    const sent = this.#sent
    if (!onClass) {
      return Object.assign(
        (receiver: Id, ...given: never[]) => {
          sent.count++
          return call(receiver, number, ...given)
        },
        {
          later: (receiver: Id, ...given: never[]) => {
            sent.count++
            return call.later(receiver, number, ...given)
          },
        },
      )
    }
    return (...given: never[]) => {
      sent.count++
      return call(this.#class(name), number, ...given)
    }
  }

  #class(name: string): Id {
    const found = this.#getClass(name)
    if (found === null) throw new IngotError('unsupported', `this system has no ${name}`, { op: 'metal' })
    return found
  }

  #function(args: readonly CType[], returns: CType): Foreign<readonly CType[], CType> {
    const key = `${args.join()}>${returns}`
    const known = this.#functions.get(key)
    if (known !== undefined) return known
    const all: readonly CType[] = ['pointer', 'pointer', ...args]
    const made = this.#library.declare('objc_msgSend', all, returns)
    this.#functions.set(key, made)
    return made
  }
}

/** The object, or an error that says what was not made. */
export function required<T>(object: T | null, what: string): T {
  if (object === null) throw new IngotError('device-failed', `Metal gave no ${what.replace(/^an? /, '')}`, { op: 'metal' })
  return object
}
