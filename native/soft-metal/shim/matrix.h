// simdgroup_matrix with the lane map of real hardware: lane L holds row 4*(L>>4) + ((L>>1)&3) and two columns from
// 4*((L>>3)&1) + 2*(L&1). Loads and stores are per lane; a multiplication is a rendezvous that gathers both operands,
// multiplies in f32 with k ascending, and rounds once to the destination's type.
#pragma once
#include "simd.h"

namespace sm {
inline u32 tileRow(u32 lane) { return 4 * (lane >> 4) + (lane >> 1 & 3); }
inline u32 tileColumn(u32 lane) { return 4 * (lane >> 3 & 1) + 2 * (lane & 1); }
}  // namespace sm

namespace metal {

template <class T, int C, int R> struct simdgroup_matrix {
  static_assert(C == 8 && R == 8, "simdgroup_matrix is 8x8");
  vec<T, 2> own;
  simdgroup_matrix() {}
  explicit simdgroup_matrix(T diagonal) {
    sm::u32 lane = sm::self()->lane, row = sm::tileRow(lane), column = sm::tileColumn(lane);
    for (sm::u32 i = 0; i < 2; i++) own[static_cast<int>(i)] = row == column + i ? diagonal : T(0);
  }
  vec<T, 2>& thread_elements() { return own; }
  const vec<T, 2>& thread_elements() const { return own; }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <class T, int C, int R = C> inline simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, C, R> m;
  m.own = vec<T, 2>(value);
  return m;
}

template <class T, class P>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& d, P src, ulong stride = 8, ulong2 origin = ulong2(0ul), bool transpose = false,
  int line = __builtin_LINE()) {
  sm::u32 lane = sm::self()->lane, row = sm::tileRow(lane), column = sm::tileColumn(lane);
  for (sm::u32 i = 0; i < 2; i++) {
    sm::u32 r = transpose ? column + i : row, c = transpose ? row : column + i;
    ulong at = (origin.y + r) * stride + origin.x + c;
#if SM_CHECKED
    d.own[static_cast<int>(i)] = static_cast<T>(sm::val(src[sm::At(at, line)]));
#else
    (void)line;
    d.own[static_cast<int>(i)] = static_cast<T>(src[at]);
#endif
  }
}
template <class T, class P>
inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& a, P dst, ulong stride = 8, ulong2 origin = ulong2(0ul), bool transpose = false,
  int line = __builtin_LINE()) {
  sm::u32 lane = sm::self()->lane, row = sm::tileRow(lane), column = sm::tileColumn(lane);
  for (sm::u32 i = 0; i < 2; i++) {
    sm::u32 r = transpose ? column + i : row, c = transpose ? row : column + i;
    ulong at = (origin.y + r) * stride + origin.x + c;
#if SM_CHECKED
    dst[sm::At(at, line)] = a.own[static_cast<int>(i)];
#else
    (void)line;
    dst[at] = a.own[static_cast<int>(i)];
#endif
  }
}

template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
  const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c, int line = __builtin_LINE()) {
  struct Parts { float a[2], b[2], c[2]; };
  struct Tile { float at[64]; };
  sm::Lane* lane = sm::self();
  sm::Simd* s = lane->simd;
  Parts mine{{float(a.own.x), float(a.own.y)}, {float(b.own.x), float(b.own.y)}, {float(c.own.x), float(c.own.y)}};
  sm::u32 parity = sm::meet(lane, mine, line, "simdgroup_multiply_accumulate");
  if (!s->computed[parity]) {
    float x[64], y[64];
    float* sum = sm::result<Tile>(s, parity).at;
    for (sm::u32 l = 0; l < 32; l++) {
      const Parts& p = sm::slot<Parts>(s, parity, l);
      sm::u32 at = sm::tileRow(l) * 8 + sm::tileColumn(l);
      x[at] = p.a[0], x[at + 1] = p.a[1], y[at] = p.b[0], y[at + 1] = p.b[1], sum[at] = p.c[0], sum[at + 1] = p.c[1];
    }
    for (int r = 0; r < 8; r++)
      for (int k = 0; k < 8; k++)
        for (int n = 0; n < 8; n++) sum[r * 8 + n] += x[r * 8 + k] * y[k * 8 + n];
    s->computed[parity] = true;
  }
  const float* sum = sm::result<Tile>(s, parity).at + sm::tileRow(lane->lane) * 8 + sm::tileColumn(lane->lane);
  d.own = vec<D, 2>(static_cast<D>(sum[0]), static_cast<D>(sum[1]));
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b,
  int line = __builtin_LINE()) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8>(0.0f), line);
}

}  // namespace metal
