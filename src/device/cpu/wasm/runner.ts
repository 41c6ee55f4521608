// The loop of a worker thread, as WebAssembly: waits for jobs, takes chunks of their tasks until none are left, meets the
// other threads at barriers. Threads speak through memory only; no messages pass between the tasks of a job, nor between jobs.
// A kernel is called through the import `call`, which catches traps and marks the job as failed; then what is left of it is
// skipped, barriers and all threads stay in step.

import type { FunctionBody } from '../../../emit/wasm/body.ts'
import { MOST_PAGES } from '../../../emit/wasm/page.ts'
import { WasmModule } from '../../../emit/wasm/module.ts'
import { KIND } from '../encode.ts'
import { CONTROL, JOB, OWN, RING, TASK, TASK_BYTES } from './layout.ts'

// A look takes about a nanosecond.
/** Looks for a job before sleeping: long enough to bridge the gap between the steps of a decoding model. */
const IDLE_LOOKS = 80_000
/**
 * Looks for the other threads of a job. Waking a sleeper costs more than most kernels take; but longer may mean that the other does
 * not run, and wants this very core. So patience goes up and down between these.
 */
const LEAST_PATIENCE = 10_000
const MOST_PATIENCE = 1_000_000
const FOREVER = -1n
const EVERYONE = -1

/** The module: `serve(thread, threads)` never returns; `word(address)` reads memory. */
export function buildRunner(): Uint8Array<ArrayBuffer> {
  const module = new WasmModule()
  module.importMemory('env', 'memory', { min: 1, max: MOST_PAGES, shared: true })
  const call = module.importFunction('env', 'call', { params: ['i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32'] })
  const notify = module.importFunction('env', 'notify')
  module.function('word', { params: ['i32'], results: ['i32'], export: true }, (f) => f.localGet(0).emit('i32.load'))
  const wait = module.function('wait', { params: ['i32', 'i32', 'i32'], results: ['i32'] }, writeWait)
  const barrier = module.function('barrier', { params: ['i32'] }, (f) => writeBarrier(f, wait))
  const take = module.function('take', { params: ['i32', 'i32', 'i32', 'i32'] }, (f) => writeTake(f, call))
  const help = module.function('help', { params: ['i32', 'i32'] }, (f) => writeHelp(f, take))
  const job = module.function('job', { params: ['i32', 'i32', 'i32'] }, (f) => writeJob(f, { barrier, take, help }))
  module.function('serve', { params: ['i32', 'i32'], export: true }, (f) => writeServe(f, { wait, job, notify }))
  return module.encode()
}

interface Callee {
  readonly index: number
}

/** Returns once the word at `address` is no longer `old`, with 1 if it slept. */
function writeWait(f: FunctionBody): void {
  const [address, old, looks] = [f.param(0, 'address'), f.param(1, 'old'), f.param(2, 'looks')]
  const returnIfChanged = (slept: 0 | 1): void => {
    f.localGet(address)
      .emit('i32.atomic.load')
      .localGet(old)
      .emit('i32.ne')
      .if(() => f.i32Const(slept).emit('return'))
  }
  f.loop((again) => {
    returnIfChanged(0)
    f.localGet(looks).i32Const(1).emit('i32.sub').localTee(looks).brIf(again)
  })
  f.loop((again) => {
    returnIfChanged(1)
    f.localGet(address).localGet(old).i64Const(FOREVER).emit('memory.atomic.wait32').emit('drop')
    f.br(again)
  })
  f.emit('unreachable')
}

