// The threads of the native cpu device. A pool runs one job at a time: the caller is its first thread, the others wait for
// jobs, look around for a moment when there is none, then sleep. All threads walk through the tasks in order, take chunks of
// each until none are left, and meet where a task says so. Which thread computes a workgroup does not change its result.
// Also memory and mapped files, for which JavaScript has no words.
//
// Why that is right where the processor keeps little in order (ARM), by the words of C11; test/device/pool-race.test.ts has a thread
// sanitizer look for what is missing here:
//   - A job. `job`, `scratch` and the tasks' `next` are written plainly, then `posted` is counted up (release); a worker reads them only
//     after it has seen that (acquire). It is the caller whose ticket `serving` shows that writes, and it saw `serving` (acquire) after
//     the caller before had counted it up (release): callers on different threads of Node follow each other.
//   - The barrier. Each thread adds itself to `arrived` (acquire and release): the additions are one chain, so the last thread has all
//     that the others wrote before they came. It sets `arrived` to 0 and counts `opened` up (release); who sees that (acquire) has what
//     all had written, and finds `arrived` empty when it comes the next time. `opened` is read before the own addition: the last
//     thread's count comes after every addition, so none can have taken the new count for the old one and wait for ever.
//   - The end. After the last barrier nobody touches the job, and the caller returns with all its results.
//   - Shares of a task. `next` only says who computes what, and each value of it goes to one thread: that holds without any order. What
//     the shares read and write is put in order by the barriers. `cancel` and `patience` are hints, good at any time.
//   - Sleeping. A sleeper counts itself in `sleepers`, then looks at the word again; a waker changes the word, then looks at `sleepers`.
//     Acquire and release would let both miss each other: all four are sequentially consistent, so one of them comes first for all, and
//     either the sleeper sees the word changed or the waker sees the sleeper. The kernel (or the mutex) closes the gap after that.

#include "runtime.h"
#include "blas.h"
#include "float.h"
#include "wait.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_THREADS 256
#define STACK_BYTES (1u << 20)
#define LINE 64

struct worker {
  ingot_pool *pool;
  uint32_t number;
  pthread_t thread;
};

struct ingot_pool {
  uint32_t threads;
  ingot_job *job;
  uint8_t *scratch;
  uint64_t scratch_stride; // bytes per thread
  waker waker;
  _Alignas(LINE) _Atomic uint32_t serving; // the ticket whose turn it is
  _Alignas(LINE) _Atomic uint32_t posted;  // jobs given to the workers so far
  _Alignas(LINE) _Atomic uint32_t arrived; // threads at the barrier
  _Alignas(LINE) _Atomic uint32_t opened;  // how often it has opened
  _Alignas(LINE) _Atomic uint32_t stop;
  _Alignas(LINE) _Atomic uint64_t patience; // nanoseconds that a thread looks out for the others before it sleeps
  struct worker workers[];
};

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

// The last thread to come opens it for all.
static void meet(ingot_pool *pool) {
  if (pool->threads == 1) return;
  const uint32_t opened = atomic_load_explicit(&pool->opened, memory_order_acquire);
  if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->threads) {
    // Who looked long and had to sleep after all shares the core with somebody: look less next time. Else more again.
    const uint64_t patience = atomic_load_explicit(&pool->patience, memory_order_relaxed);
    const bool slept = waker_wait(&pool->waker, &pool->opened, opened, patience);
    const uint64_t next = slept ? patience / 2 : patience + patience / 8;
    const uint64_t bounded = next < LEAST_PATIENCE ? LEAST_PATIENCE : next > MOST_PATIENCE ? MOST_PATIENCE : next;
    if (bounded != patience) atomic_store_explicit(&pool->patience, bounded, memory_order_relaxed);
    return;
  }
  atomic_store(&pool->arrived, 0);
  atomic_fetch_add(&pool->opened, 1);
  waker_wake(&pool->waker, &pool->opened);
}

