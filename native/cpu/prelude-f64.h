// Part of prelude.h: 64-bit floats. As vectors of booleans are masks of 32 bits whatever was compared, a comparison of f64 narrows its
// result and a selection widens it. The elementary functions are libm's, one element at a time: the one part that must be linked (-lm).
#ifndef INGOT_PRELUDE_F64_H
#define INGOT_PRELUDE_F64_H

#define F64_TYPES(N) VECTOR(double, f64, N, 8 * N) VECTOR(int64_t, i64, N, 8 * N)
F64_TYPES(2) F64_TYPES(4) F64_TYPES(8) F64_TYPES(16)

#define INFINITE_F64 __builtin_inf()
#define NOT_A_NUMBER_F64 __builtin_nan("")

// ---- scalars
SCALAR_ORDER(double, f64)
FN uint64_t f64_bits(double x) { uint64_t bits; __builtin_memcpy(&bits, &x, 8); return bits; }
FN double f64_of_bits(uint64_t bits) { double x; __builtin_memcpy(&x, &bits, 8); return x; }
FN double f64_abs(double x) { return f64_of_bits(f64_bits(x) & INT64_MAX); }
FN int32_t f64_to_i32(double x) { return x >= 2147483647.0 ? INT32_MAX : x > -2147483649.0 ? (int32_t)x : x < 0 ? INT32_MIN : 0; }
FN uint32_t f64_to_u32(double x) { return x >= 4294967295.0 ? UINT32_MAX : x > 0 ? (uint32_t)x : 0; }
FN double f64_sqrt(double x) {
#ifdef __SSE2__
  return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));
#else
  return __builtin_sqrt(x);
