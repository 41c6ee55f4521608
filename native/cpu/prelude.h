// What the emitted C stands on: vectors of 2, 4, 8 and 16 lanes and the operations C has no operator for. Each operation has one
// portable form; the instruction sets that do better (AVX-512 VNNI, AVX2, NEON dotprod and i8mm) are chosen by #if, so one source gives a
// library per instruction set. Nothing calls libm but functions of f64 (prelude-f64.h): link with -lm.
//
// Compile with: -std=gnu11 -O2 -fwrapv -fno-strict-aliasing -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-psabi
//   -fwrapv: integers wrap;  -ffp-contract=off: only fma() fuses;  -Wno-psabi: wide vectors never cross a real call
// Needs gcc 12 or clang 14 (__builtin_shufflevector, __builtin_convertvector).
#ifndef INGOT_PRELUDE_H
#define INGOT_PRELUDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define FN static inline __attribute__((always_inline, unused))
#define INFINITE __builtin_inff()
#define NOT_A_NUMBER __builtin_nanf("")
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // a hint may be ignored
#define UNROLL(n) PRAGMA(clang loop unroll_count(n))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

// ---- types; *_mem is the same in memory, at the alignment of one element
#define VECTOR(T, name, N, bytes) \
  typedef T name##x##N __attribute__((vector_size(bytes))); \
  typedef T name##x##N##_mem __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
#define VECTORS(N) \
  VECTOR(float, f32, N, 4 * N) VECTOR(int32_t, i32, N, 4 * N) VECTOR(uint32_t, u32, N, 4 * N) \
  VECTOR(int16_t, i16, N, 2 * N) VECTOR(uint16_t, u16, N, 2 * N) VECTOR(int8_t, i8, N, N) VECTOR(uint8_t, u8, N, N)
VECTORS(2) VECTORS(4) VECTORS(8) VECTORS(16)

#define LOW2(v) __builtin_shufflevector(v, v, 0, 1)
#define HIGH2(v) __builtin_shufflevector(v, v, 2, 3)
#define LOW4(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define HIGH4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define LOW8(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH8(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define JOIN2(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3)
#define JOIN4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define JOIN8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// ---- bits
FN uint32_t f32_bits(float x) { uint32_t bits; __builtin_memcpy(&bits, &x, 4); return bits; }
FN float f32_of_bits(uint32_t bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }

// ---- scalars
#define SCALAR_ORDER(T, name) \
  FN T name##_min(T a, T b) { return b < a ? b : a; } \
  FN T name##_max(T a, T b) { return b > a ? b : a; }
SCALAR_ORDER(float, f32) SCALAR_ORDER(int32_t, i32) SCALAR_ORDER(uint32_t, u32)

FN int32_t i32_div(int32_t a, int32_t b) { return b == 0 ? a : b == -1 ? -a : a / b; }
FN int32_t i32_rem(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }
FN uint32_t u32_div(uint32_t a, uint32_t b) { return b == 0 ? a : a / b; }
FN uint32_t u32_rem(uint32_t a, uint32_t b) { return b == 0 ? 0 : a % b; }
FN int32_t i32_abs(int32_t a) { return a < 0 ? -a : a; }
FN int32_t i32_popcount(int32_t a) { return __builtin_popcount((uint32_t)a); }
FN uint32_t u32_popcount(uint32_t a) { return (uint32_t)__builtin_popcount(a); }
FN float f32_abs(float x) { return f32_of_bits(f32_bits(x) & 0x7fffffff); }
FN int32_t f32_to_i32(float x) {
  return x >= 2147483648.0f ? INT32_MAX : x >= -2147483648.0f ? (int32_t)x : x < 0 ? INT32_MIN : 0;
}
FN uint32_t f32_to_u32(float x) { return x >= 4294967296.0f ? UINT32_MAX : x > 0 ? (uint32_t)x : 0; }
FN float f32_sqrt(float x) {
#ifdef __SSE2__
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#else
  return __builtin_sqrtf(x);
#endif
}
FN float f32_rsqrt(float x) { return 1.0f / f32_sqrt(x); }
FN float f32_fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
#if defined(__SSE4_1__) || defined(__aarch64__)
FN float f32_trunc(float x) { return __builtin_truncf(x); }
FN float f32_floor(float x) { return __builtin_floorf(x); }
FN float f32_ceil(float x) { return __builtin_ceilf(x); }
FN float f32_rint(float x) { return __builtin_rintf(x); }
#else
// floats of 2^23 and more are whole; the sign of the operand is the sign of the result, also when that is zero
FN float whole_or(float x, float result) {
  return f32_abs(x) < 8388608.0f ? f32_of_bits(f32_bits(f32_abs(result)) | (f32_bits(x) & 0x80000000)) : x;
}
FN float f32_trunc(float x) { return whole_or(x, (float)f32_to_i32(x)); }
FN float f32_floor(float x) { const float t = f32_trunc(x); return whole_or(x, t > x ? t - 1 : t); }
FN float f32_ceil(float x) { const float t = f32_trunc(x); return whole_or(x, t < x ? t + 1 : t); }
FN float f32_rint(float x) { return whole_or(x, f32_abs(x) + 8388608.0f - 8388608.0f); }
#endif

