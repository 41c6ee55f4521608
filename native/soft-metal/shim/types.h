// MSL's scalar and vector types with their sizes and alignments: half, bfloat, vec<T,N>, packed_vec<T,N>, matrices.
// Knows nothing of address spaces; `sm::val` is the hook through which checked references become values.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "abi.h"

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using half = _Float16;

/** bfloat with round-to-nearest-even. */
struct bfloat {
  uint16_t bits;
  bfloat() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value || std::is_same<T, half>::value>>
  bfloat(T value) {
    float f = static_cast<float>(value);
    uint32_t u;
    std::memcpy(&u, &f, 4);
    bits = f != f ? static_cast<uint16_t>(u >> 16 | 0x40) : static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  operator float() const {
    uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  bfloat& operator+=(float v) { return *this = bfloat(float(*this) + v); }
  bfloat& operator-=(float v) { return *this = bfloat(float(*this) - v); }
  bfloat& operator*=(float v) { return *this = bfloat(float(*this) * v); }
  bfloat& operator/=(float v) { return *this = bfloat(float(*this) / v); }
};

namespace sm {

// A checked reference (pointer.h) derives from this; everything else is its own value.
struct RefTag {};
template <class T> constexpr bool isRef = std::is_base_of<RefTag, std::decay_t<T>>::value;
template <class T> inline decltype(auto) val(const T& x) {
  if constexpr (isRef<T>) return x.load();
  else return static_cast<const T&>(x);
}
template <class T> using Val = std::decay_t<decltype(val(std::declval<const T&>()))>;

template <class T> constexpr bool isScalar = std::is_arithmetic<T>::value || std::is_same<T, half>::value ||
  std::is_same<T, bfloat>::value || std::is_enum<T>::value;

template <class T, int N> struct Lanes;
template <class T> struct Lanes<T, 2> { union { T v[2]; struct { T x, y; }; struct { T r, g; }; }; };
template <class T> struct Lanes<T, 3> { union { T v[3]; struct { T x, y, z; }; struct { T r, g, b; }; }; };
template <class T> struct Lanes<T, 4> { union { T v[4]; struct { T x, y, z, w; }; struct { T r, g, b, a; }; }; };

template <class A> struct Shape { static constexpr int n = 1; using scalar = A; };

}  // namespace sm

namespace metal {

template <class T, int N> struct packed_vec;

template <class T, int N> struct alignas(sizeof(T) * (N == 3 ? 4 : N)) vec : sm::Lanes<T, N> {
  using sm::Lanes<T, N>::v;
  vec() {}
  vec(const vec&) = default;
  vec& operator=(const vec&) = default;
  template <class S, class = std::enable_if_t<sm::isScalar<S>>> vec(S s) { for (int i = 0; i < N; i++) v[i] = static_cast<T>(s); }
  template <class U, class = std::enable_if_t<!std::is_same<U, T>::value>> explicit vec(const vec<U, N>& o) {
    for (int i = 0; i < N; i++) v[i] = static_cast<T>(o.v[i]);
  }
  vec(const packed_vec<T, N>& o) { for (int i = 0; i < N; i++) v[i] = o.v[i]; }
  template <class U, class = std::enable_if_t<!std::is_same<U, T>::value>> explicit vec(const packed_vec<U, N>& o) {
    for (int i = 0; i < N; i++) v[i] = static_cast<T>(o.v[i]);
  }
  template <class R, class = std::enable_if_t<sm::isRef<R> && !std::is_same<sm::Val<R>, vec>::value>, class = void> vec(const R& r) : vec(sm::val(r)) {}
  // Several parts, each a scalar or a shorter vector: vec(a, b, c, d), vec(ab, cd), vec(abc, d).
  template <class A, class B, class... C> vec(const A& a, const B& b, const C&... c) {
    int at = 0;
    put(at, sm::val(a)), put(at, sm::val(b)), (put(at, sm::val(c)), ...);
  }
  T& operator[](int i) { return v[i]; }
  const T& operator[](int i) const { return v[i]; }
 private:
  template <class S> void put(int& at, const S& s) {
    if constexpr (sm::Shape<S>::n == 1) v[at++] = static_cast<T>(s);
    else for (int i = 0; i < sm::Shape<S>::n; i++) v[at++] = static_cast<T>(s.v[i]);
  }
};

template <class T, int N> struct packed_vec : sm::Lanes<T, N> {
  using sm::Lanes<T, N>::v;
  packed_vec() {}
  packed_vec(const vec<T, N>& o) { for (int i = 0; i < N; i++) v[i] = o.v[i]; }
  template <class S, class = std::enable_if_t<sm::isScalar<S>>> packed_vec(S s) : packed_vec(vec<T, N>(s)) {}
  template <class A, class B, class... C> packed_vec(const A& a, const B& b, const C&... c) : packed_vec(vec<T, N>(a, b, c...)) {}
  T& operator[](int i) { return v[i]; }
  const T& operator[](int i) const { return v[i]; }
};

}  // namespace metal

namespace sm {

template <class T, int N> struct Shape<metal::vec<T, N>> { static constexpr int n = N; using scalar = T; };
template <class T, int N> struct Shape<metal::packed_vec<T, N>> { static constexpr int n = N; using scalar = T; };
template <class A> constexpr int width = Shape<std::decay_t<A>>::n;
template <class A> using Scalar = typename Shape<std::decay_t<A>>::scalar;
// Packed vectors compute as plain ones.
template <class A> inline auto plain(const A& a) {
  if constexpr (width<A> > 1) return metal::vec<Scalar<A>, width<A>>(a);
  else return a;
}
template <class A> using Plain = decltype(plain(std::declval<Val<A>>()));
template <class A, class B> constexpr bool anyWide = (width<Val<A>> > 1) || (width<Val<B>> > 1);

/** Element i of a vector, or the scalar itself. */
template <class T, class A> inline T pick(const A& a, int i) {
  if constexpr (width<A> > 1) return static_cast<T>(a.v[i]);
  else return static_cast<T>(a);
}
// The vector operand decides the element type of a mixed operation; two scalars follow C.
template <class A, class B> struct Common {
  using type = std::conditional_t<(width<A> > 1), Scalar<A>, Scalar<B>>;
  static constexpr int n = width<A> > 1 ? width<A> : width<B>;
};

template <class F, class A> inline auto map(F f, const A& a) {
  if constexpr (width<A> > 1) {
    metal::vec<decltype(f(a.v[0])), width<A>> r;
    for (int i = 0; i < width<A>; i++) r.v[i] = f(a.v[i]);
    return r;
  } else return f(a);
}
template <class T, int N, class F, class A, class B> inline auto zip(F f, const A& a, const B& b) {
  metal::vec<decltype(f(T(), T())), N> r;
  for (int i = 0; i < N; i++) r.v[i] = f(pick<T>(a, i), pick<T>(b, i));
  return r;
}

template <class A, class B> constexpr bool overloads = isRef<A> || isRef<B> || anyWide<A, B>;

}  // namespace sm

// Operators live where argument-dependent lookup finds them for vectors (metal) and checked references (sm).
#define SM_BINARY(OP)                                                                                      \
  template <class A, class B, class = std::enable_if_t<sm::overloads<A, B>>>                               \
  inline auto operator OP(const A& a, const B& b) {                                                        \
    if constexpr (sm::anyWide<A, B>) {                                                                     \
      using C = sm::Common<sm::Val<A>, sm::Val<B>>;                                                        \
      using T = typename C::type;                                                                          \
      auto f = [](T x, T y) {                                                                              \
        using R = decltype(x OP y);                                                                        \
        return static_cast<std::conditional_t<std::is_same<R, bool>::value, bool, T>>(x OP y);             \
      };                                                                                                   \
      return sm::zip<T, C::n>(f, sm::val(a), sm::val(b));                                                  \
    } else return sm::val(a) OP sm::val(b);                                                                \
  }
#define SM_UNARY(OP)                                                                                       \
  template <class A, class = std::enable_if_t<sm::overloads<A, A>>> inline auto operator OP(const A& a) {  \
    if constexpr (sm::width<sm::Val<A>> > 1) {                                                             \
      using T = sm::Scalar<sm::Val<A>>;                                                                    \
      auto f = [](T x) {                                                                                   \
        using R = decltype(OP x);                                                                          \
        return static_cast<std::conditional_t<std::is_same<R, bool>::value, bool, T>>(OP x);               \
      };                                                                                                   \
      return sm::map(f, sm::val(a));                                                                       \
    } else return OP sm::val(a);                                                                           \
  }
#define SM_ASSIGN(OP)                                                                                      \
  template <class T, int N, class B> inline metal::vec<T, N>& operator OP##=(metal::vec<T, N>& a, const B& b) { \
    return a = a OP b;                                                                                     \
  }
#define SM_OPERATORS                                                                                       \
  SM_BINARY(+) SM_BINARY(-) SM_BINARY(*) SM_BINARY(/) SM_BINARY(%) SM_BINARY(&) SM_BINARY(|) SM_BINARY(^)  \
  SM_BINARY(<<) SM_BINARY(>>) SM_BINARY(==) SM_BINARY(!=) SM_BINARY(<) SM_BINARY(>) SM_BINARY(<=)          \
  SM_BINARY(>=) SM_BINARY(&&) SM_BINARY(||) SM_UNARY(-) SM_UNARY(~) SM_UNARY(!)

namespace sm { SM_OPERATORS }
namespace metal {
using sm::operator+; using sm::operator-; using sm::operator*; using sm::operator/; using sm::operator%;
using sm::operator&; using sm::operator|; using sm::operator^; using sm::operator<<; using sm::operator>>;
using sm::operator==; using sm::operator!=; using sm::operator<; using sm::operator>; using sm::operator<=;
using sm::operator>=; using sm::operator&&; using sm::operator||; using sm::operator~; using sm::operator!;
SM_ASSIGN(+) SM_ASSIGN(-) SM_ASSIGN(*) SM_ASSIGN(/) SM_ASSIGN(%) SM_ASSIGN(&) SM_ASSIGN(|) SM_ASSIGN(^)
SM_ASSIGN(<<) SM_ASSIGN(>>)

#define SM_VECTORS(T)                                                                                      \
  using T##2 = vec<T, 2>; using T##3 = vec<T, 3>; using T##4 = vec<T, 4>;                                  \
  using packed_##T##2 = packed_vec<T, 2>; using packed_##T##3 = packed_vec<T, 3>; using packed_##T##4 = packed_vec<T, 4>;
SM_VECTORS(bool) SM_VECTORS(char) SM_VECTORS(uchar) SM_VECTORS(short) SM_VECTORS(ushort) SM_VECTORS(int)
SM_VECTORS(uint) SM_VECTORS(long) SM_VECTORS(ulong) SM_VECTORS(half) SM_VECTORS(bfloat) SM_VECTORS(float)

/** C columns of R rows, m[c][r]. */
template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  matrix() {}
  explicit matrix(T diagonal) {
    for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) columns[c][r] = c == r ? diagonal : T(0);
  }
  template <class U> explicit matrix(const matrix<U, C, R>& o) { for (int c = 0; c < C; c++) columns[c] = vec<T, R>(o.columns[c]); }
  vec<T, R>& operator[](int c) { return columns[c]; }
  const vec<T, R>& operator[](int c) const { return columns[c]; }
};
#define SM_MATRICES(T)                                                                                     \
  using T##2x2 = matrix<T, 2, 2>; using T##2x3 = matrix<T, 2, 3>; using T##2x4 = matrix<T, 2, 4>;          \
  using T##3x2 = matrix<T, 3, 2>; using T##3x3 = matrix<T, 3, 3>; using T##3x4 = matrix<T, 3, 4>;          \
  using T##4x2 = matrix<T, 4, 2>; using T##4x3 = matrix<T, 4, 3>; using T##4x4 = matrix<T, 4, 4>;
