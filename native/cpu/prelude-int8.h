// Part of prelude.h: bytes. Dot products of four bytes per 32-bit lane (dpbusd on VNNI, maddubs on AVX2, sdot and usdot on NEON), table
// lookups by bytes (pshufb, tbl), and the atomic minimum and maximum that C lacks. Included by prelude.h only.
#ifndef INGOT_PRELUDE_INT8_H
#define INGOT_PRELUDE_INT8_H

// ---- one word
#define DOT_WORD(name, A) \
  FN int32_t i32_##name(uint32_t a, uint32_t b, int32_t c) { \
    for (int s = 0; s < 32; s += 8) c += (A)(a >> s) * (int8_t)(b >> s); \
    return c; \
  } \
  FN i32x2 i32x2_##name(u32x2 a, u32x2 b, i32x2 c) { return (i32x2){i32_##name(a[0], b[0], c[0]), i32_##name(a[1], b[1], c[1])}; }
DOT_WORD(dotI8, int8_t) DOT_WORD(dotU8I8, uint8_t) DOT_WORD(dotU7I8, uint8_t)

// What was added stays added: GCC would make a tree of a chain of sums, whose leaves are more than registers hold.
#define IN_ORDER(v) ({ __typeof__(v) sum = (v); __asm__("" : "+x"(sum)); sum; })
// ---- vectors. Bytes at even and at odd places as 16-bit numbers: their products in pairs are two multiply-adds, exact for all bytes.
#define DOT_X86(N, M, P, S) \
  FN i32x##N i32x##N##_dotU8I8(u32x##N a, u32x##N b, i32x##N c) { \
    const M even = P##madd_epi16(P##and_##S((M)a, P##set1_epi16(255)), P##srai_epi16(P##slli_epi16((M)b, 8), 8)); \
    const M odd = P##madd_epi16(P##srli_epi16((M)a, 8), P##srai_epi16((M)b, 8)); \
    return IN_ORDER(c + ((i32x##N)even + (i32x##N)odd)); \
  } \
  FN i32x##N i32x##N##_dotI8(u32x##N a, u32x##N b, i32x##N c) { \
    const M even = P##madd_epi16(P##srai_epi16(P##slli_epi16((M)a, 8), 8), P##srai_epi16(P##slli_epi16((M)b, 8), 8)); \
    const M odd = P##madd_epi16(P##srai_epi16((M)a, 8), P##srai_epi16((M)b, 8)); \
    return IN_ORDER(c + ((i32x##N)even + (i32x##N)odd)); \
  }
// the first operand below 128: pairs of products fit 16 bits
#define DOT_X86_U7(N, M, P) \
  FN i32x##N i32x##N##_dotU7I8(u32x##N a, u32x##N b, i32x##N c) { \
    return IN_ORDER(c + (i32x##N)P##madd_epi16(P##maddubs_epi16((M)a, (M)b), P##set1_epi16(1))); \
  }
#define SAME_AS_U8(N) \
  FN i32x##N i32x##N##_dotU7I8(u32x##N a, u32x##N b, i32x##N c) { return i32x##N##_dotU8I8(a, b, c); }
// signed bytes plus 128 are unsigned; what that adds is taken away again
#define DOT_VNNI(N, M, P, dpbusd) \
  FN i32x##N i32x##N##_dotU8I8(u32x##N a, u32x##N b, i32x##N c) { return (i32x##N)P##dpbusd((M)c, (M)a, (M)b); } \
  FN i32x##N i32x##N##_dotI8(u32x##N a, u32x##N b, i32x##N c) { \
    const i32x##N added = (i32x##N)P##dpbusd((M)(i32x##N){0}, P##set1_epi8(-128), (M)b); \
    return i32x##N##_dotU8I8(a ^ 0x80808080u, b, c) - added; \
  } \
  SAME_AS_U8(N)
#define DOT_HALVES(N, H) HALVES3(dotI8, i32, u32, N, H) HALVES3(dotU8I8, i32, u32, N, H) HALVES3(dotU7I8, i32, u32, N, H)
#define DOT_ELEMENTS(name, N) \
  FN i32x##N i32x##N##_##name(u32x##N a, u32x##N b, i32x##N c) { for (int i = 0; i < N; i++) c[i] = i32_##name(a[i], b[i], c[i]); return c; }

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
DOT_VNNI(4, __m128i, _mm_, dpbusd_epi32) DOT_VNNI(8, __m256i, _mm256_, dpbusd_epi32) DOT_VNNI(16, __m512i, _mm512_, dpbusd_epi32)
#elif defined(__AVXVNNI__)
DOT_VNNI(4, __m128i, _mm_, dpbusd_avx_epi32) DOT_VNNI(8, __m256i, _mm256_, dpbusd_avx_epi32) DOT_HALVES(16, 8)
#elif defined(__AVX2__)
DOT_X86(4, __m128i, _mm_, si128) DOT_X86_U7(4, __m128i, _mm_)
DOT_X86(8, __m256i, _mm256_, si256) DOT_X86_U7(8, __m256i, _mm256_)
DOT_HALVES(16, 8)
#elif defined(__SSE2__)
DOT_X86(4, __m128i, _mm_, si128)
#ifdef __SSSE3__
DOT_X86_U7(4, __m128i, _mm_)
#else
SAME_AS_U8(4)
#endif
DOT_HALVES(8, 4) DOT_HALVES(16, 8)
#elif defined(__ARM_FEATURE_DOTPROD)
FN i32x4 i32x4_dotI8(u32x4 a, u32x4 b, i32x4 c) { return (i32x4)vdotq_s32((int32x4_t)c, (int8x16_t)a, (int8x16_t)b); }
FN i32x4 i32x4_dotU7I8(u32x4 a, u32x4 b, i32x4 c) { return i32x4_dotI8(a, b, c); }
#ifdef __ARM_FEATURE_MATMUL_INT8
FN i32x4 i32x4_dotU8I8(u32x4 a, u32x4 b, i32x4 c) { return (i32x4)vusdotq_s32((int32x4_t)c, (uint8x16_t)a, (int8x16_t)b); }
#else
// unsigned bytes less 128 are signed; what that takes away is added again
FN i32x4 i32x4_dotU8I8(u32x4 a, u32x4 b, i32x4 c) {
  const int32x4_t taken = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), (int8x16_t)b);
  return i32x4_dotI8(a ^ 0x80808080u, b, c) - (i32x4)taken;
}
#endif
DOT_HALVES(8, 4) DOT_HALVES(16, 8)
#elif defined(__aarch64__)
// products of signed bytes fit 16 bits, also those of -128; pairs of them are added on the way to 32, then pairs of pairs
FN i32x4 i32x4_dotI8(u32x4 a, u32x4 b, i32x4 c) {
  const int16x8_t low = vmull_s8(vget_low_s8((int8x16_t)a), vget_low_s8((int8x16_t)b)), high = vmull_high_s8((int8x16_t)a, (int8x16_t)b);
  return c + (i32x4)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}
FN i32x4 i32x4_dotU7I8(u32x4 a, u32x4 b, i32x4 c) { return i32x4_dotI8(a, b, c); }
FN i32x4 i32x4_dotU8I8(u32x4 a, u32x4 b, i32x4 c) {
  const int32x4_t sums = vpaddlq_s16(vpaddlq_s8((int8x16_t)b)); // 128 times these were taken away
  return i32x4_dotI8(a ^ 0x80808080u, b, c) + ((i32x4)sums << 7);
}
DOT_HALVES(8, 4) DOT_HALVES(16, 8)
#else
DOT_ELEMENTS(dotI8, 4) DOT_ELEMENTS(dotU8I8, 4) DOT_ELEMENTS(dotU7I8, 4) DOT_HALVES(8, 4) DOT_HALVES(16, 8)
#endif

// ---- two 16-bit numbers in a lane: sums of two products of bytes (maddubs), their sums, and their products with others (madd). Elsewhere
// kernels have no use for them: they are right there, and slow.
#define PAIRS_WORD(name, A) \
  FN uint32_t u32_##name(uint32_t a, uint32_t b) { \
    const uint32_t low = (uint32_t)((A)a * (int8_t)b + (A)(a >> 8) * (int8_t)(b >> 8)); \
    return (low & 0xffff) | (uint32_t)((A)(a >> 16) * (int8_t)(b >> 16) + (A)(a >> 24) * (int8_t)(b >> 24)) << 16; \
  }
PAIRS_WORD(pairsU7I8, uint8_t) PAIRS_WORD(pairsI8, int8_t)
FN uint32_t u32_addPairs(uint32_t a, uint32_t b) { return ((a + b) & 0xffff) | ((a & 0xffff0000u) + (b & 0xffff0000u)); }
FN int32_t i32_dotI16(uint32_t a, uint32_t b, int32_t c) { return c + (int16_t)a * (int16_t)b + (int16_t)(a >> 16) * (int16_t)(b >> 16); }
#define PAIRS_ELEMENTS(name, N) \
  FN u32x##N u32x##N##_##name(u32x##N a, u32x##N b) { for (int i = 0; i < N; i++) a[i] = u32_##name(a[i], b[i]); return a; }
#define PAIRS_EACH(N) PAIRS_ELEMENTS(pairsU7I8, N) PAIRS_ELEMENTS(pairsI8, N) PAIRS_ELEMENTS(addPairs, N) DOT_ELEMENTS(dotI16, N)
// the sign of the second operand goes to the first, which is above -128; then the second is unsigned
#define PAIRS_X86(N, M, P) \
  FN u32x##N u32x##N##_pairsU7I8(u32x##N a, u32x##N b) { return (u32x##N)P##maddubs_epi16((M)a, (M)b); } \
  FN u32x##N u32x##N##_pairsI8(u32x##N a, u32x##N b) { \
    return (u32x##N)P##maddubs_epi16(P##abs_epi8((M)b), P##sign_epi8((M)a, (M)b)); \
  } \
  FN u32x##N u32x##N##_addPairs(u32x##N a, u32x##N b) { return IN_ORDER((u32x##N)P##add_epi16((M)a, (M)b)); } \
  FN i32x##N i32x##N##_dotI16(u32x##N a, u32x##N b, i32x##N c) { return IN_ORDER(c + (i32x##N)P##madd_epi16((M)a, (M)b)); }
PAIRS_EACH(2) PAIRS_EACH(16)
#ifdef __AVX2__
PAIRS_X86(4, __m128i, _mm_) PAIRS_X86(8, __m256i, _mm256_)
#else
PAIRS_EACH(4) PAIRS_EACH(8)
#endif

// ---- each byte (0..15) replaced by an entry of a table of 16 bytes
FN uint32_t u32_lookup16(uint32_t a, const uint8_t *table) {
  uint32_t result = 0;
  for (int s = 0; s < 32; s += 8) result |= (uint32_t)table[a >> s & 15] << s;
  return result;
}
FN u32x2 u32x2_lookup16(u32x2 a, const uint8_t *table) { return (u32x2){u32_lookup16(a[0], table), u32_lookup16(a[1], table)}; }
FN u32x4 u32x4_lookup16(u32x4 a, const uint8_t *table) {
#if defined(__SSSE3__)
  return (u32x4)_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)table), (__m128i)a);