// ---- half precision, as 16 bits
FN float f16_to_f32(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h);
#elif defined(__aarch64__)
  __fp16 half;
  __builtin_memcpy(&half, &h, 2);
  return half;
#else
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest < 0x400) return f32_of_bits(sign | f32_bits((float)rest * 0x1p-24f));
  const uint32_t quiet = rest > 0x7c00 ? 0x400000 : 0;
  return f32_of_bits(sign | quiet | ((rest << 13) + (rest < 0x7c00 ? 112u << 23 : 224u << 23)));
#endif
}
FN uint16_t f32_to_f16(float x) {
#if defined(__F16C__)
  return (uint16_t)_cvtss_sh(x, 0);
#elif defined(__aarch64__)
  const __fp16 half = (__fp16)x;
  uint16_t h;
  __builtin_memcpy(&h, &half, 2);
  return h;
#else
  const uint32_t sign = f32_bits(x) >> 16 & 0x8000, a = f32_bits(x) & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (a < 0x38800000) return (uint16_t)(sign | (f32_bits(f32_of_bits(a) + 0.5f) - 0x3f000000));
  return (uint16_t)(sign | (((a + 0xfff + (a >> 13 & 1)) >> 13) - (112 << 10)));
#endif
}

// ---- four bytes, two halves in a word
FN u32x4 u32_unpackU8(uint32_t a) { u8x4 v; __builtin_memcpy(&v, &a, 4); return __builtin_convertvector(v, u32x4); }
FN i32x4 u32_unpackI8(uint32_t a) { i8x4 v; __builtin_memcpy(&v, &a, 4); return __builtin_convertvector(v, i32x4); }
#ifdef __SSSE3__
FN uint32_t u32_packI8(u32x4 v) {
  return (uint32_t)_mm_cvtsi128_si32(_mm_shuffle_epi8((__m128i)v, _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)));
}
#else
FN uint32_t u32_packI8(u32x4 v) { const u8x4 bytes = __builtin_convertvector(v, u8x4); uint32_t a; __builtin_memcpy(&a, &bytes, 4); return a; }
#endif
FN f32x2 u32_unpackF16(uint32_t a) { return (f32x2){f16_to_f32((uint16_t)a), f16_to_f32((uint16_t)(a >> 16))}; }
FN uint32_t u32_packF16(f32x2 v) { return f32_to_f16(v[0]) | (uint32_t)f32_to_f16(v[1]) << 16; }

// ---- vectors of every width
#define ORDER(T, N) \
  FN T T##_select(i32x##N m, T a, T b) { return (T)(((i32x##N)a & m) | ((i32x##N)b & ~m)); } \
  FN T T##_min(T a, T b) { return T##_select(b < a, b, a); } \
  FN T T##_max(T a, T b) { return T##_select(b > a, b, a); }
