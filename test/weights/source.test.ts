import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openGguf } from '../../src/weights/gguf/gguf.ts'
import { fromBlob, fromBytes, openFile, type ByteSource } from '../../src/weights/source.ts'
import { openUrl } from '../../src/weights/source-http.ts'
import { smallFile } from './fixture.ts'

const bytes = smallFile()
let dir = ''
let server: Server
let base = ''

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'source-'))
  await writeFile(join(dir, 'small.gguf'), bytes)
  server = createServer((request, response) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    if (request.url === '/missing') return void response.writeHead(404).end()
    if (request.url === '/whole' || from === undefined) return void response.writeHead(200).end(bytes)
    const range = `bytes ${from}-${to}/${bytes.length}`
    const later = from !== '0'
    if (request.url === '/shifted' && later) return void response.writeHead(206, { 'content-range': 'bytes 0-1/2' }).end()
    if (request.url === '/short' && later) return void response.writeHead(206, { 'content-range': range }).end('x')
    response.writeHead(206, { 'content-range': range }).end(bytes.subarray(Number(from), Number(to) + 1))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
  await rm(dir, { recursive: true })
})

describe.each<[string, () => ByteSource | Promise<ByteSource>]>([
  ['bytes', () => fromBytes(bytes)],
  ['blob', () => fromBlob(new Blob([new Uint8Array(bytes)]))],
  ['file', () => openFile(join(dir, 'small.gguf'))],
  ['url', () => openUrl(`${base}/ok`)],
])('a source over a %s', (_, make) => {
  test('reads ranges, fresh or into an array', async () => {
    const source = await make()
    expect(source.size).toBe(bytes.length)
    expect(await source.read(3, 7)).toEqual(bytes.slice(3, 10))
    expect(await source.read(bytes.length, 0)).toEqual(new Uint8Array(0))
    const into = new Uint8Array(10).fill(7)
    const got = await source.read(0, 4, into)
    expect(got.buffer).toBe(into.buffer)
    expect([...into]).toEqual([0x47, 0x47, 0x55, 0x46, 7, 7, 7, 7, 7, 7])
    const mine = await source.read(0, 4)
    mine[0] = 0
    expect((await source.read(0, 1))[0]).toBe(0x47)
    await source.close()
  })

  test('refuses ranges outside, small arrays, and reads after close', async () => {
    const source = await make()
    const { size } = source
    const outside = [
      [0, size + 1],
      [size, 1],
      [-1, 2],
      [0.5, 1],
      [0, -1],
      [2 ** 53, 1],
      [1, 2 ** 53],
    ] as const
    for (const [offset, length] of outside) {
      await expect(source.read(offset, length)).rejects.toMatchObject({ code: 'out-of-range' })
    }
    await expect(source.read(0, 4, new Uint8Array(3))).rejects.toMatchObject({ code: 'bad-argument' })
    await source.close()
    await source.close()
    await expect(source.read(0, 1)).rejects.toMatchObject({ code: 'closed' })
  })

  test('opens as a model', async () => {
    await using gguf = await openGguf(await make())
    expect([...gguf.tensors.keys()]).toEqual(['a.weight', 'b.weight'])
  })
})

test('a file has its path; a missing one and a folder are typed errors', async () => {
  const file = await openFile(join(dir, 'small.gguf'))
  expect(file.path).toBe(join(dir, 'small.gguf'))
  await file.close()
  await expect(openFile(join(dir, 'none.gguf'))).rejects.toMatchObject({ code: 'bad-file' })
  await expect(openGguf(dir)).rejects.toThrow(/not a regular file/)
})

test('a file that shrank while open is a typed error', async () => {
  const path = join(dir, 'shrinks.gguf')
  await writeFile(path, bytes)
  const file = await openFile(path)
  await writeFile(path, bytes.subarray(0, 10))
  await expect(file.read(0, 20)).rejects.toThrow(/ended early/)
  await file.close()
})

test('servers that misbehave are typed errors', async () => {
  await expect(openUrl(`${base}/missing`)).rejects.toThrow(/HTTP 404/)
  await expect(openUrl(`${base}/whole`)).rejects.toMatchObject({ code: 'unsupported' })
  await expect(openUrl('http://127.0.0.1:1/')).rejects.toMatchObject({ code: 'bad-file' })
  await expect((await openUrl(`${base}/shifted`)).read(4, 4)).rejects.toThrow(/another range/)
  await expect((await openUrl(`${base}/short`)).read(4, 4)).rejects.toMatchObject({ code: 'bad-file' })
  await expect(openUrl(`${base}/ok`, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'cancelled' })
})