static void work(const ingot_task *task, uint64_t begin, uint64_t end, void *scratch) {
  switch (task->kind) {
    case INGOT_DISPATCH:
      ((ingot_kernel *)(uintptr_t)task->what)(
        pointer(task->where), pointer(task->uniforms), task->grid, (uint32_t)begin, (uint32_t)end, scratch);
      break;
    case INGOT_COPY: memcpy(pointer(task->where + begin), pointer(task->what + begin), end - begin); break;
    case INGOT_FILL: memset(pointer(task->where + begin), (int)task->what, end - begin); break;
  }
}

// A thread takes a share of what is left, so that it first reads memory in long streams and all end at about the same time.
static void take_chunks(ingot_task *task, uint32_t threads, void *scratch) {
  uint64_t begin = atomic_load_explicit(&task->next, memory_order_relaxed);
  while (begin < task->total) {
    const uint64_t left = task->total - begin, share = left / (2 * threads) / task->chunk * task->chunk;
    const uint64_t length = share > 0 ? share : task->chunk < left ? task->chunk : left;
    if (!atomic_compare_exchange_weak_explicit(&task->next, &begin, begin + length, memory_order_relaxed, memory_order_relaxed)) continue;
    work(task, begin, begin + length, scratch);
    begin = atomic_load_explicit(&task->next, memory_order_relaxed);
  }
}

static void walk(ingot_pool *pool, uint32_t number) {
  ingot_job *job = pool->job;
  ingot_task *tasks = pointer(job->tasks);
  void *scratch = pool->scratch + number * pool->scratch_stride;
  const float_mode mode = flush_subnormals();
  for (uint32_t i = 0; i < job->count; i++) {
    if (tasks[i].barrier) meet(pool);
    if (!atomic_load_explicit(&job->cancel, memory_order_relaxed)) take_chunks(&tasks[i], pool->threads, scratch);
  }
  restore_floats(mode);
  meet(pool);
}

static void *serve(void *argument) {
  const struct worker *self = argument;
  ingot_pool *pool = self->pool;
  for (uint32_t seen = 0;; seen++) {
    waker_wait(&pool->waker, &pool->posted, seen, seen > 0 ? IDLE_NANOSECONDS : 0);
    if (atomic_load(&pool->stop)) return NULL;
    walk(pool, self->number);
  }
}

static void stop_workers(ingot_pool *pool, uint32_t count) {
  atomic_store(&pool->stop, 1);
  atomic_fetch_add(&pool->posted, 1);
  waker_wake(&pool->waker, &pool->posted);
  for (uint32_t i = 0; i < count; i++) pthread_join(pool->workers[i].thread, NULL);
}

static void release(ingot_pool *pool) {
  waker_free(&pool->waker);
  free(pool->scratch);
  free(pool);
}

uint64_t ingot_pool_create(uint32_t threads) {
  if (threads == 0 || threads > MOST_THREADS) return 0;
  const size_t bytes = sizeof(ingot_pool) + (threads - 1) * sizeof(struct worker);
  ingot_pool *pool = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
  if (pool == NULL) return 0;
  memset(pool, 0, bytes);
  pool->threads = threads;
  atomic_init(&pool->patience, MOST_PATIENCE);
  waker_init(&pool->waker);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  uint32_t started = 0;
  for (; started < threads - 1; started++) {
    struct worker *worker = &pool->workers[started];
    *worker = (struct worker){.pool = pool, .number = started + 1};
    if (pthread_create(&worker->thread, &attributes, serve, worker) != 0) break;
  }
  pthread_attr_destroy(&attributes);
  if (started == threads - 1) return (uint64_t)(uintptr_t)pool;
  stop_workers(pool, started);
  release(pool);
  return 0;
}

void ingot_pool_destroy(uint64_t handle) {
  ingot_pool *pool = pointer(handle);
  stop_workers(pool, pool->threads - 1);
  release(pool);
}

// Workers are waiting, so nobody uses the old one.
static int need_scratch(ingot_pool *pool, uint64_t bytes) {
  const uint64_t stride = (bytes + 4095) / 4096 * 4096;
  if (stride <= pool->scratch_stride) return 1;
  uint8_t *scratch = aligned_alloc(4096, stride * pool->threads);
  if (scratch == NULL) return 0;
  free(pool->scratch);
  pool->scratch = scratch;
  pool->scratch_stride = stride;
  return 1;
}