// Compilers turn a conversion that widens into one load per element: where there are instructions for it, name them below.
// What lies so many bytes further on will be wanted soon: into the second-level cache, since the first is too small to hold it so long.
FN const void *expect_soon(const void *p, size_t ahead) { __builtin_prefetch((const char *)p + ahead, 0, 2); return p; }
#define WIDENING_LOAD(T, U, N) FN U load_##T##x##N(const void *p) { return __builtin_convertvector(*(const T##x##N##_mem *)p, U); }
#define WIDENING_LOADS(N) \
  WIDENING_LOAD(u8, u32x##N, N) WIDENING_LOAD(i8, i32x##N, N) WIDENING_LOAD(u16, u32x##N, N) WIDENING_LOAD(i16, i32x##N, N)
#define MEMORY(T, U, N) \
  FN void store_##T##x##N(void *p, U v) { *(T##x##N##_mem *)p = __builtin_convertvector(v, T##x##N##_mem); }
#define PLAIN_MEMORY(T) \
  FN T load_##T(const void *p) { return *(const T##_mem *)p; } \
  FN void store_##T(void *p, T v) { *(T##_mem *)p = v; }
#define BY_ELEMENT(N, T, name) \
  FN T##x##N T##x##N##_##name(T##x##N a, T##x##N b) { for (int i = 0; i < N; i++) a[i] = T##_##name(a[i], b[i]); return a; }
#define BY_ELEMENT1(N, T, name) \
  FN T##x##N T##x##N##_##name(T##x##N a) { for (int i = 0; i < N; i++) a[i] = T##_##name(a[i]); return a; }
#define WIDTH(N) \
  ORDER(f32x##N, N) ORDER(i32x##N, N) ORDER(u32x##N, N) \
  MEMORY(u8, u32x##N, N) MEMORY(i8, i32x##N, N) MEMORY(u16, u32x##N, N) MEMORY(i16, i32x##N, N) \
  PLAIN_MEMORY(f32x##N) PLAIN_MEMORY(i32x##N) PLAIN_MEMORY(u32x##N) \
  FN f32x##N f32x##N##_splat(float x) { return x - (f32x##N){0}; } \
  FN i32x##N i32x##N##_splat(int32_t x) { return x - (i32x##N){0}; } \
  FN u32x##N u32x##N##_splat(uint32_t x) { return x - (u32x##N){0}; } \
  FN f32x##N f32x##N##_abs(f32x##N v) { return (f32x##N)((i32x##N)v & 0x7fffffff); } \
  FN i32x##N i32x##N##_abs(i32x##N v) { return (v ^ (v >> 31)) - (v >> 31); } \
  FN i32x##N f32x##N##_to_i32x##N(f32x##N v) { \
    const i32x##N above = v >= 2147483648.0f, below = v < -2147483648.0f, fits = (v >= -2147483648.0f) & ~above; \
    return (__builtin_convertvector((f32x##N)((i32x##N)v & fits), i32x##N)) | (above & INT32_MAX) | (below & INT32_MIN); \
  } \
  FN u32x##N f32x##N##_to_u32x##N(f32x##N v) { \
    const i32x##N above = v >= 4294967296.0f, high = (v >= 2147483648.0f) & ~above, low = (v > 0.0f) & ~(above | high); \
    const i32x##N small = __builtin_convertvector((f32x##N)((i32x##N)v & low), i32x##N); \
    const i32x##N large = __builtin_convertvector((f32x##N)((i32x##N)(v - 2147483648.0f) & high), i32x##N); \
    return (u32x##N)(small | large | (high & INT32_MIN) | above); \
  } \
  FN f32x##N i32x##N##_to_f32x##N(i32x##N v) { return __builtin_convertvector(v, f32x##N); } \
  FN f32x##N u32x##N##_to_f32x##N(u32x##N v) { return __builtin_convertvector(v, f32x##N); } \
  BY_ELEMENT(N, i32, div) BY_ELEMENT(N, i32, rem) BY_ELEMENT(N, u32, div) BY_ELEMENT(N, u32, rem) \
  BY_ELEMENT1(N, i32, popcount) BY_ELEMENT1(N, u32, popcount)
WIDTH(2) WIDTH(4) WIDTH(8) WIDTH(16)

// ---- narrow integers in memory
WIDENING_LOADS(2) WIDENING_LOADS(4)
#ifdef __AVX2__
FN u32x8 load_u8x8(const void *p) { return (u32x8)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
FN i32x8 load_i8x8(const void *p) { return (i32x8)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
FN u32x8 load_u16x8(const void *p) { return (u32x8)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
FN i32x8 load_i16x8(const void *p) { return (i32x8)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)); }
#else
WIDENING_LOADS(8)
#endif
#ifdef __AVX512F__
FN u32x16 load_u8x16(const void *p) { return (u32x16)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
FN i32x16 load_i8x16(const void *p) { return (i32x16)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
FN u32x16 load_u16x16(const void *p) { return (u32x16)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
FN i32x16 load_i16x16(const void *p) { return (i32x16)_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
#else
WIDENING_LOADS(16)
#endif

// ---- sums and largest elements, by halves
#define ACROSS(S, T) \
  FN S T##x2_hsum(T##x2 v) { return v[0] + v[1]; } \
  FN S T##x4_hsum(T##x4 v) { return T##x2_hsum(LOW2(v) + HIGH2(v)); } \
  FN S T##x8_hsum(T##x8 v) { return T##x4_hsum(LOW4(v) + HIGH4(v)); } \
  FN S T##x16_hsum(T##x16 v) { return T##x8_hsum(LOW8(v) + HIGH8(v)); } \
  FN S T##x2_hmax(T##x2 v) { return T##_max(v[0], v[1]); } \
  FN S T##x4_hmax(T##x4 v) { return T##x2_hmax(T##x2_max(LOW2(v), HIGH2(v))); } \
  FN S T##x8_hmax(T##x8 v) { return T##x4_hmax(T##x4_max(LOW4(v), HIGH4(v))); } \
  FN S T##x16_hmax(T##x16 v) { return T##x8_hmax(T##x8_max(LOW8(v), HIGH8(v))); }
ACROSS(float, f32) ACROSS(int32_t, i32) ACROSS(uint32_t, u32)
// of masks: whether any element holds, whether all do
#define DECIDE(name, operator) \
  FN bool i32x2_##name(i32x2 v) { return (v[0] operator v[1]) != 0; } \
  FN bool i32x4_##name(i32x4 v) { return i32x2_##name(LOW2(v) operator HIGH2(v)); } \
  FN bool i32x8_##name(i32x8 v) { return i32x4_##name(LOW4(v) operator HIGH4(v)); } \
  FN bool i32x16_##name(i32x16 v) { return i32x8_##name(LOW8(v) operator HIGH8(v)); }
DECIDE(hany, |) DECIDE(hall, &)

// ---- operations with instructions of their own: one form per register width, wider vectors by halves
#define HALVES1(name, T, N, H) \
  FN T##x##N T##x##N##_##name(T##x##N v) { return JOIN##H(T##x##H##_##name(LOW##H(v)), T##x##H##_##name(HIGH##H(v))); }
#define HALVES3(name, R, T, N, H) \
  FN R##x##N R##x##N##_##name(T##x##N a, T##x##N b, R##x##N c) { \
    return JOIN##H(R##x##H##_##name(LOW##H(a), LOW##H(b), LOW##H(c)), R##x##H##_##name(HIGH##H(a), HIGH##H(b), HIGH##H(c))); \
  }
#define ELEMENTS1(name, N) \
  FN f32x##N f32x##N##_##name(f32x##N v) { for (int i = 0; i < N; i++) v[i] = f32_##name(v[i]); return v; }
#define NATIVE1(name, N, expression) FN f32x##N f32x##N##_##name(f32x##N v) { return (f32x##N)(expression); }

#ifdef __AVX512F__
#define WIDE16(name, intrinsic512, intrinsic256) NATIVE1(name, 16, intrinsic512)
#else
#define WIDE16(name, intrinsic512, intrinsic256) HALVES1(name, f32, 16, 8)
#endif
#ifdef __AVX__
#define WIDE8(name, intrinsic512, intrinsic256) NATIVE1(name, 8, intrinsic256)
#else
#define WIDE8(name, intrinsic512, intrinsic256) HALVES1(name, f32, 8, 4)
#endif
#if defined(__SSE4_1__)
#define WIDE4(name, x86, arm) NATIVE1(name, 4, x86)
#elif defined(__aarch64__)
#define WIDE4(name, x86, arm) NATIVE1(name, 4, arm)
#else
#define WIDE4(name, x86, arm) ELEMENTS1(name, 4)
#endif
#define ROUNDING(name, x86, arm) \
  ELEMENTS1(name, 2) WIDE4(name, _mm_round_ps((__m128)v, x86), arm((float32x4_t)v)) \
  WIDE8(name, , _mm256_round_ps((__m256)v, x86)) WIDE16(name, _mm512_roundscale_ps((__m512)v, x86), )
ROUNDING(trunc, 11, vrndq_f32) ROUNDING(floor, 9, vrndmq_f32) ROUNDING(ceil, 10, vrndpq_f32) ROUNDING(rint, 8, vrndnq_f32)
ELEMENTS1(sqrt, 2) WIDE4(sqrt, _mm_sqrt_ps((__m128)v), vsqrtq_f32((float32x4_t)v))
WIDE8(sqrt, , _mm256_sqrt_ps((__m256)v)) WIDE16(sqrt, _mm512_sqrt_ps((__m512)v), )
#define RSQRT(N) FN f32x##N f32x##N##_rsqrt(f32x##N v) { return 1.0f / f32x##N##_sqrt(v); }
RSQRT(2) RSQRT(4) RSQRT(8) RSQRT(16)

#define FMA(N, expression) FN f32x##N f32x##N##_fma(f32x##N a, f32x##N b, f32x##N c) { return (f32x##N)(expression); }
#if defined(__FMA__)
FMA(2, ((f32x2){f32_fma(a[0], b[0], c[0]), f32_fma(a[1], b[1], c[1])}))
FMA(4, _mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c))
FMA(8, _mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c))
#ifdef __AVX512F__
FMA(16, _mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c))
#else
HALVES3(fma, f32, f32, 16, 8)
#endif
#elif defined(__aarch64__)
FMA(2, ((f32x2){f32_fma(a[0], b[0], c[0]), f32_fma(a[1], b[1], c[1])}))
FMA(4, vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b))
HALVES3(fma, f32, f32, 8, 4) HALVES3(fma, f32, f32, 16, 8)
#else
FMA(2, a * b + c) FMA(4, a * b + c) FMA(8, a * b + c) FMA(16, a * b + c)
#endif

// ---- halves in memory
#define HALF_MEMORY(N) \
  FN f32x##N load_f16x##N(const void *p) { f32x##N v = {0}; for (int i = 0; i < N; i++) v[i] = f16_to_f32(((const uint16_t *)p)[i]); return v; } \
  FN void store_f16x##N(void *p, f32x##N v) { for (int i = 0; i < N; i++) ((uint16_t *)p)[i] = f32_to_f16(v[i]); }
HALF_MEMORY(2)
#if defined(__F16C__)
FN f32x4 load_f16x4(const void *p) { return (f32x4)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p)); }
FN f32x8 load_f16x8(const void *p) { return (f32x8)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
#ifdef __AVX512F__
FN f32x16 load_f16x16(const void *p) { return (f32x16)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
FN void store_f16x16(void *p, f32x16 v) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)v, 0)); }
#else
FN f32x16 load_f16x16(const void *p) { return JOIN8(load_f16x8(p), load_f16x8((const uint16_t *)p + 8)); }
#endif
FN void store_f16x4(void *p, f32x4 v) { _mm_storel_epi64((__m128i *)p, _mm_cvtps_ph((__m128)v, 0)); }
FN void store_f16x8(void *p, f32x8 v) { _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)v, 0)); }
#ifndef __AVX512F__
FN void store_f16x16(void *p, f32x16 v) { store_f16x8(p, LOW8(v)); store_f16x8((uint16_t *)p + 8, HIGH8(v)); }
#endif
#elif defined(__aarch64__)
// Part of every ARMv8, unlike arithmetic with halves. Subnormal halves are numbers here whatever float.h tells the processor: FZ is
// about 32 bits, where they are normal.
FN f32x4 load_f16x4(const void *p) { float16x4_t v; __builtin_memcpy(&v, p, 8); return (f32x4)vcvt_f32_f16(v); }
FN void store_f16x4(void *p, f32x4 v) { const float16x4_t half = vcvt_f16_f32((float32x4_t)v); __builtin_memcpy(p, &half, 8); }
FN f32x8 load_f16x8(const void *p) { return JOIN4(load_f16x4(p), load_f16x4((const uint16_t *)p + 4)); }
FN f32x16 load_f16x16(const void *p) { return JOIN8(load_f16x8(p), load_f16x8((const uint16_t *)p + 8)); }
FN void store_f16x8(void *p, f32x8 v) { store_f16x4(p, LOW4(v)); store_f16x4((uint16_t *)p + 4, HIGH4(v)); }
FN void store_f16x16(void *p, f32x16 v) { store_f16x8(p, LOW8(v)); store_f16x8((uint16_t *)p + 8, HIGH8(v)); }
#else
HALF_MEMORY(4) HALF_MEMORY(8) HALF_MEMORY(16)
#endif

#include "prelude-int8.h"
#include "prelude-f64.h"
#endif
