// Loaded first by every Node of scripts/test-arm64.js, the emulated ones included: children of a process are started by its `execPath`, and
// here those are arm64.

process.execPath = process.env.INGOT_ARM64_NODE ?? process.execPath
