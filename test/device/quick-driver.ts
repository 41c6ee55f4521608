// For tests of many small kernels: lavapipe spends most of their time in LLVM's optimisations, which this turns off. It must be imported
// before a device is opened; other drivers do not know the variable.

process.env['GALLIVM_PERF'] ??= 'nopt'
