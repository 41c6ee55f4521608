// Subnormal numbers cost some processors a hundred cycles each, and a softmax makes many. While a thread runs kernels it takes them as
// zero and gives zero for them, as GPUs do and the kernel language allows; afterwards it computes as before. The rest of the process
// never sees it.
#ifndef INGOT_FLOAT_H
#define INGOT_FLOAT_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#define FLUSH_RESULTS 0x8000u
#define ZERO_OPERANDS 0x0040u
typedef uint32_t float_mode;
static inline float_mode flush_subnormals(void) {
  const float_mode before = _mm_getcsr();
  _mm_setcsr(before | FLUSH_RESULTS | ZERO_OPERANDS);
  return before;
}
static inline void restore_floats(float_mode before) { _mm_setcsr(before); }
#elif defined(__aarch64__)
#define FLUSH_BOTH (1ull << 24)
typedef uint64_t float_mode;
static inline float_mode flush_subnormals(void) {
  float_mode before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(before | FLUSH_BOTH));
  return before;
}
static inline void restore_floats(float_mode before) { __asm__ volatile("msr fpcr, %0" : : "r"(before)); }
#else
typedef uint32_t float_mode;
static inline float_mode flush_subnormals(void) { return 0; }
static inline void restore_floats(float_mode before) { (void)before; }
#endif

#endif
