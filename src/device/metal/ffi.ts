// Calls into libraries of the system: the small part of a foreign-function interface that the Metal device needs, and koffi
// behind it. Knows nothing of Objective-C or Metal. `node:ffi` or Bun can take koffi's place by implementing `Ffi`.
//
// koffi is an optional dependency and imported only here, only when asked for.

import { IngotError } from '../../base/error.ts'
import { isMissingPackage } from '../core/platform.ts'

/** An address. Addresses are bigints: Objective-C tags some in the top bits. */
export type Address = bigint

/** `size` is MTLSize (three u64), `range` NSRange (two); both go by value. */
export type CType = 'void' | 'pointer' | 'text' | 'u8' | 'i32' | 'u64' | 'i64' | 'bool' | 'f64' | 'size' | 'range'

export interface Size {
  readonly width: number
  readonly height: number
  readonly depth: number
}
export interface Span {
  readonly location: number
  readonly length: number
}

/** What an argument of a type can be. Arrays are passed by address and must not move while they are used. */
export interface ToC {
  readonly void: never
  readonly pointer: Address | ArrayBufferView | null
  readonly text: string
  readonly u8: number
  readonly i32: number
  readonly u64: number | bigint
  readonly i64: number | bigint
  readonly bool: boolean
  readonly f64: number
  readonly size: Size
  readonly range: Span
}

/** What a result of a type is. */
export interface FromC {
  readonly void: undefined
  readonly pointer: Address | null
  readonly text: string | null
  readonly u8: number
  readonly i32: number
  /** a number unless it is past 2^53 */
  readonly u64: number
  readonly i64: number
  readonly bool: boolean
  readonly f64: number
  readonly size: Size
  readonly range: Span
}

export type Arguments<A extends readonly CType[]> = { -readonly [I in keyof A]: ToC[A[I]] }

/** A function of a library. `later` calls it on another thread. */
export interface Foreign<A extends readonly CType[], R extends CType> {
  (...args: Arguments<A>): FromC[R]
  later(...args: Arguments<A>): Promise<FromC[R]>
}

export interface Library {
  /** The same symbol may be declared with several signatures. */
  declare<const A extends readonly CType[], R extends CType>(name: string, args: A, returns: R): Foreign<A, R>
}

export interface Ffi {
  /** Opens a library by path; null is what the process has loaded already. Throws if it cannot be loaded. */
  open(path: string | null): Library
  /** Memory that is not JavaScript's, in place. The caller keeps it alive and drops the view before the memory goes. */
  view(address: Address, bytes: number): Uint8Array<ArrayBuffer>
}

type Koffi = Pick<typeof import('koffi'), 'load' | 'struct' | 'view'>
type KoffiFunction = ReturnType<ReturnType<Koffi['load']>['func']>
type KoffiType = ReturnType<Koffi['struct']> | string

let loaded: Promise<Ffi> | undefined

/** The interface of this runtime; throws `device-unavailable` if there is none. */
export function loadFfi(): Promise<Ffi> {
  loaded ??= importKoffi().then(overKoffi)
  return loaded
}

/** Named by a variable, so that bundles do not need it; so its type has to be said. */
async function importKoffi(): Promise<Koffi> {
  const specifier: string = 'koffi'
  try {
    const module = (await import(/* @vite-ignore */ specifier)) as { default: Koffi }
    return module.default
  } catch (cause) {
    loaded = undefined
    const why = isMissingPackage(cause) ? 'the package koffi is not installed' : `the package koffi does not load: ${String(cause)}`
    throw new IngotError('device-unavailable', why, { op: 'metal', hint: 'npm install koffi', cause })
  }
}

function overKoffi(koffi: Koffi): Ffi {
  const types: Readonly<Record<CType, KoffiType>> = {
    void: 'void',
    pointer: 'void *',
    text: 'str',
    u8: 'uint8',
    i32: 'int32',
    u64: 'uint64',
    i64: 'int64',
    bool: 'bool',
    f64: 'double',
    size: koffi.struct({ width: 'uint64', height: 'uint64', depth: 'uint64' }),
    range: koffi.struct({ location: 'uint64', length: 'uint64' }),
  }
  return {
    open(path) {
      const library = koffi.load(path)
      return {
        declare<const A extends readonly CType[], R extends CType>(name: string, args: A, returns: R): Foreign<A, R> {
          const call = library.func(
            name,
            types[returns],
            args.map((type) => types[type]),
          )
          return Object.assign(call, { later: onAnotherThread<A, R>(call) })
        },
      }
    },
    view: (address, bytes) => new Uint8Array(koffi.view(address, bytes)),
  }
}

function onAnotherThread<A extends readonly CType[], R extends CType>(call: KoffiFunction): Foreign<A, R>['later'] {
  return (...given) =>
    new Promise((resolve, reject) => {
      call.async(...given, (error: unknown, result: FromC[R]) => (error === null || error === undefined ? resolve(result) : reject(error)))
    })
}