/** The last thread to come opens it for all. */
function writeBarrier(f: FunctionBody, wait: Callee): void {
  const threads = f.param(0, 'threads')
  const [opened, patience] = [f.local('i32', 'opened'), f.local('i32', 'patience')]
  f.i32Const(CONTROL.opened).emit('i32.atomic.load').localSet(opened)
  f.i32Const(CONTROL.arrived).i32Const(1).emit('i32.atomic.rmw.add').i32Const(1).emit('i32.add').localGet(threads).emit('i32.eq')
  f.if(
    () => {
      f.i32Const(CONTROL.arrived).i32Const(0).emit('i32.atomic.store')
      f.i32Const(CONTROL.opened).i32Const(1).emit('i32.atomic.rmw.add').emit('drop')
      f.i32Const(CONTROL.opened).i32Const(EVERYONE).emit('memory.atomic.notify').emit('drop')
    },
    () => {
      // Who looked long and had to sleep after all shares the core with somebody: look less next time. Else more again.
      f.i32Const(CONTROL.patience).emit('i32.load').localSet(patience)
      f.i32Const(CONTROL.opened).localGet(opened).localGet(patience).i32Const(LEAST_PATIENCE).emit('i32.add').call(wait)
      f.if(
        () => f.localGet(patience).i32Const(1).emit('i32.shr_u').localSet(patience),
        () => {
          f.localGet(patience)
            .localGet(patience)
            .i32Const(3)
            .emit('i32.shr_u')
            .emit('i32.add')
            .i32Const(LEAST_PATIENCE)
            .emit('i32.add')
            .localTee(patience)
          f.i32Const(MOST_PATIENCE)
            .emit('i32.gt_u')
            .if(() => f.i32Const(MOST_PATIENCE).localSet(patience))
        },
      )
      f.i32Const(CONTROL.patience).localGet(patience).emit('i32.store')
    },
  )
}

/** Takes parts of a task until nothing is left: first one long run, then chunks. */
function writeTake(f: FunctionBody, call: Callee): void {
  const [task, scratch, slot, threads] = [f.param(0, 'task'), f.param(1, 'scratch'), f.param(2, 'slot'), f.param(3, 'threads')]
  const [turn, begin, end, total, kind] = [
    f.local('i32', 'turn'),
    f.local('i32', 'begin'),
    f.local('i32', 'end'),
    f.local('i32', 'total'),
    f.local('i32', 'kind'),
  ]
  const field = (offset: number): FunctionBody => f.localGet(task).emit('i32.load', { offset })
  field(TASK.total).localSet(total)
  field(TASK.kind).localSet(kind)
  f.loop((again) => {
    f.localGet(task).i32Const(1).emit('i32.atomic.rmw.add', { offset: TASK.next }).localTee(turn)
    f.localGet(threads)
      .emit('i32.lt_u')
      .if(
        () => {
          field(TASK.run).localGet(turn).emit('i32.mul').localTee(begin)
          field(TASK.run).emit('i32.add').localSet(end)
        },
        () => {
          field(TASK.run).localGet(threads).emit('i32.mul')
          field(TASK.chunk).localGet(turn).localGet(threads).emit('i32.sub').emit('i32.mul').emit('i32.add').localTee(begin)
          field(TASK.chunk).emit('i32.add').localSet(end)
        },
      )
    f.localGet(begin)
      .localGet(total)
      .emit('i32.ge_u')
      .if(() => f.emit('return'))
    f.localGet(end).localGet(total).localGet(end).localGet(total).emit('i32.lt_u').emit('select').localSet(end)
    f.block((next) => {
      f.localGet(kind)
        .i32Const(KIND.dispatch)
        .emit('i32.eq')
        .if(() => {
          field(TASK.what)
          field(TASK.where).localGet(scratch).localGet(begin).localGet(end).localGet(task).localGet(slot).call(call)
          f.br(next)
        })
      f.localGet(kind)
        .i32Const(KIND.copy)
        .emit('i32.eq')
        .if(
          () => {
            field(TASK.where).localGet(begin).emit('i32.add')
            field(TASK.what).localGet(begin).emit('i32.add')
            f.localGet(end).localGet(begin).emit('i32.sub').emit('memory.copy')
          },
          () => {
            field(TASK.where).localGet(begin).emit('i32.add')
            field(TASK.what).localGet(end).localGet(begin).emit('i32.sub').emit('memory.fill')
          },
        )
    })
    f.br(again)
  })
}

/**
 * Takes parts of a job of one task that the main thread does itself, if it is still open. Who comes counts itself before it looks, and the
 * main thread looks for such after it closed the job: nobody is at work on one that it has left.
 */
