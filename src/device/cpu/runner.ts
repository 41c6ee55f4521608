// The loop of a worker thread, as WebAssembly: waits for jobs, takes chunks of their entries until none are left, meets the
// other threads at barriers. Threads speak through memory only; no messages pass between the entries of a job, nor between jobs.
// A kernel is called through the import `call`, which catches traps and marks the job as failed; then what is left of it is
// skipped, barriers and all threads stay in step.

import type { FunctionBody } from '../../emit/wasm/body.ts'
import { MOST_PAGES } from '../../emit/wasm/page.ts'
import { WasmModule } from '../../emit/wasm/module.ts'
import { CONTROL, ENTRY, ENTRY_BYTES, JOB, KIND, RING } from './layout.ts'

/** Looks at a word this often before sleeping: a few microseconds, about what waking up costs. */
const SPINS = 4000
const FOREVER = -1n
const EVERYONE = -1

/** The module: `serve(thread, threads)` never returns; `word(address)` reads memory. */
export function buildRunner(): Uint8Array<ArrayBuffer> {
  const module = new WasmModule()
  module.importMemory('env', 'memory', { min: 1, max: MOST_PAGES, shared: true })
  const call = module.importFunction('env', 'call', { params: ['i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'] })
  const tell = module.importFunction('env', 'tell')
  module.function('word', { params: ['i32'], results: ['i32'], export: true }, (f) => f.localGet(0).emit('i32.load'))
  const wait = module.function('wait', { params: ['i32', 'i32'] }, writeWait)
  const barrier = module.function('barrier', { params: ['i32'] }, (f) => writeBarrier(f, wait))
  const take = module.function('take', { params: ['i32', 'i32', 'i32'] }, (f) => writeTake(f, call))
  const job = module.function('job', { params: ['i32', 'i32', 'i32'] }, (f) => writeJob(f, barrier, take))
  module.function('serve', { params: ['i32', 'i32'], export: true }, (f) => writeServe(f, { wait, job, tell }))
  return module.encode()
}

interface Callee { readonly index: number }

/** Returns once the word at `address` is no longer `old`. */
function writeWait(f: FunctionBody): void {
  const [address, old] = [f.param(0, 'address'), f.param(1, 'old')]
  const left = f.local('i32', 'left')
  const returnIfChanged = (): void => {
    f.localGet(address).emit('i32.atomic.load').localGet(old).emit('i32.ne').if(() => f.emit('return'))
  }
  f.i32Const(SPINS).localSet(left)
  f.loop((again) => {
    returnIfChanged()
    f.localGet(left).i32Const(1).emit('i32.sub').localTee(left).brIf(again)
  })
  f.loop((again) => {
    returnIfChanged()
    f.localGet(address).localGet(old).i64Const(FOREVER).emit('memory.atomic.wait32').emit('drop')
    f.br(again)
  })
}

/** The last thread to come opens it for all. */
function writeBarrier(f: FunctionBody, wait: Callee): void {
  const threads = f.param(0, 'threads')
  const opened = f.local('i32', 'opened')
  f.i32Const(CONTROL.opened).emit('i32.atomic.load').localSet(opened)
  f.i32Const(CONTROL.arrived).i32Const(1).emit('i32.atomic.rmw.add').i32Const(1).emit('i32.add').localGet(threads).emit('i32.eq')
  f.if(() => {
    f.i32Const(CONTROL.arrived).i32Const(0).emit('i32.atomic.store')
    f.i32Const(CONTROL.opened).i32Const(1).emit('i32.atomic.rmw.add').emit('drop')
    f.i32Const(CONTROL.opened).i32Const(EVERYONE).emit('memory.atomic.notify').emit('drop')
  }, () => { f.i32Const(CONTROL.opened).localGet(opened).call(wait) })
}

