// For tests of many small kernels on few numbers: lavapipe spends most of their time in LLVM's optimisations. Other drivers do not know the
// variable.

/** Turns them off; to be called before a device is opened. */
export function compileQuickly(): void {
  process.env['GALLIVM_PERF'] ??= 'nopt'
}
