// What a kernel compiled by soft-metal includes, once, as a precompiled header.
// SM_CHECKED is 1 for instrumented memory, 0 for plain pointers.
#pragma once
#include "types.h"
#include "math.h"
#include "simd.h"
#include "atomic.h"
#include "matrix.h"

namespace sm {

/** A position builtin as whatever the kernel declared: uint, ushort, or a vector of two or three. */
template <class P> inline P builtin(const u32* v) {
  if constexpr (width<P> == 1) return static_cast<P>(v[0]);
  else {
    P p;
    for (int i = 0; i < width<P>; i++) p[i] = static_cast<Scalar<P>>(v[i]);
    return p;
  }
}
template <class P> inline P builtin(u32 v) { return static_cast<P>(v); }
struct Triple { u32 v[3]; };
inline Triple inGrid(const Lane* l) {
  const Group* g = l->group;
  Triple t;
  for (int i = 0; i < 3; i++) t.v[i] = g->id[i] * g->launch->size[i] + l->position[i];
  return t;
}

template <class T> inline ptr<T, kDevice> bufferArgument(Lane* l, u32 index, int line) {
  const Binding* b = &l->group->launch->buffers[index];
#if SM_CHECKED
  return ptr<T, kDevice>(reinterpret_cast<T*>(b->base), b, line);
#else
  (void)line;
  return reinterpret_cast<T*>(b->base);
#endif
}
template <class T> inline T& referenceArgument(Lane* l, u32 index, int line) {
  const Binding* b = &l->group->launch->buffers[index];
#if SM_CHECKED
  touch(b->base, sizeof(T), alignof(T), kRead, b, line);
#else
  (void)line;
#endif
  return *reinterpret_cast<T*>(b->base);
}
template <class T> inline ptr<T, kThreadgroup> threadgroupArgument(Lane* l, u32 index, int line) {
  const Range* r = &l->group->dynamics[index];
#if SM_CHECKED
  return ptr<T, kThreadgroup>(reinterpret_cast<T*>(r->base), r, line);
#else
  (void)line;
  return reinterpret_cast<T*>(r->base);
#endif
}

template <class T> inline T functionConstant(u32 index) {
  u64 bits = self()->group->launch->constants[index];
  T t;
  std::memcpy(static_cast<void*>(&t), &bits, sizeof t);
  return t;
}
inline bool constantDefined(u32 index) { return self()->group->launch->defined >> index & 1; }

// Threadgroup variables claim their place when the library is loaded: `statics` is its exported table.
inline u32 claim(KernelStatics& k, u32 slot, u32 bytes, u32 align, u32 scalar) {
  if (align < 16) align = 16;
  k.bytes = (k.bytes + align - 1) / align * align;
  u32 offset = k.bytes;
  k.slots[slot] = Slot{offset, bytes};
  k.bytes += bytes;
  if (k.count <= slot) k.count = slot + 1;
  if (!k.scalar || scalar < k.scalar) k.scalar = scalar;
  return offset;
}
template <class T> struct Element { static constexpr u32 bytes = isScalar<T> ? sizeof(T) : width<T> > 1 ? sizeof(Scalar<T>) : 1; };
template <class T> struct Element<metal::atomic<T>> { static constexpr u32 bytes = sizeof(T); };
template <class T, size_t N> struct Element<T[N]> : Element<T> {};

}  // namespace sm

extern "C" sm::KernelStatics sm_statics[];

namespace sm {

template <u32 K, u32 S, class T> struct Static {
  static inline const u32 offset = claim(sm_statics[K], S, sizeof(T), alignof(T), Element<T>::bytes);
};
/** An array: a pointer to its first element (a row, for two dimensions). */
template <u32 K, u32 S, class T> inline ptr<std::remove_extent_t<T>, kThreadgroup> threadgroupArray(int line) {
  using E = std::remove_extent_t<T>;
  Group* g = self()->group;
  E* at = reinterpret_cast<E*>(g->memory + Static<K, S, T>::offset);
#if SM_CHECKED
  return ptr<E, kThreadgroup>(at, &g->statics[S], line);
#else
  (void)line;
  return at;
#endif
}
template <u32 K, u32 S, class T> inline Reference<T, kThreadgroup> threadgroupVariable(int line) {
  Group* g = self()->group;
  T* at = reinterpret_cast<T*>(g->memory + Static<K, S, T>::offset);
#if SM_CHECKED
  if constexpr (isValue<T> || IsAtomic<T>::value) return Reference<T, kThreadgroup>{at, &g->statics[S], line};
  else return *at;
#else
  (void)line;
  return *at;
#endif
}

}  // namespace sm

using namespace metal;