/** Takes chunks of an entry until nothing is left. */
function writeTake(f: FunctionBody, call: Callee): void {
  const [entry, scratch, slot] = [f.param(0, 'entry'), f.param(1, 'scratch'), f.param(2, 'slot')]
  const [begin, end, total, kind] = [f.local('i32', 'begin'), f.local('i32', 'end'), f.local('i32', 'total'), f.local('i32', 'kind')]
  const field = (offset: number): FunctionBody => f.localGet(entry).emit('i32.load', { offset })
  field(ENTRY.total).localSet(total)
  field(ENTRY.kind).localSet(kind)
  f.loop((again) => {
    f.localGet(entry)
    field(ENTRY.chunk).emit('i32.atomic.rmw.add', { offset: ENTRY.next }).localTee(begin)
    f.localGet(total).emit('i32.ge_u').if(() => f.emit('return'))
    f.localGet(begin)
    field(ENTRY.chunk).emit('i32.add').localSet(end)
    f.localGet(end).localGet(total).localGet(end).localGet(total).emit('i32.lt_u').emit('select').localSet(end)
    f.block((next) => {
      f.localGet(kind).i32Const(KIND.dispatch).emit('i32.eq').if(() => {
        field(ENTRY.what)
        field(ENTRY.where).localGet(scratch).localGet(begin).localGet(end).localGet(entry).localGet(slot).call(call)
        f.br(next)
      })
      f.localGet(kind).i32Const(KIND.copy).emit('i32.eq').if(() => {
        field(ENTRY.where).localGet(begin).emit('i32.add')
        field(ENTRY.what).localGet(begin).emit('i32.add')
        f.localGet(end).localGet(begin).emit('i32.sub').emit('memory.copy')
      }, () => {
        field(ENTRY.where).localGet(begin).emit('i32.add')
        field(ENTRY.what).localGet(end).localGet(begin).emit('i32.sub').emit('memory.fill')
      })
    })
    f.br(again)
  })
}

/** The entries of a job, in order. A failed job does nothing more, but meets at every barrier. */
function writeJob(f: FunctionBody, barrier: Callee, take: Callee): void {
  const [slot, thread, threads] = [f.param(0, 'slot'), f.param(1, 'thread'), f.param(2, 'threads')]
  const [entry, last, scratch] = [f.local('i32', 'entry'), f.local('i32', 'last'), f.local('i32', 'scratch')]
  f.localGet(slot).emit('i32.load', { offset: JOB.entries }).localTee(entry)
  f.localGet(slot).emit('i32.load', { offset: JOB.count }).i32Const(ENTRY_BYTES).emit('i32.mul').emit('i32.add').localSet(last)
  f.localGet(slot).emit('i32.load', { offset: JOB.scratch })
  f.localGet(slot).emit('i32.load', { offset: JOB.scratchStride }).localGet(thread).emit('i32.mul').emit('i32.add').localSet(scratch)
  f.block((out) => f.loop((next) => {
    f.localGet(entry).localGet(last).emit('i32.eq').brIf(out)
    f.localGet(entry).emit('i32.load', { offset: ENTRY.barrier }).if(() => f.localGet(threads).call(barrier))
    f.localGet(slot).emit('i32.atomic.load', { offset: JOB.failed }).emit('i32.eqz')
    f.if(() => f.localGet(entry).localGet(scratch).localGet(slot).call(take))
    f.localGet(entry).i32Const(ENTRY_BYTES).emit('i32.add').localSet(entry)
    f.br(next)
  }))
  f.localGet(threads).call(barrier)
}

/** Jobs one after the other, for ever. The first thread tells when one is done. */
function writeServe(f: FunctionBody, { wait, job, tell }: Readonly<Record<'wait' | 'job' | 'tell', Callee>>): void {
  const [thread, threads, number] = [f.param(0, 'thread'), f.param(1, 'threads'), f.local('i32', 'number')]
  f.loop((next) => {
    f.i32Const(CONTROL.posted).localGet(number).call(wait)
    f.localGet(number).i32Const(RING.slots - 1).emit('i32.and').i32Const(RING.bytes).emit('i32.mul').i32Const(RING.at).emit('i32.add')
    f.localGet(thread).localGet(threads).call(job)
    f.localGet(number).i32Const(1).emit('i32.add').localSet(number)
    f.localGet(thread).emit('i32.eqz').if(() => {
      f.i32Const(CONTROL.done).localGet(number).emit('i32.atomic.store')
      f.i32Const(CONTROL.done).i32Const(EVERYONE).emit('memory.atomic.notify').emit('drop')
      f.i32Const(CONTROL.tell).emit('i32.load').if(() => f.call(tell))
    })
    f.br(next)
  })
}
