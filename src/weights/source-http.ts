// A byte source over HTTP(S): every read is one ranged request. Works in browsers and in Node alike. Keeps nothing on
// disk and retries nothing: that is the downloader's work. Invariant: a server that ignores ranges is refused at once,
// instead of sending a whole model for every read.

import { checkArgument, checkOptions, isString } from '../base/argument.ts'
import { IngotError, messageOf } from '../base/error.ts'
import { closedError, prepareRead, shortRead, type ByteSource } from './source.ts'

/** How to request a URL. */
export interface UrlOptions {
  /** sent with every request: an authorization, for example */
  readonly headers?: Readonly<Record<string, string>>
  /** aborting it rejects reads with `cancelled` */
  readonly signal?: AbortSignal
}

/**
 * Opens a URL for reads by range; asks for one byte to learn the size. Rejects with `unsupported` where the server does not serve
 * ranges or does not say the size, `bad-file` where it cannot be reached or refuses.
 */
export async function openUrl(url: string | URL, options: UrlOptions = {}): Promise<ByteSource> {
  checkArgument('openUrl', 'the URL', url, 'a text or a URL', (value) => isString(value) || value instanceof URL)
  checkOptions('openUrl', options)
  const name = String(url)
  const first = await requestRange(name, 0, 1, options)
  await first.body?.cancel()
  const size = totalOf(first)
  if (size === undefined) {
    throw new IngotError('unsupported', `${name} does not say its size`, {
      op: 'open',
      got: `content-range: ${first.headers.get('content-range') ?? 'none'}`,
      hint: 'download the file first',
    })
  }
  let closed = false
  return {
    size,
    name,
    async read(offset, length, into) {
      if (closed) throw closedError(name)
      const out = prepareRead({ size, name }, offset, length, into)
      if (length === 0) return out
      const response = await requestRange(name, offset, length, options)
      const range = response.headers.get('content-range') ?? 'none'
      if (totalOf(response) !== size || !range.startsWith(`bytes ${offset}-`)) {
        await response.body?.cancel()
        throw new IngotError('bad-file', `${name} sent another range`, {
          op: 'read',
          got: range,
          wanted: `bytes ${offset}-${offset + length - 1}/${size}`,
          hint: 'has it changed on the server?',
        })
      }
      await fill(out, response, name, offset)
      return out
    },
    async close() {
      closed = true
    },
  }
}

/** Streams a body into `out`, so that a large range is never held twice. */
async function fill(out: Uint8Array, response: Response, name: string, offset: number): Promise<void> {
  let done = 0
  try {
    for (const reader = response.body?.getReader(); reader !== undefined;) {
      const { value } = await reader.read()
      if (value === undefined) break
      if (value.length > out.length - done) {
        await reader.cancel()
        throw new IngotError('bad-file', `${name} sent more than was asked for`, { op: 'read', wanted: out.length })
      }
      out.set(value, done)
      done += value.length
    }
  } catch (cause) {
    if (cause instanceof IngotError) throw cause
    throw networkError(name, cause)
  }
  if (done !== out.length) throw shortRead(name, offset, done, out.length)
}

async function requestRange(name: string, offset: number, length: number, options: UrlOptions): Promise<Response> {
  let response: Response
  try {
    response = await fetch(name, {
      headers: { ...options.headers, range: `bytes=${offset}-${offset + length - 1}` },
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    })
  } catch (cause) {
    throw networkError(name, cause)
  }
  if (response.status === 206) return response
  await response.body?.cancel()
  if (response.status === 200) {
    throw new IngotError('unsupported', `${name} does not serve ranges`, { op: 'open', hint: 'download the file first' })
  }
  const got = `HTTP ${response.status} ${response.statusText}`
  throw new IngotError('bad-file', `cannot read ${name}`, { op: 'open', got })
}

function networkError(name: string, cause: unknown): IngotError {
  if (cause instanceof Error && cause.name === 'AbortError') {
    return new IngotError('cancelled', `reading ${name} was cancelled`, { op: 'read', cause })
  }
  return new IngotError('bad-file', `cannot reach ${name}: ${messageOf(cause)}`, { op: 'read', cause })
}

/** `bytes 0-0/1234` -> 1234 */
function totalOf(response: Response): number | undefined {
  const match = /^bytes \d+-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '')
  const total = Number(match?.[1])
  return Number.isSafeInteger(total) ? total : undefined
}
