// Waiting for a word to change: looks at it for a while, then sleeps. Linux sleeps on the word itself; elsewhere on a condition
// variable of the pool. A waker must change the word first and then call `waker_wake`.
#ifndef INGOT_WAIT_H
#define INGOT_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Waiting for work: long enough to bridge the gap between the steps of a decoding model, too short to show in a list of processes.
#define IDLE_NANOSECONDS 80000
// Waiting for the other threads of a job. Waking a sleeper costs more than most kernels take; but longer may mean that the other does
// not run, and wants this very core. So patience goes up and down between these (runtime.c).
#define LEAST_PATIENCE 10000
#define MOST_PATIENCE 1000000
#define LOOKS_PER_CLOCK 32

typedef struct {
  _Atomic uint32_t sleepers;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} waker;

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void waker_init(waker *w) {
  atomic_init(&w->sleepers, 0);
  pthread_mutex_init(&w->mutex, NULL);
  pthread_cond_init(&w->changed, NULL);
}

static inline void waker_free(waker *w) {
  pthread_mutex_destroy(&w->mutex);
  pthread_cond_destroy(&w->changed);
}

static void sleep_while(waker *w, _Atomic uint32_t *word, uint32_t old) {
  atomic_fetch_add(&w->sleepers, 1);
#ifdef __linux__
  while (atomic_load(word) == old) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
#else
  pthread_mutex_lock(&w->mutex);
  while (atomic_load(word) == old) pthread_cond_wait(&w->changed, &w->mutex);
  pthread_mutex_unlock(&w->mutex);
#endif
  atomic_fetch_sub(&w->sleepers, 1);
}

// Returns once `word` is not `old`; looks at it for about `spin` nanoseconds before it sleeps. True if it slept.
static inline bool waker_wait(waker *w, _Atomic uint32_t *word, uint32_t old, uint64_t spin) {
  if (atomic_load_explicit(word, memory_order_acquire) != old) return false;
  for (const uint64_t end = spin > 0 ? nanoseconds() + spin : 0; spin > 0 && nanoseconds() < end;) {
    for (int look = 0; look < LOOKS_PER_CLOCK; look++) {
      if (atomic_load_explicit(word, memory_order_acquire) != old) return false;
      relax();
    }
  }
  sleep_while(w, word, old);
  return true;
}

static inline void waker_wake(waker *w, _Atomic uint32_t *word) {
  // The word was changed before: a sleeper that counts itself after this sees the change and does not sleep (runtime.c says why).
  if (atomic_load(&w->sleepers) == 0) return;
#ifdef __linux__
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
#else
  (void)word;
  pthread_mutex_lock(&w->mutex);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
#endif
}

#endif
