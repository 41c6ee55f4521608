// What the fuzzer's watch must notice, one kind of fault per case: a child that answers like scripts/fuzz/child.js, or does not.

process.on('message', ({ number }) => {
  if (number === 1) process.kill(process.pid, 'SIGSEGV')
  if (number === 2) for (;;);
  if (number === 3) throw new Error('nobody catches this')
  const answer = { number, what: `case ${number}`, outcome: 'ok', cpu: number === 6 ? 9000 : 0, size: 1, peak: number === 4 ? 2 ** 30 : 0 }
  if (number === 6 || number === 7) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800)
  process.send?.(number === 5 ? { ...answer, fault: 'foreign error' } : answer)
})
process.on('disconnect', () => process.exit(0))
process.send?.({ ready: 'broken' })
