// MSL's math, integer, geometric and relational functions over scalars and vectors. Half computes through float and is
// rounded once per call. Transcendentals are the C library's in float: nearer to exact than a GPU's.
#pragma once
#include "types.h"

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#define MAXFLOAT_SM 3.402823466e+38f
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-7f
#endif
#undef MAXFLOAT
#define MAXFLOAT 3.402823466e+38f
#define HALF_MAX 65504.0f
#define MAXHALF static_cast<half>(65504.0f)
#define HALF_MIN 6.103515625e-5f
#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#endif
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_1_PI_F 0.318309886183790671538f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.30258509299404568402f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524401f

namespace sm {

// float for half and bfloat, the type itself otherwise: where a function is computed.
template <class T> using Wide = std::conditional_t<std::is_same<T, half>::value || std::is_same<T, bfloat>::value, float, T>;
template <class A> inline auto arg(const A& a) { return plain(val(a)); }

// The result of a function of two arguments: the vector's, else the wider by C's rules, kept narrow for equal types.
template <class A, class B> struct Merge {
  static auto scalar() {
    if constexpr (width<A> > 1) return Scalar<A>();
    else if constexpr (width<B> > 1) return Scalar<B>();
    else if constexpr (std::is_same<A, B>::value) return A();
    else if constexpr (std::is_same<A, half>::value && std::is_integral<B>::value) return A();
    else if constexpr (std::is_same<B, half>::value && std::is_integral<A>::value) return B();
    else return decltype(Wide<A>() + Wide<B>())();
  }
  using type = decltype(scalar());
  static constexpr int n = width<A> > 1 ? width<A> : width<B>;
};
template <class F, class A, class B> inline auto call2(F f, const A& a, const B& b) {
  using M = Merge<A, B>;
  using T = typename M::type;
  if constexpr (M::n > 1) return zip<T, M::n>(f, a, b);
  else return f(static_cast<T>(a), static_cast<T>(b));
}
template <class F, class A, class B, class C> inline auto call3(F f, const A& a, const B& b, const C& c) {
  using M = Merge<decltype(plain(a)), B>;
  using T = typename Merge<metal::vec<typename M::type, 2>, C>::type;
  constexpr int n = M::n > 1 ? M::n : width<C>;
  if constexpr (n > 1) {
    metal::vec<decltype(f(T(), T(), T())), n> r;
    for (int i = 0; i < n; i++) r.v[i] = f(pick<T>(a, i), pick<T>(b, i), pick<T>(c, i));
    return r;
  } else {
    using S = typename Merge<typename M::type, C>::type;
    return f(static_cast<S>(a), static_cast<S>(b), static_cast<S>(c));
  }
}

}  // namespace sm

#define SM_MATH1(NAME, EXPR)                                                                               \
  template <class A> inline auto NAME(const A& a) {                                                        \
    return sm::map([](auto x0) { using T = decltype(x0); using W = sm::Wide<T>; W x = static_cast<W>(x0);  \
      (void)x; return static_cast<T>(EXPR); }, sm::arg(a));                                                \
  }
#define SM_TEST1(NAME, EXPR)                                                                               \
  template <class A> inline auto NAME(const A& a) {                                                        \
    return sm::map([](auto x0) -> bool { auto x = static_cast<float>(x0); return EXPR; }, sm::arg(a));     \
  }
#define SM_MATH2(NAME, EXPR)                                                                               \
  template <class A, class B> inline auto NAME(const A& a, const B& b) {                                   \
    return sm::call2([](auto x0, auto y0) { using T = decltype(x0); using W = sm::Wide<T>;                 \
      W x = static_cast<W>(x0), y = static_cast<W>(y0); return static_cast<T>(EXPR); }, sm::arg(a), sm::arg(b)); \
  }
#define SM_MATH3(NAME, EXPR)                                                                               \
  template <class A, class B, class C> inline auto NAME(const A& a, const B& b, const C& c) {              \
    return sm::call3([](auto x0, auto y0, auto z0) { using T = decltype(x0); using W = sm::Wide<T>;        \
      W x = static_cast<W>(x0), y = static_cast<W>(y0), z = static_cast<W>(z0);                            \
      return static_cast<T>(EXPR); }, sm::arg(a), sm::arg(b), sm::arg(c));                                 \
  }

