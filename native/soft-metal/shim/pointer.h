// Checked pointers: what `device T*`, `constant T*` and `threadgroup T*` become in checked mode. Every load and store
// knows its bounds, its thread and the source line of the index, cast or addition that made it.
// Invariants: a pointer without a binding (made from a raw address: program-scope tables, fields of checked structs) is not
// checked; scalars and vectors are reached through Ref proxies, structs through a plain reference after one check.
#pragma once
#include "types.h"

namespace sm {

constexpr int kDevice = 0, kThreadgroup = 1;
template <int S> using Home = std::conditional_t<S == kDevice, Binding, Range>;

template <class T, int S> struct ptr;
template <class T, int S> struct Ref;

}  // namespace sm

namespace metal {
template <class T> struct atomic { T value; };
}

namespace sm {

template <class T> struct IsAtomic : std::false_type {};
template <class T> struct IsAtomic<metal::atomic<T>> : std::true_type {};
template <class T> constexpr bool isValue = isScalar<std::remove_cv_t<T>> || (width<std::remove_cv_t<T>> > 1);

/** An index and the line it was written on. */
struct At {
  i64 i;
  int line;
  template <class I> At(const I& index, int line = __builtin_LINE()) : i(static_cast<i64>(val(index))), line(line) {}
};

// Threadgroup stamps (see Cell).
constexpr u64 kThreadMask = 0xfff, kAtomicBit = 1u << 12, kManySimd = 1025, kManyGroup = 4095;
inline u64 epochOf(u64 stamp) { return stamp >> 33; }
inline u64 threadOf(u64 stamp) { return stamp & kThreadMask; }
inline u64 simdEpochOf(u64 stamp) { return stamp >> 13 & 0xfffff; }
inline u64 simdOf(u64 thread) { return thread == kManyGroup ? 255 : thread >= kManySimd ? thread - kManySimd : (thread - 1) / kLanes; }

/** Whether an earlier access of this barrier epoch is unordered with one by `me`. */
inline bool clashes(u64 then, u64 me) {
  if (epochOf(then) != epochOf(me) || threadOf(then) == threadOf(me)) return false;
  if (then & me & kAtomicBit) return false;
  return simdOf(threadOf(then)) != simdOf(threadOf(me)) || simdEpochOf(then) == simdEpochOf(me);
}
/** One stamp for two accesses of a kind: plain if either is, and of several threads if they differ. */
inline u64 merge(u64 then, u64 me) {
  if (epochOf(then) != epochOf(me)) return me;
  u64 atomic = then & me & kAtomicBit, rest = me & ~kThreadMask & ~kAtomicBit;
  if (threadOf(then) == threadOf(me)) return rest | atomic | threadOf(me);
  if (simdOf(threadOf(then)) != simdOf(threadOf(me))) return rest | atomic | kManyGroup;
  if (simdEpochOf(then) != simdEpochOf(me)) return me;
  return rest | atomic | (kManySimd + simdOf(threadOf(me)));
}

inline void touch(const void* at, u32 bytes, u32 align, u32 access, const Range* r, int line) {
  Lane* lane = self();
  Group* g = lane->group;
  auto p = static_cast<const char*>(at);
  if (__builtin_expect(p < r->base || p + bytes > r->end, 0)) g->api->fault(lane, kBounds, access, line, at, bytes, nullptr, r, 0);
  if (__builtin_expect(reinterpret_cast<uintptr_t>(p) & (align - 1), 0)) g->api->fault(lane, kAlign, access, line, at, align, nullptr, r, 0);
  u64 me = lane->simd->stamp | (lane->index + 1) | (access & kAtomic ? kAtomicBit : 0);
  u64 offset = static_cast<u64>(p - g->memory);
  Cell* end = g->cells + ((offset + bytes - 1) >> g->cellShift);
  for (Cell* c = g->cells + (offset >> g->cellShift); c <= end; c++) {
    if (__builtin_expect(clashes(c->write, me), 0)) g->api->fault(lane, kRace, access, line, at, bytes, nullptr, r, c->write | 1ull << 63);
    if (access & kWrite) {
      if (__builtin_expect(clashes(c->read, me), 0)) g->api->fault(lane, kRace, access, line, at, bytes, nullptr, r, c->read & ~(1ull << 63));
      c->write = merge(c->write, me);
    } else {
      if (__builtin_expect(epochOf(c->write) < g->startEpoch, 0)) g->api->fault(lane, kUninit, access, line, at, bytes, nullptr, r, 0);
      if (c->read != me) c->read = merge(c->read, me);
    }
  }
}

inline void touch(const void* at, u32 bytes, u32 align, u32 access, const Binding* b, int line) {
  auto p = static_cast<const char*>(at);
  if (__builtin_expect(p < b->base || p + bytes > b->end, 0)) {
    Lane* lane = self();
    lane->group->api->fault(lane, kBounds, access, line, at, bytes, b, nullptr, 0);
  }
  if (__builtin_expect(reinterpret_cast<uintptr_t>(p) & (align - 1), 0)) {
    Lane* lane = self();
    lane->group->api->fault(lane, kAlign, access, line, at, align, b, nullptr, 0);
  }
  if (__builtin_expect(b->writers != nullptr, 0)) {
    Lane* lane = self();
    lane->group->api->track(lane, b, at, bytes, access, line);
  }
}

template <class T, int S> struct RefBase : RefTag {
  using V = std::remove_cv_t<T>;
  T* p;
  const Home<S>* home;
  int line;
  RefBase(T* p, const Home<S>* home, int line) : p(p), home(home), line(line) {}
  RefBase(const RefBase&) = default;
  V load() const {
    if (home) touch(p, sizeof(V), alignof(V), kRead, home, line);
    return *const_cast<const V*>(p);
  }
  void store(const V& v) const {
    static_assert(!std::is_const<T>::value, "store through a pointer to const");
    if (home) touch(p, sizeof(V), alignof(V), kWrite, home, line);
    *const_cast<V*>(p) = v;
  }
  operator V() const { return load(); }
  template <class W, class = std::enable_if_t<std::is_arithmetic<W>::value || std::is_same<W, half>::value>, class = std::enable_if_t<!std::is_same<W, V>::value && isScalar<V>>>
  explicit operator W() const { return static_cast<W>(load()); }
  ptr<T, S> operator&() const { return ptr<T, S>(p, home, line); }
};

#define SM_REF_ASSIGN                                                                                      \
  const Ref& operator=(const Ref& o) const { this->store(o.load()); return *this; }                        \
  template <class U> const Ref& operator=(const U& u) const { this->store(static_cast<V>(val(u))); return *this; } \
  template <class U> V operator+=(const U& u) const { V v = static_cast<V>(this->load() + val(u)); this->store(v); return v; } \
  template <class U> V operator-=(const U& u) const { V v = static_cast<V>(this->load() - val(u)); this->store(v); return v; } \
  template <class U> V operator*=(const U& u) const { V v = static_cast<V>(this->load() * val(u)); this->store(v); return v; } \
  template <class U> V operator/=(const U& u) const { V v = static_cast<V>(this->load() / val(u)); this->store(v); return v; } \
  template <class U> V operator&=(const U& u) const { V v = static_cast<V>(this->load() & val(u)); this->store(v); return v; } \
  template <class U> V operator|=(const U& u) const { V v = static_cast<V>(this->load() | val(u)); this->store(v); return v; } \
  template <class U> V operator^=(const U& u) const { V v = static_cast<V>(this->load() ^ val(u)); this->store(v); return v; } \
  template <class U> V operator<<=(const U& u) const { V v = static_cast<V>(this->load() << val(u)); this->store(v); return v; } \
  template <class U> V operator>>=(const U& u) const { V v = static_cast<V>(this->load() >> val(u)); this->store(v); return v; }

template <class T, int S> struct Ref : RefBase<T, S> {
  using V = std::remove_cv_t<T>;
  using RefBase<T, S>::RefBase;
  Ref(const Ref&) = default;
  // To const, so that both arms of a conditional can be memory.
  template <class U, class = std::enable_if_t<std::is_same<const U, T>::value && !std::is_same<U, T>::value>>
  Ref(const Ref<U, S>& o) : RefBase<T, S>(o.p, o.home, o.line) {}
  // The arms may even lie in different address spaces: what is read here is the value, so it is checked here. Halves only: for others
  // the language finds a common type by itself, and one space must not pass for another in calls.
  template <class U, int From, class = std::enable_if_t<From == kThreadgroup && S == kDevice && std::is_same<V, half>::value>,
    class = std::enable_if_t<std::is_same<std::remove_cv_t<U>, V>::value>>
  Ref(const Ref<U, From>& o) : RefBase<T, S>(const_cast<T*>(o.p), nullptr, o.line) { o.load(); }
  SM_REF_ASSIGN
  V operator++() const { V v = static_cast<V>(this->load() + 1); this->store(v); return v; }
  V operator++(int) const { V v = this->load(); this->store(static_cast<V>(v + 1)); return v; }
  V operator--() const { V v = static_cast<V>(this->load() - 1); this->store(v); return v; }
  V operator--(int) const { V v = this->load(); this->store(static_cast<V>(v - 1)); return v; }
};

// References to vectors, with their components as references of their own.
template <class T, class E, int S> struct RefWide : RefBase<T, S> {
  using V = std::remove_cv_t<T>;
  using Element = std::conditional_t<std::is_const<T>::value, const E, E>;
  RefWide(T* p, const Home<S>* home, int line) : RefBase<T, S>(p, home, line) {}
  Ref<Element, S> operator[](int i) const { return part(i); }
 protected:
  Ref<Element, S> part(int i) const {
    return Ref<Element, S>(const_cast<Element*>(reinterpret_cast<const E*>(const_cast<const V*>(this->p)) + i), this->home, this->line);
  }
};
template <class T, class E, int S, int N> struct RefParts;
template <class T, class E, int S> struct RefParts<T, E, S, 2> : RefWide<T, E, S> {
  Ref<typename RefWide<T, E, S>::Element, S> x, y;
  RefParts(T* p, const Home<S>* h, int l) : RefWide<T, E, S>(p, h, l), x(this->part(0)), y(this->part(1)) {}
};
template <class T, class E, int S> struct RefParts<T, E, S, 3> : RefWide<T, E, S> {
  Ref<typename RefWide<T, E, S>::Element, S> x, y, z;
  RefParts(T* p, const Home<S>* h, int l) : RefWide<T, E, S>(p, h, l), x(this->part(0)), y(this->part(1)), z(this->part(2)) {}
};
template <class T, class E, int S> struct RefParts<T, E, S, 4> : RefWide<T, E, S> {
  Ref<typename RefWide<T, E, S>::Element, S> x, y, z, w;
  RefParts(T* p, const Home<S>* h, int l)
    : RefWide<T, E, S>(p, h, l), x(this->part(0)), y(this->part(1)), z(this->part(2)), w(this->part(3)) {}
};
#define SM_REF_WIDE(TYPE)                                                                                  \
  template <class E, int N, int S> struct Ref<TYPE, S> : RefParts<TYPE, E, S, N> {                         \
    using V = std::remove_cv_t<TYPE>;                                                                      \
    using RefParts<TYPE, E, S, N>::RefParts;                                                               \
    Ref(const Ref&) = default;                                                                             \
    SM_REF_ASSIGN                                                                                          \
  };
#define SM_COMMA ,
SM_REF_WIDE(metal::vec<E SM_COMMA N>)
SM_REF_WIDE(const metal::vec<E SM_COMMA N>)
SM_REF_WIDE(metal::packed_vec<E SM_COMMA N>)
SM_REF_WIDE(const metal::packed_vec<E SM_COMMA N>)

template <class T, int S> struct AtomRef {
  T* p;
  const Home<S>* home;
  int line;
  ptr<T, S> operator&() const { return ptr<T, S>(p, home, line); }
};

template <class T, int S> struct ptr {
  T* p = nullptr;
  const Home<S>* home = nullptr;
  int line = 0;
  ptr() = default;
  ptr(std::nullptr_t) {}
  ptr(T* raw) : p(raw) {}
  ptr(T* p, const Home<S>* home, int line) : p(p), home(home), line(line) {}
  template <class U, class = std::enable_if_t<std::is_convertible<U*, T*>::value>>
  ptr(const ptr<U, S>& o, int line = __builtin_LINE()) : p(o.p), home(o.home), line(line) {}
  template <class U, class = std::enable_if_t<!std::is_convertible<U*, T*>::value>, class = void>
  explicit ptr(const ptr<U, S>& o, int line = __builtin_LINE()) : p((T*)(o.p)), home(o.home), line(line) {}
  template <class U, class = std::enable_if_t<!std::is_convertible<U*, T*>::value>>
  explicit ptr(U* raw) : p((T*)raw) {}

  decltype(auto) operator[](At at) const { return reach(p + at.i, at.line); }
  decltype(auto) operator*() const { return reach(p, line); }
  T* operator->() const { check(line); return p; }
  ptr operator+(At at) const { return ptr(p + at.i, home, at.line); }
  ptr operator-(At at) const { return ptr(p - at.i, home, at.line); }
  friend ptr operator+(At at, const ptr& q) { return q + at; }
  template <class U> i64 operator-(const ptr<U, S>& o) const { return p - o.p; }
  ptr& operator+=(At at) { p += at.i; line = at.line; return *this; }
  ptr& operator-=(At at) { p -= at.i; line = at.line; return *this; }
  ptr& operator++() { ++p; return *this; }
  ptr& operator--() { --p; return *this; }
  ptr operator++(int) { ptr q = *this; ++p; return q; }
  ptr operator--(int) { ptr q = *this; --p; return q; }
  explicit operator bool() const { return p != nullptr; }
  template <class U> bool operator==(const ptr<U, S>& o) const { return p == o.p; }
  template <class U> bool operator!=(const ptr<U, S>& o) const { return p != o.p; }
  template <class U> bool operator<(const ptr<U, S>& o) const { return p < o.p; }
  bool operator==(std::nullptr_t) const { return p == nullptr; }
  bool operator!=(std::nullptr_t) const { return p != nullptr; }
  explicit operator uintptr_t() const { return reinterpret_cast<uintptr_t>(p); }

 private:
  void check(int at) const {
    // Whether a struct is read or written is not known here: a read is what a const one allows.
    if (home) touch(p, sizeof(T), alignof(T), std::is_const<T>::value || S == kDevice ? kRead : kWrite, home, at);
  }
  decltype(auto) reach(T* at, int from) const {
    if constexpr (isValue<T>) return Ref<T, S>(at, home, from);
    else if constexpr (IsAtomic<std::remove_cv_t<T>>::value) return AtomRef<T, S>{at, home, from};
    else if constexpr (std::is_array<T>::value) return ptr<std::remove_extent_t<T>, S>(*at, home, from);
    else {
      ptr(at, home, from).check(from);
      return static_cast<T&>(*at);
    }
  }
};

template <class T> struct IsPtr : std::false_type {};
template <class T, int S> struct IsPtr<ptr<T, S>> : std::true_type {};
template <class To, class From> inline To recast(const From& from, int line = __builtin_LINE()) {
  if constexpr (IsPtr<To>::value && IsPtr<From>::value) { (void)line; return To(from, line); }
  else return (To)(from);
}

template <class T, int S> using Reference = std::conditional_t<isValue<T>, Ref<T, S>, std::conditional_t<IsAtomic<std::remove_cv_t<T>>::value, AtomRef<T, S>, T&>>;

}  // namespace sm
