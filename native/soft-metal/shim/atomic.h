// MSL atomics in device and threadgroup memory, relaxed order. Device ones are the processor's own, since threadgroups run
// on several cores.
#pragma once
#include "types.h"
#if SM_CHECKED
#include "pointer.h"
#else
#include "plain.h"
#endif

namespace metal {

using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>;
using atomic_ulong = atomic<ulong>;
enum memory_order { memory_order_relaxed = 0, memory_order_seq_cst = 5 };
enum class thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };
constexpr auto thread_scope_device = thread_scope::thread_scope_device;
constexpr auto thread_scope_threadgroup = thread_scope::thread_scope_threadgroup;

}  // namespace metal

namespace sm {

#if SM_CHECKED
template <class T, int S> inline T* reachAtomic(const ptr<metal::atomic<T>, S>& p, u32 access, int line) {
  if (p.home) touch(p.p, sizeof(T), alignof(T), access | kAtomic, p.home, line);
  return &p.p->value;
}
template <class T, int S> inline T* reachAtomic(const ptr<const metal::atomic<T>, S>& p, u32 access, int line) {
  if (p.home) touch(p.p, sizeof(T), alignof(T), access | kAtomic, p.home, line);
  return const_cast<T*>(&p.p->value);
}
#endif
template <class T> inline T* reachAtomic(metal::atomic<T>* p, u32, int) { return &p->value; }
template <class T> inline T* reachAtomic(const metal::atomic<T>* p, u32, int) { return const_cast<T*>(&p->value); }

template <class P> using Atom = std::remove_pointer_t<decltype(reachAtomic(std::declval<P>(), 0, 0))>;

template <class T, class F> inline T updateAtomic(T* p, F f) {
  T old, next;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do next = f(old);
  while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

}  // namespace sm

#define SM_ATOMIC(NAME, EXPR)                                                                              \
  template <class P, class V>                                                                              \
  inline sm::Atom<P> atomic_##NAME##_explicit(P p, const V& v, memory_order, int line = __builtin_LINE()) { \
    using T = sm::Atom<P>;                                                                                 \
    T y = static_cast<T>(sm::val(v));                                                                      \
    return sm::updateAtomic(sm::reachAtomic(p, sm::kWrite, line), [y](T x) -> T { (void)x; return EXPR; }); \
  }

namespace metal {

SM_ATOMIC(exchange, y) SM_ATOMIC(fetch_add, x + y) SM_ATOMIC(fetch_sub, x - y) SM_ATOMIC(fetch_min, y < x ? y : x)
SM_ATOMIC(fetch_max, y > x ? y : x) SM_ATOMIC(fetch_and, x & y) SM_ATOMIC(fetch_or, x | y) SM_ATOMIC(fetch_xor, x ^ y)

template <class P> inline sm::Atom<P> atomic_load_explicit(P p, memory_order, int line = __builtin_LINE()) {
  sm::Atom<P> v;
  __atomic_load(sm::reachAtomic(p, sm::kRead, line), &v, __ATOMIC_RELAXED);
  return v;
}
template <class P, class V> inline void atomic_store_explicit(P p, const V& v, memory_order, int line = __builtin_LINE()) {
  auto y = static_cast<sm::Atom<P>>(sm::val(v));
  __atomic_store(sm::reachAtomic(p, sm::kWrite, line), &y, __ATOMIC_RELAXED);
}
template <class P, class T, class V>
inline bool atomic_compare_exchange_weak_explicit(P p, T* expected, const V& desired, memory_order, memory_order, int line = __builtin_LINE()) {
  auto y = static_cast<sm::Atom<P>>(sm::val(desired));
  return __atomic_compare_exchange(sm::reachAtomic(p, sm::kWrite, line), expected, &y, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
inline void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace metal