namespace metal {

namespace precise = ::metal;
namespace fast = ::metal;

SM_MATH1(abs, (x < W(0) ? W(0) - x : x)) SM_MATH1(fabs, std::fabs(x)) SM_MATH1(sqrt, std::sqrt(x))
SM_MATH1(rsqrt, 1.0f / std::sqrt(x)) SM_MATH1(exp, std::exp(x)) SM_MATH1(exp2, std::exp2(x)) SM_MATH1(exp10, ::exp10f(x))
SM_MATH1(log, std::log(x)) SM_MATH1(log2, std::log2(x)) SM_MATH1(log10, std::log10(x)) SM_MATH1(sin, std::sin(x))
SM_MATH1(cos, std::cos(x)) SM_MATH1(tan, std::tan(x)) SM_MATH1(sinh, std::sinh(x)) SM_MATH1(cosh, std::cosh(x))
SM_MATH1(tanh, std::tanh(x)) SM_MATH1(asin, std::asin(x)) SM_MATH1(acos, std::acos(x)) SM_MATH1(atan, std::atan(x))
SM_MATH1(asinh, std::asinh(x)) SM_MATH1(acosh, std::acosh(x)) SM_MATH1(atanh, std::atanh(x)) SM_MATH1(floor, std::floor(x))
SM_MATH1(ceil, std::ceil(x)) SM_MATH1(round, std::round(x)) SM_MATH1(rint, std::nearbyint(x)) SM_MATH1(trunc, std::trunc(x))
SM_MATH1(fract, std::fmin(x - std::floor(x), 0x1.fffffep-1f)) SM_MATH1(saturate, std::fmin(std::fmax(x, 0.0f), 1.0f))
SM_MATH1(sign, (x > 0 ? W(1) : x < 0 ? W(-1) : W(0)))
SM_TEST1(isnan, x != x) SM_TEST1(isinf, std::fabs(x) == __builtin_inff()) SM_TEST1(isfinite, std::fabs(x) < __builtin_inff())
SM_TEST1(signbit, std::signbit(x))
SM_MATH1(popcount, __builtin_popcountll(static_cast<std::make_unsigned_t<T>>(x0)))
SM_MATH1(clz, (x0 == 0 ? int(sizeof(T) * 8) : __builtin_clzll(static_cast<std::make_unsigned_t<T>>(x0)) - (64 - int(sizeof(T) * 8))))
SM_MATH1(ctz, (x0 == 0 ? int(sizeof(T) * 8) : __builtin_ctzll(static_cast<std::make_unsigned_t<T>>(x0))))

// min and max of floats return the other operand when one is NaN, as MSL's fmin and fmax do.
SM_MATH2(min, (y < x || x != x ? y : x)) SM_MATH2(max, (y > x || x != x ? y : x)) SM_MATH2(fmin, std::fmin(x, y))
SM_MATH2(fmax, std::fmax(x, y)) SM_MATH2(fmod, std::fmod(x, y)) SM_MATH2(pow, std::pow(x, y)) SM_MATH2(powr, std::pow(x, y))
SM_MATH2(atan2, std::atan2(x, y)) SM_MATH2(copysign, std::copysign(x, y)) SM_MATH2(step, (y < x ? W(0) : W(1)))
SM_MATH2(nextafter, std::nextafter(x, y)) SM_MATH2(fdim, std::fdim(x, y))
SM_MATH2(mulhi, static_cast<T>((static_cast<__int128>(x0) * static_cast<__int128>(y0)) >> (sizeof(T) * 8)))
SM_MATH2(rotate, (static_cast<std::make_unsigned_t<T>>(x0) << (y0 & (sizeof(T) * 8 - 1)) |
  static_cast<std::make_unsigned_t<T>>(x0) >> ((sizeof(T) * 8 - (y0 & (sizeof(T) * 8 - 1))) & (sizeof(T) * 8 - 1))))
SM_MATH3(fma, std::fma(x, y, z)) SM_MATH3(mix, x + (y - x) * z) SM_MATH3(clamp, (x < y || x != x ? y : x > z ? z : x))
SM_MATH3(smoothstep, ([](auto t) { return t * t * (3.0f - 2.0f * t); }(std::fmin(std::fmax((z - x) / (y - x), 0.0f), 1.0f))))

template <class A> inline auto ldexp(const A& a, int e) { return static_cast<sm::Plain<A>>(std::ldexp(static_cast<float>(sm::val(a)), e)); }
inline float frexp(float x, int& e) { return std::frexp(x, &e); }
template <class A> inline auto extract_bits(const A& a, uint offset, uint bits) {
  auto x = sm::val(a);
  using T = decltype(x);
  if (bits == 0) return T(0);
  constexpr uint w = sizeof(T) * 8;
  return static_cast<T>(static_cast<T>(x << (w - offset - bits)) >> (w - bits));
}
template <class A, class B, class C> inline auto select(const A& a, const B& b, const C& c) {
  auto x = sm::arg(a);
  auto y = sm::arg(b);
  auto k = sm::arg(c);
  if constexpr (sm::width<decltype(x)> > 1) {
    decltype(x) r;
    for (int i = 0; i < sm::width<decltype(x)>; i++) r.v[i] = sm::pick<bool>(k, i) ? sm::pick<sm::Scalar<decltype(x)>>(y, i) : x.v[i];
    return r;
  } else return k ? static_cast<decltype(x)>(y) : x;
}
template <class A, class B> inline auto dot(const A& a, const B& b) {
  auto x = sm::arg(a);
  auto y = sm::arg(b);
  using T = sm::Scalar<decltype(x)>;
  T sum = static_cast<T>(x.v[0] * y.v[0]);
  for (int i = 1; i < sm::width<decltype(x)>; i++) sum = static_cast<T>(sum + static_cast<T>(x.v[i] * y.v[i]));
  return sum;
}
template <class A> inline auto length_squared(const A& a) { return dot(a, a); }
template <class A> inline auto length(const A& a) { return sqrt(dot(a, a)); }
template <class A, class B> inline auto distance(const A& a, const B& b) { return length(sm::arg(a) - sm::arg(b)); }
template <class A> inline auto normalize(const A& a) { return sm::arg(a) * rsqrt(dot(a, a)); }
template <class A> inline bool any(const A& a) {
  auto x = sm::arg(a);
  if constexpr (sm::width<decltype(x)> > 1) {
    bool r = false;
    for (int i = 0; i < sm::width<decltype(x)>; i++) r = r || x.v[i];
    return r;
  } else return x;
}
template <class A> inline bool all(const A& a) {
  auto x = sm::arg(a);
  if constexpr (sm::width<decltype(x)> > 1) {
    bool r = true;
    for (int i = 0; i < sm::width<decltype(x)>; i++) r = r && x.v[i];
    return r;
  } else return x;
}
template <class T, int C, int R> inline vec<T, R> operator*(const matrix<T, C, R>& m, const vec<T, C>& v) {
  vec<T, R> r(T(0));
  for (int c = 0; c < C; c++) r += m[c] * v[c];
  return r;
}

}  // namespace metal
