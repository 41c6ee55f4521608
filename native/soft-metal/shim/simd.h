// Simdgroup and threadgroup collectives. Each is a rendezvous of the live lanes at one call site: a lane leaves its value
// in its slot, waits, and reads the slots (or the result computed once) of the others.
// Invariant: slots alternate by parity, so a fast lane can not overwrite what a slow one still has to read.
#pragma once
#include "math.h"

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b)); }

// Without mem_threadgroup a barrier lets threads meet but does not order threadgroup memory.
inline bool ordersThreadgroup(mem_flags f) { return static_cast<uint>(f) & static_cast<uint>(mem_flags::mem_threadgroup); }
inline void threadgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  sm::Lane* lane = sm::self();
  lane->group->api->groupWait(lane, line, ordersThreadgroup(flags));
}
inline void simdgroup_barrier(mem_flags flags, int line = __builtin_LINE()) {
  sm::Lane* lane = sm::self();
  lane->group->api->simdWait(lane, line, ordersThreadgroup(flags) ? "simdgroup_barrier" : "simdgroup_barrier (without mem_threadgroup)");
}

struct simd_vote {
  using vote_t = ulong;
  ulong bits;
  explicit operator vote_t() const { return bits; }
  bool all() const { return bits == 0xffffffff; }
  bool any() const { return bits != 0; }
};

}  // namespace metal

namespace sm {

template <class T> inline T& slot(Simd* s, u32 parity, u32 lane) { return *reinterpret_cast<T*>(s->slots[parity][lane]); }
template <class T> inline T& result(Simd* s, u32 parity) { return *reinterpret_cast<T*>(s->results[parity]); }

/** Meet the other lanes with a value; returns the parity under which the slots can be read. */
template <class T> inline u32 meet(Lane* lane, const T& value, int line, const char* op) {
  static_assert(sizeof(T) <= 64, "a simdgroup value is at most 64 bytes");
  Simd* s = lane->simd;
  u32 parity = s->parity;
  slot<T>(s, parity, lane->lane) = value;
  lane->group->api->simdWait(lane, line, op);
  return parity;
}

// What a lane gets that reads from no lane: all bits set, NaN for floats, so that using it shows.
template <class T> inline T nowhere() {
  T t;
  std::memset(static_cast<void*>(&t), 0xff, sizeof t);
  return t;
}
template <class A> inline Plain<A> fetch(const A& a, int line, const char* op, u32 (*from)(u32 lane, u32 arg, u32 met), u32 n) {
  using T = Plain<A>;
  Lane* lane = self();
  u32 parity = meet<T>(lane, plain(val(a)), line, op);
  u32 met = lane->simd->met[parity], source = from(lane->lane, n, met);
  return source < kLanes && (met >> source & 1) ? slot<T>(lane->simd, parity, source) : nowhere<T>();
}

template <class T, class F> inline T reduceMask(Simd* s, u32 parity, u32 mask, F f) {
  u32 first = static_cast<u32>(__builtin_ctz(mask));
  T sum = slot<T>(s, parity, first);
  for (mask &= mask - 1; mask; mask &= mask - 1) sum = static_cast<T>(f(sum, slot<T>(s, parity, static_cast<u32>(__builtin_ctz(mask)))));
  return sum;
}
template <class A, class F> inline Plain<A> reduce(const A& a, int line, const char* op, F f) {
  using T = Plain<A>;
  Lane* lane = self();
  Simd* s = lane->simd;
  u32 parity = meet<T>(lane, plain(val(a)), line, op);
  if (!s->computed[parity]) {
    result<T>(s, parity) = reduceMask<T>(s, parity, s->met[parity], f);
    s->computed[parity] = true;
  }
  return result<T>(s, parity);
}
template <class A, class F> inline Plain<A> scan(const A& a, int line, const char* op, F f, bool inclusive, Plain<A> zero) {
  using T = Plain<A>;
  Lane* lane = self();
  u32 parity = meet<T>(lane, plain(val(a)), line, op);
  u32 below = lane->simd->met[parity] & ((inclusive ? 2ull << lane->lane : 1ull << lane->lane) - 1);
  return below ? reduceMask<T>(lane->simd, parity, below, f) : zero;
}
template <class A, class F> inline Plain<A> reduceQuad(const A& a, int line, const char* op, F f) {
  using T = Plain<A>;
  Lane* lane = self();
  u32 parity = meet<T>(lane, plain(val(a)), line, op);
  return reduceMask<T>(lane->simd, parity, lane->simd->met[parity] & (0xfu << (lane->lane & ~3u)), f);
}

}  // namespace sm

#define SM_REDUCE(NAME, EXPR)                                                                              \
  template <class A> inline sm::Plain<A> simd_##NAME(const A& a, int line = __builtin_LINE()) {            \
    return sm::reduce(a, line, "simd_" #NAME, [](auto x, auto y) { return EXPR; });                        \
  }                                                                                                        \
  template <class A> inline sm::Plain<A> quad_##NAME(const A& a, int line = __builtin_LINE()) {            \
    return sm::reduceQuad(a, line, "quad_" #NAME, [](auto x, auto y) { return EXPR; });                    \
  }