function writeHelp(f: FunctionBody, take: Callee): void {
  const [slot, thread] = [f.param(0, 'slot'), f.param(1, 'thread')]
  f.localGet(slot).i32Const(1).emit('i32.atomic.rmw.add', { offset: JOB.active }).emit('drop')
  f.localGet(slot).emit('i32.atomic.load', { offset: JOB.own }).i32Const(OWN.open).emit('i32.eq')
  f.if(() => {
    f.localGet(slot).emit('i32.load', { offset: JOB.tasks })
    f.localGet(slot).emit('i32.load', { offset: JOB.scratch })
    f.localGet(slot).emit('i32.load', { offset: JOB.scratchStride }).localGet(thread).emit('i32.mul').emit('i32.add')
    f.localGet(slot).i32Const(0).call(take) // no long runs: it is not known who comes
  })
  f.localGet(slot).i32Const(-1).emit('i32.atomic.rmw.add', { offset: JOB.active }).emit('drop')
  f.i32Const(CONTROL.passed).i32Const(1).emit('i32.atomic.rmw.add').emit('drop')
}

/** The tasks of a job, in order. A failed job does nothing more, but meets at every barrier. */
function writeJob(f: FunctionBody, { barrier, take, help }: Readonly<Record<'barrier' | 'take' | 'help', Callee>>): void {
  const [slot, thread, threads] = [f.param(0, 'slot'), f.param(1, 'thread'), f.param(2, 'threads')]
  const [task, last, scratch] = [f.local('i32', 'task'), f.local('i32', 'last'), f.local('i32', 'scratch')]
  f.localGet(slot).emit('i32.atomic.load', { offset: JOB.own })
  f.if(() => f.localGet(slot).localGet(thread).call(help).emit('return'))
  f.localGet(slot).emit('i32.load', { offset: JOB.tasks }).localTee(task)
  f.localGet(slot).emit('i32.load', { offset: JOB.count }).i32Const(TASK_BYTES).emit('i32.mul').emit('i32.add').localSet(last)
  f.localGet(slot).emit('i32.load', { offset: JOB.scratch })
  f.localGet(slot).emit('i32.load', { offset: JOB.scratchStride }).localGet(thread).emit('i32.mul').emit('i32.add').localSet(scratch)
  f.block((out) =>
    f.loop((next) => {
      f.localGet(task).localGet(last).emit('i32.eq').brIf(out)
      f.localGet(task)
        .emit('i32.load', { offset: TASK.barrier })
        .if(() => f.localGet(threads).call(barrier))
      f.localGet(slot).emit('i32.atomic.load', { offset: JOB.failed }).emit('i32.eqz')
      f.if(() => f.localGet(task).localGet(scratch).localGet(slot).localGet(threads).call(take))
      f.localGet(task).i32Const(TASK_BYTES).emit('i32.add').localSet(task)
      f.br(next)
    }),
  )
  f.localGet(threads).call(barrier)
}

/** Jobs one after the other, for ever. The first thread says when one is done. */
function writeServe(f: FunctionBody, { wait, job, notify }: Readonly<Record<'wait' | 'job' | 'notify', Callee>>): void {
  const [thread, threads, number] = [f.param(0, 'thread'), f.param(1, 'threads'), f.local('i32', 'number')]
  f.loop((next) => {
    f.i32Const(CONTROL.posted).localGet(number).i32Const(IDLE_LOOKS).call(wait).emit('drop')
    f.localGet(number)
      .i32Const(RING.slots - 1)
      .emit('i32.and')
      .i32Const(RING.bytes)
      .emit('i32.mul')
      .i32Const(RING.at)
      .emit('i32.add')
    f.localGet(thread).localGet(threads).call(job)
    f.localGet(number).i32Const(1).emit('i32.add').localSet(number)
    f.localGet(thread)
      .emit('i32.eqz')
      .if(() => {
        f.i32Const(CONTROL.done).localGet(number).emit('i32.atomic.store')
        f.i32Const(CONTROL.done).i32Const(EVERYONE).emit('memory.atomic.notify').emit('drop')
        f.i32Const(CONTROL.notify)
          .emit('i32.load')
          .if(() => f.call(notify))
      })
    f.br(next)
  })
}