#endif
}
FN double f64_rsqrt(double x) { return 1.0 / f64_sqrt(x); }
FN double f64_fma(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
#if defined(__SSE4_1__) || defined(__aarch64__)
FN double f64_trunc(double x) { return __builtin_trunc(x); }
FN double f64_floor(double x) { return __builtin_floor(x); }
FN double f64_ceil(double x) { return __builtin_ceil(x); }
FN double f64_rint(double x) { return __builtin_rint(x); }
#else
// as for f32: from 2^52 on all are whole
FN double f64_whole_or(double x, double result) {
  return f64_abs(x) < 4503599627370496.0 ? f64_of_bits(f64_bits(f64_abs(result)) | (f64_bits(x) & 1ull << 63)) : x;
}
FN double f64_trunc(double x) { return f64_abs(x) < 4503599627370496.0 ? f64_whole_or(x, (double)(int64_t)x) : x; }
FN double f64_floor(double x) { const double t = f64_trunc(x); return f64_whole_or(x, t > x ? t - 1 : t); }
FN double f64_ceil(double x) { const double t = f64_trunc(x); return f64_whole_or(x, t < x ? t + 1 : t); }
FN double f64_rint(double x) { return f64_whole_or(x, f64_abs(x) + 4503599627370496.0 - 4503599627370496.0); }
#endif

// ---- vectors of every width
#define F64_WIDTH(N) \
  PLAIN_MEMORY(f64x##N) \
  FN f64x##N f64x##N##_splat(double x) { return x - (f64x##N){0}; } \
  FN f64x##N f64x##N##_choose(i64x##N m, f64x##N a, f64x##N b) { return (f64x##N)(((i64x##N)a & m) | ((i64x##N)b & ~m)); } \
  FN f64x##N f64x##N##_select(i32x##N m, f64x##N a, f64x##N b) { return f64x##N##_choose(__builtin_convertvector(m, i64x##N), a, b); } \
  FN f64x##N f64x##N##_min(f64x##N a, f64x##N b) { return f64x##N##_choose(b < a, b, a); } \
  FN f64x##N f64x##N##_max(f64x##N a, f64x##N b) { return f64x##N##_choose(b > a, b, a); } \
  FN f64x##N f64x##N##_abs(f64x##N v) { return (f64x##N)((i64x##N)v & INT64_MAX); } \
  FN f64x##N f32x##N##_to_f64x##N(f32x##N v) { return __builtin_convertvector(v, f64x##N); } \
  FN f64x##N i32x##N##_to_f64x##N(i32x##N v) { return __builtin_convertvector(v, f64x##N); } \
  FN f64x##N u32x##N##_to_f64x##N(u32x##N v) { return __builtin_convertvector(v, f64x##N); } \
  FN f32x##N f64x##N##_to_f32x##N(f64x##N v) { return __builtin_convertvector(v, f32x##N); } \
  FN i32x##N f64x##N##_to_i32x##N(f64x##N v) { i32x##N r = {0}; for (int i = 0; i < N; i++) r[i] = f64_to_i32(v[i]); return r; } \
  FN u32x##N f64x##N##_to_u32x##N(f64x##N v) { u32x##N r = {0}; for (int i = 0; i < N; i++) r[i] = f64_to_u32(v[i]); return r; }
F64_WIDTH(2) F64_WIDTH(4) F64_WIDTH(8) F64_WIDTH(16)
ACROSS(double, f64)

// ---- operations with instructions of their own
#define F64_NATIVE1(name, N, expression) FN f64x##N f64x##N##_##name(f64x##N v) { return (f64x##N)(expression); }
#if defined(__SSE4_1__)
#define F64_WIDE2(name, x86, arm) F64_NATIVE1(name, 2, x86)
#elif defined(__aarch64__)
#define F64_WIDE2(name, x86, arm) F64_NATIVE1(name, 2, arm)
#else
#define F64_WIDE2(name, x86, arm) BY_ELEMENT1(2, f64, name)
#endif
#ifdef __AVX__
#define F64_WIDE4(name, expression) F64_NATIVE1(name, 4, expression)
#else
#define F64_WIDE4(name, expression) HALVES1(name, f64, 4, 2)
#endif
#ifdef __AVX512F__
#define F64_WIDE8(name, expression) F64_NATIVE1(name, 8, expression)
#else
#define F64_WIDE8(name, expression) HALVES1(name, f64, 8, 4)
#endif
#define F64_ROUNDING(name, x86, arm) \
  F64_WIDE2(name, _mm_round_pd((__m128d)v, x86), arm((float64x2_t)v)) F64_WIDE4(name, _mm256_round_pd((__m256d)v, x86)) \
  F64_WIDE8(name, _mm512_roundscale_pd((__m512d)v, x86)) HALVES1(name, f64, 16, 8)
F64_ROUNDING(trunc, 11, vrndq_f64) F64_ROUNDING(floor, 9, vrndmq_f64) F64_ROUNDING(ceil, 10, vrndpq_f64) F64_ROUNDING(rint, 8, vrndnq_f64)
F64_WIDE2(sqrt, _mm_sqrt_pd((__m128d)v), vsqrtq_f64((float64x2_t)v)) F64_WIDE4(sqrt, _mm256_sqrt_pd((__m256d)v))
F64_WIDE8(sqrt, _mm512_sqrt_pd((__m512d)v)) HALVES1(sqrt, f64, 16, 8)
#define F64_RSQRT(N) FN f64x##N f64x##N##_rsqrt(f64x##N v) { return 1.0 / f64x##N##_sqrt(v); }
F64_RSQRT(2) F64_RSQRT(4) F64_RSQRT(8) F64_RSQRT(16)

#define F64_FMA(N, expression) FN f64x##N f64x##N##_fma(f64x##N a, f64x##N b, f64x##N c) { return (f64x##N)(expression); }
#if defined(__FMA__)
F64_FMA(2, _mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c))
F64_FMA(4, _mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c))
#ifdef __AVX512F__
F64_FMA(8, _mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c))
#else
HALVES3(fma, f64, f64, 8, 4)
#endif
HALVES3(fma, f64, f64, 16, 8)
#elif defined(__aarch64__)
F64_FMA(2, vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b))
HALVES3(fma, f64, f64, 4, 2) HALVES3(fma, f64, f64, 8, 4) HALVES3(fma, f64, f64, 16, 8)
#else
F64_FMA(2, a * b + c) F64_FMA(4, a * b + c) F64_FMA(8, a * b + c) F64_FMA(16, a * b + c)
#endif

// ---- elementary functions
#define F64_FUNCTION(name) \
  FN double f64_##name(double x) { return __builtin_##name(x); } \
  BY_ELEMENT1(2, f64, name) BY_ELEMENT1(4, f64, name) BY_ELEMENT1(8, f64, name) BY_ELEMENT1(16, f64, name)
F64_FUNCTION(exp) F64_FUNCTION(exp2) F64_FUNCTION(log) F64_FUNCTION(log2) F64_FUNCTION(tanh)
F64_FUNCTION(sin) F64_FUNCTION(cos) F64_FUNCTION(tan) F64_FUNCTION(asin) F64_FUNCTION(acos) F64_FUNCTION(atan)
// C says 1 where the kernel language, like JavaScript, has no number: 1 to the NaN, and -1 and 1 to infinity
FN double f64_pow(double a, double b) {
  return b != b || (f64_abs(a) == 1 && f64_abs(b) == INFINITE_F64) ? NOT_A_NUMBER_F64 : __builtin_pow(a, b);
}
BY_ELEMENT(2, f64, pow) BY_ELEMENT(4, f64, pow) BY_ELEMENT(8, f64, pow) BY_ELEMENT(16, f64, pow)

#endif