#define SM_FETCH(NAME, EXPR)                                                                               \
  template <class A> inline sm::Plain<A> simd_##NAME(const A& a, uint n, int line = __builtin_LINE()) {    \
    return sm::fetch(a, line, "simd_" #NAME, [](sm::u32 lane, sm::u32 n, sm::u32) -> sm::u32 { (void)lane; return EXPR; }, n); \
  }
#define SM_FETCH_QUAD(NAME, EXPR)                                                                          \
  template <class A> inline sm::Plain<A> quad_##NAME(const A& a, uint n, int line = __builtin_LINE()) {    \
    return sm::fetch(a, line, "quad_" #NAME, [](sm::u32 lane, sm::u32 n, sm::u32) -> sm::u32 {             \
      sm::u32 q = lane & 3; sm::u32 to = EXPR; return to < 4 ? (lane & ~3u) + to : 99u; }, n);             \
  }

namespace metal {

SM_REDUCE(sum, x + y) SM_REDUCE(product, x * y) SM_REDUCE(min, metal::min(x, y)) SM_REDUCE(max, metal::max(x, y))
SM_REDUCE(and, x & y) SM_REDUCE(or, x | y) SM_REDUCE(xor, x ^ y)
SM_FETCH(broadcast, n) SM_FETCH(shuffle, n) SM_FETCH(shuffle_xor, lane ^ n) SM_FETCH(shuffle_up, n > lane ? 99u : lane - n)
SM_FETCH(shuffle_down, lane + n) SM_FETCH(shuffle_rotate_up, (lane + 32 - (n & 31)) & 31) SM_FETCH(shuffle_rotate_down, (lane + n) & 31)
SM_FETCH_QUAD(broadcast, n + 0 * q) SM_FETCH_QUAD(shuffle, n + 0 * q) SM_FETCH_QUAD(shuffle_xor, q ^ n)
SM_FETCH_QUAD(shuffle_up, q - n) SM_FETCH_QUAD(shuffle_down, q + n)

template <class A> inline sm::Plain<A> simd_shuffle_and_fill_up(const A& a, const A& fill, uint n, int line = __builtin_LINE()) {
  auto v = simd_shuffle_up(a, n, line);
  auto f = simd_shuffle_rotate_up(fill, n, line);
  return sm::self()->lane < n ? f : v;
}
template <class A> inline sm::Plain<A> simd_shuffle_and_fill_down(const A& a, const A& fill, uint n, int line = __builtin_LINE()) {
  auto v = simd_shuffle_down(a, n, line);
  auto f = simd_shuffle_rotate_down(fill, n, line);
  return sm::self()->lane + n > 31 ? f : v;
}
template <class A> inline sm::Plain<A> simd_broadcast_first(const A& a, int line = __builtin_LINE()) {
  return sm::fetch(a, line, "simd_broadcast_first", [](sm::u32, sm::u32, sm::u32 met) -> sm::u32 {
    return static_cast<sm::u32>(__builtin_ctz(met)); }, 0);
}
template <class A> inline sm::Plain<A> simd_prefix_inclusive_sum(const A& a, int line = __builtin_LINE()) {
  return sm::scan(a, line, "simd_prefix_inclusive_sum", [](auto x, auto y) { return x + y; }, true, sm::Plain<A>(0));
}
template <class A> inline sm::Plain<A> simd_prefix_exclusive_sum(const A& a, int line = __builtin_LINE()) {
  return sm::scan(a, line, "simd_prefix_exclusive_sum", [](auto x, auto y) { return x + y; }, false, sm::Plain<A>(0));
}
template <class A> inline sm::Plain<A> simd_prefix_inclusive_product(const A& a, int line = __builtin_LINE()) {
  return sm::scan(a, line, "simd_prefix_inclusive_product", [](auto x, auto y) { return x * y; }, true, sm::Plain<A>(1));
}
template <class A> inline sm::Plain<A> simd_prefix_exclusive_product(const A& a, int line = __builtin_LINE()) {
  return sm::scan(a, line, "simd_prefix_exclusive_product", [](auto x, auto y) { return x * y; }, false, sm::Plain<A>(1));
}
inline simd_vote simd_ballot(bool b, int line = __builtin_LINE()) {
  uint bit = b ? 1u << sm::self()->lane : 0u;
  return simd_vote{sm::reduce(bit, line, "simd_ballot", [](uint x, uint y) { return x | y; })};
}
inline bool simd_all(bool b, int line = __builtin_LINE()) {
  return sm::reduce(b ? 1u : 0u, line, "simd_all", [](uint x, uint y) { return x & y; }) != 0;
}
inline bool simd_any(bool b, int line = __builtin_LINE()) {
  return sm::reduce(b ? 1u : 0u, line, "simd_any", [](uint x, uint y) { return x | y; }) != 0;
}
// Lanes do not run in step here, so who is first has to be asked together.
inline bool simd_is_first(int line = __builtin_LINE()) {
  uint lane = sm::self()->lane;
  return simd_broadcast_first(lane, line) == lane;
}

}  // namespace metal