SM_MATRICES(float) SM_MATRICES(half)

template <class T, size_t N> struct array {
  T items[N];
  T& operator[](size_t i) { return items[i]; }
  const T& operator[](size_t i) const { return items[i]; }
  constexpr size_t size() const { return N; }
};

template <class To, class From> inline To as_type(const From& from) {
  auto v = sm::val(from);
  static_assert(sizeof(To) == sizeof(v), "as_type wants types of one size");
  To to;
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&v), sizeof to);
  return to;
}

using std::conditional_t; using std::enable_if; using std::enable_if_t; using std::is_same; using std::is_same_v;
using std::numeric_limits; using std::integral_constant; using std::true_type; using std::false_type; using std::remove_cv_t;
using std::is_floating_point; using std::is_integral; using std::is_signed; using std::is_unsigned; using std::make_unsigned_t;

}  // namespace metal

template <> struct std::numeric_limits<half> {
  static constexpr bool is_specialized = true;
  static half max() { return static_cast<half>(65504.0f); }
  static half lowest() { return static_cast<half>(-65504.0f); }
  static half min() { return static_cast<half>(6.103515625e-5f); }
  static half epsilon() { return static_cast<half>(9.765625e-4f); }
  static half infinity() { return static_cast<half>(INFINITY); }
  static half quiet_NaN() { return static_cast<half>(NAN); }
};