int32_t ingot_pool_run(uint64_t handle, uint64_t job_address, uint32_t ticket) {
  ingot_pool *pool = pointer(handle);
  ingot_job *job = pointer(job_address);
  for (uint32_t serving; (serving = atomic_load(&pool->serving)) != ticket;) waker_wait(&pool->waker, &pool->serving, serving, 0);
  int32_t status = INGOT_NO_MEMORY;
  if (need_scratch(pool, job->scratch)) {
    ingot_task *tasks = pointer(job->tasks);
    for (uint32_t i = 0; i < job->count; i++) atomic_store_explicit(&tasks[i].next, 0, memory_order_relaxed);
    pool->job = job;
    atomic_fetch_add(&pool->posted, 1);
    waker_wake(&pool->waker, &pool->posted);
    walk(pool, 0);
    status = atomic_load(&job->cancel) ? INGOT_CANCELLED : INGOT_OK;
  }
  atomic_fetch_add(&pool->serving, 1);
  waker_wake(&pool->waker, &pool->serving);
  return status;
}

void ingot_memory_huge(uint64_t at, uint64_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(pointer(at), bytes, MADV_HUGEPAGE);
#else
  (void)at, (void)bytes;
#endif
}

uint64_t ingot_memory_alloc(uint64_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 0;
  ingot_memory_huge((uint64_t)(uintptr_t)at, bytes);
  return (uint64_t)(uintptr_t)at;
}

void ingot_memory_free(uint64_t at, uint64_t bytes) { munmap(pointer(at), bytes); }

void ingot_memory_copy(uint64_t to, uint64_t from, uint64_t bytes) { memcpy(pointer(to), pointer(from), bytes); }

uint64_t ingot_file_map(const char *path, uint64_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  struct stat facts;
  void *at = MAP_FAILED;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && (uint64_t)facts.st_size >= bytes) at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return 0;
  return (uint64_t)(uintptr_t)at;
}

void ingot_file_unmap(uint64_t at, uint64_t bytes) { munmap(pointer(at), bytes); }

// Advice is for whole pages: wanted ones may reach past the range, unwanted ones may not.
void ingot_file_advise(uint64_t at, uint64_t bytes, uint32_t wanted) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t from = (at + (wanted ? 0 : page - 1)) / page * page, to = wanted ? at + bytes : (at + bytes) / page * page;
  if (from < to) madvise(pointer(from), to - from, wanted ? MADV_WILLNEED : MADV_DONTNEED);
}

#if defined(INGOT_LEVEL_dotprod) || defined(INGOT_LEVEL_i8mm)
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
static int has_dotprod(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 && (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0; }
#else
static int has_dotprod(void) { return 1; } // every Apple chip that runs macOS
#endif
#endif
#ifdef INGOT_LEVEL_i8mm
#if defined(__linux__)
static int has_i8mm(void) { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
#elif defined(__APPLE__) // M2 and newer; older systems do not know the name, and neither do chips without it
#include <sys/sysctl.h>
static int has_i8mm(void) {
  int32_t has = 0;
  size_t bytes = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_I8MM", &has, &bytes, NULL, 0) == 0 && has != 0;
}
#else
static int has_i8mm(void) { return 0; }
#endif
#endif

uint64_t ingot_multiply_at(void) { return (uint64_t)(uintptr_t)multiply; }

// Compiled, like all of this file, for the oldest CPU of the architecture: it may run before anything is known.
int32_t ingot_supported(void) {
#if defined(INGOT_LEVEL_avx512)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
    && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx2")
    && __builtin_cpu_supports("fma");
#elif defined(INGOT_LEVEL_avx2)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(INGOT_LEVEL_i8mm)
  return has_dotprod() && has_i8mm();
#elif defined(INGOT_LEVEL_dotprod)
  return has_dotprod();
#else
  return 1;
#endif
}