#elif defined(__aarch64__)
  return (u32x4)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)a);
#else
  for (int i = 0; i < 4; i++) a[i] = u32_lookup16(a[i], table);
  return a;
#endif
}
FN u32x8 u32x8_lookup16(u32x8 a, const uint8_t *table) {
#ifdef __AVX2__
  return (u32x8)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), (__m256i)a);
#else
  return JOIN4(u32x4_lookup16(LOW4(a), table), u32x4_lookup16(HIGH4(a), table));
#endif
}
FN u32x16 u32x16_lookup16(u32x16 a, const uint8_t *table) {
#ifdef __AVX512BW__
  return (u32x16)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), (__m512i)a);
#else
  return JOIN8(u32x8_lookup16(LOW8(a), table), u32x8_lookup16(HIGH8(a), table));
#endif
}

// ---- atomics; the order of different places is not promised
#define ATOMIC_ORDER(T, name, op, operator) \
  FN T name##_atomic_##op(T *p, T v) { \
    T old = __atomic_load_n(p, __ATOMIC_RELAXED); \
    while (v operator old && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
    return old; \
  }
ATOMIC_ORDER(int32_t, i32, min, <) ATOMIC_ORDER(int32_t, i32, max, >)
ATOMIC_ORDER(uint32_t, u32, min, <) ATOMIC_ORDER(uint32_t, u32, max, >)
#endif
