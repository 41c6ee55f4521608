// A client of the native pool (native/cpu/runtime.c) for a build with a thread sanitizer: jobs whose tasks read what other threads wrote
// before the barrier, from several callers at once, with threads that look out for work and threads that sleep, cancelled and not.
// Prints `ok`, or what is wrong; the sanitizer prints the rest.
#include "runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Stands in for the generated table of kernels.
uint64_t ingot_kernel_at(uint32_t index) { (void)index; return 0; }
const char *ingot_build_key(void) { return "driver"; }

enum { LENGTH = 96, STEPS = 6, CALLERS = 3, JOBS = 60, TASKS = STEPS + 2 };

// to[i] = from[i] + from[i's mirror image], by way of scratch memory: each element needs one that another thread has likely written.
static void add_mirror(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
  const uint32_t *from = buffers[0];
  uint32_t *to = buffers[1], *kept = scratch;
  (void)uniforms, (void)grid;
  for (uint32_t i = begin; i < end; i++) kept[i - begin] = from[LENGTH - 1 - i];
  for (uint32_t i = begin; i < end; i++) to[i] = from[i] + kept[i - begin];
}

typedef struct {
  uint64_t pool;
  uint32_t caller;
  uint32_t pauses; // 1: long enough between jobs that all threads sleep
  uint64_t wrong;
} caller;

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

// Fill, copy, then steps that each double the sum, all with barriers between them.
static uint64_t run_job(uint64_t pool, uint32_t ticket, bool cancelled) {
  static const uint64_t bytes = LENGTH * sizeof(uint32_t);
  uint32_t *a = malloc(bytes), *b = malloc(bytes), *first = malloc(bytes);
  ingot_task *tasks = aligned_alloc(64, TASKS * sizeof(ingot_task));
  void *const ways[2][2] = {{a, b}, {b, a}};
  for (uint32_t i = 0; i < LENGTH; i++) first[i] = 1 + (ticket + i) % 7;
  memset(tasks, 0, TASKS * sizeof(ingot_task));
  tasks[0] = (ingot_task){.kind = INGOT_FILL, .total = bytes, .chunk = 16, .what = 0xff, .where = address(a)};
  tasks[1] = (ingot_task){.kind = INGOT_COPY, .barrier = 1, .total = bytes, .chunk = 16, .what = address(first), .where = address(a)};
  for (uint32_t s = 0; s < STEPS; s++)
    tasks[s + 2] = (ingot_task){.kind = INGOT_DISPATCH, .barrier = 1, .total = LENGTH, .chunk = 3,
      .what = (uint64_t)(uintptr_t)add_mirror, .where = address(ways[s % 2]), .grid = {LENGTH, 1, 1}};
  ingot_job job = {.tasks = address(tasks), .count = TASKS, .scratch = bytes * (1 + ticket % 3 * 16)};
  atomic_init(&job.cancel, cancelled);
  const int32_t status = ingot_pool_run(pool, address(&job), ticket);
  uint64_t wrong = status != (cancelled ? INGOT_CANCELLED : INGOT_OK);
  for (uint32_t i = 0; i < LENGTH && !cancelled; i++) wrong += a[i] != (first[i] + first[LENGTH - 1 - i]) << (STEPS - 1);
  free(a), free(b), free(first), free(tasks);
  return wrong;
}

static void *call(void *argument) {
  caller *self = argument;
  for (uint32_t n = 0; n < JOBS; n++) {
    const uint32_t ticket = n * CALLERS + self->caller;
    if (self->pauses) nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    self->wrong += run_job(self->pool, ticket, ticket % 11 == 5);
  }
  return NULL;
}

int main(void) {
  uint64_t wrong = 0;
  for (uint32_t threads = 1; threads <= 4; threads++) {
    for (uint32_t pauses = 0; pauses < 2; pauses++) {
      caller callers[CALLERS];
      pthread_t running[CALLERS];
      const uint64_t pool = ingot_pool_create(threads);
      if (pool == 0) return printf("no pool of %u threads\n", threads), 1;
      for (uint32_t c = 0; c < CALLERS; c++) {
        callers[c] = (caller){.pool = pool, .caller = c, .pauses = pauses};
        pthread_create(&running[c], NULL, call, &callers[c]);
      }
      for (uint32_t c = 0; c < CALLERS; c++) pthread_join(running[c], NULL), wrong += callers[c].wrong;
      ingot_pool_destroy(pool);
    }
  }
  printf(wrong == 0 ? "ok\n" : "%llu wrong results\n", (unsigned long long)wrong);
  return wrong != 0;
}
