// What the cpu device calls in the native library: threads that run jobs, memory outside of WebAssembly, mapped files.
// Everything belongs to what a call is given; the library has no state of its own. Addresses are 64-bit integers.
// src/device/cpu/native/layout.ts describes the same structures from the other side.
#ifndef INGOT_RUNTIME_H
#define INGOT_RUNTIME_H

#include <stdatomic.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// Runs workgroups [begin, end) of a kernel; emitted by src/emit/c.ts.
typedef void ingot_kernel(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch);

enum ingot_kind { INGOT_DISPATCH, INGOT_COPY, INGOT_FILL };
enum ingot_status { INGOT_OK, INGOT_CANCELLED, INGOT_NO_MEMORY };

// A list of these is a job. What threads only read is on one cache line, what they count with on the next.
typedef struct {
  uint32_t kind;
  uint32_t barrier;    // 1: all tasks before it must be done
  uint64_t total;      // workgroups or bytes
  uint64_t chunk;      // the fewest that are worth taking at once
  uint64_t what;       // dispatch: ingot_kernel *; copy: source; fill: the byte
  uint64_t where;      // dispatch: void *const *buffers; copy and fill: target
  uint64_t uniforms;   // dispatch
  uint32_t grid[3];    // dispatch
  uint32_t unused;
  _Alignas(64) _Atomic uint64_t next; // the first that nobody has taken yet
  uint8_t rest[56];
} ingot_task;

typedef struct {
  uint64_t tasks;
  uint32_t count;
  _Atomic uint32_t cancel; // set by anyone while it runs: what has not begun is left out
  uint64_t scratch;        // bytes that its kernels need per thread
} ingot_job;

typedef struct ingot_pool ingot_pool;

// `threads` counts the caller of ingot_pool_run. 0 if threads cannot be had.
EXPORT uint64_t ingot_pool_create(uint32_t threads);
// Nothing may be running.
EXPORT void ingot_pool_destroy(uint64_t pool);
// Runs a job and returns when it is done. Jobs run in the order of their tickets 0, 1, 2...: each is used once, and calls
// may come from several threads at a time.
EXPORT int32_t ingot_pool_run(uint64_t pool, uint64_t job, uint32_t ticket);

EXPORT uint64_t ingot_memory_alloc(uint64_t bytes);
EXPORT void ingot_memory_free(uint64_t at, uint64_t bytes);
// Large pages where the system has them: reading weights at the speed of memory needs few of the address caches' entries.
EXPORT void ingot_memory_huge(uint64_t at, uint64_t bytes);
EXPORT void ingot_memory_copy(uint64_t to, uint64_t from, uint64_t bytes);
// A file of at least `bytes` bytes, read-only; 0 if it cannot be mapped.
EXPORT uint64_t ingot_file_map(const char *path, uint64_t bytes);
EXPORT void ingot_file_unmap(uint64_t at, uint64_t bytes);
// A range of a mapped file will be read soon, or (`wanted` 0) not again, so that memory need not hold it.
EXPORT void ingot_file_advise(uint64_t at, uint64_t bytes, uint32_t wanted);

// True if this CPU runs the instruction set that the library was compiled for.
EXPORT int32_t ingot_supported(void);
// Defined by the generated table of kernels.
EXPORT uint64_t ingot_kernel_at(uint32_t index);
EXPORT const char *ingot_build_key(void);
// The kernel of blas.h, which multiplies by a library.
EXPORT uint64_t ingot_multiply_at(void);

#endif
