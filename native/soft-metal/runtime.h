// The object model of soft-metal: handles, classes, selectors, retain counts, and the log of misuse.
// It stands in for libobjc. It knows nothing of Metal.
// Invariants: an `id` points at a Handle that outlives its object (freed handles rest in a quarantine, so that a message
// to a freed object is a report, not a crash); a method's type encoding is derived from its C++ signature, so the table
// that clients are checked against can not drift from the code.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#define SOFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace soft {

using u64 = uint64_t;
using i64 = int64_t;
using u32 = uint32_t;

struct Class;
struct Object;
struct Selector;

constexpr u32 kLive = 0x1a60b7ec, kDead = 0xdeadb7ec, kClass = 0xc1a550b7, kSelector = 0x5e1ec708;

struct Handle {
  u32 magic;
  std::atomic<int32_t> refs;
  Class* cls;
  Object* impl;
  u32 generation = 0;  // of the report: objects older than the last reset are not counted
};
using id = Handle*;
using SEL = Selector*;
using Imp = void (*)();

struct Selector {
  u32 magic;
  u32 index;
  std::string name;
};

struct Method {
  Imp imp = nullptr;
  std::string types;
};

/** A class is a handle too, so that it can be sent messages. */
struct Class : Handle {
  std::string name;
  Class* super = nullptr;
  std::vector<Imp> instance, meta;  // by selector index, inherited entries filled in by seal()
  std::unordered_map<std::string, Method> instanceMethods, classMethods;
  std::atomic<i64> live{0};
  id (*make)() = nullptr;  // what +alloc and +new create; null for classes that only Metal creates
};

struct Object {
  id self = nullptr;
  virtual ~Object() = default;
  virtual std::string describe() const { return ""; }
};

struct MTLSize { u64 width, height, depth; };
struct NSRange { u64 location, length; };
struct MTLSizeAndAlign { u64 size, align; };

Class* defineClass(const char* name, Class* super = nullptr);
Class* findClass(const std::string& name);
Class* rootClass();
SEL selector(const char* name);
void addMethod(Class*, const char* name, Imp, std::string types, bool onClass);
/** Fill the dispatch tables; called once, after every class is defined. */
void sealClasses();
/** Defines every class once; safe to call from any entry point. */
void ensureRuntime();

id adopt(Class*, Object*);
id retain(id);
void release(id);
id autorelease(id);
void* pushPool();
void popPool(void*);
/** Whether the pointer is an object that is not freed; any pointer may be asked about. */
bool alive(id);
bool freed(id);

/** One finding: what a Mac would punish with an exception, a validation assert, a leak or a GPU fault. */
void misuse(const std::string& kind, const std::string& text);
std::string misuseJson();
void clearMisuse();
void noteOverRelease(id);
std::string liveJson();
std::string overReleaseJson();
void forgetLive();
std::string quoteJson(const std::string&);

extern std::atomic<u64> messageCount;

// Type encodings, as Objective-C spells them (without the frame offsets).
template <class T> struct Encode { static constexpr const char* text = "?"; };
template <> struct Encode<void> { static constexpr const char* text = "v"; };
template <> struct Encode<id> { static constexpr const char* text = "@"; };
template <> struct Encode<SEL> { static constexpr const char* text = ":"; };
template <> struct Encode<u64> { static constexpr const char* text = "Q"; };
template <> struct Encode<i64> { static constexpr const char* text = "q"; };
template <> struct Encode<int32_t> { static constexpr const char* text = "i"; };
template <> struct Encode<uint8_t> { static constexpr const char* text = "C"; };
template <> struct Encode<bool> { static constexpr const char* text = "B"; };
template <> struct Encode<double> { static constexpr const char* text = "d"; };
template <> struct Encode<const char*> { static constexpr const char* text = "*"; };
template <> struct Encode<void*> { static constexpr const char* text = "^v"; };
template <> struct Encode<const void*> { static constexpr const char* text = "^v"; };
template <> struct Encode<id*> { static constexpr const char* text = "^@"; };
template <> struct Encode<u64*> { static constexpr const char* text = "^Q"; };
template <> struct Encode<MTLSize> { static constexpr const char* text = "{MTLSize=QQQ}"; };
template <> struct Encode<NSRange> { static constexpr const char* text = "{_NSRange=QQ}"; };
template <> struct Encode<MTLSizeAndAlign> { static constexpr const char* text = "{MTLSizeAndAlign=QQ}"; };

template <class R, class... A> std::string encodingOf(R (*)(id, SEL, A...)) {
  std::string s = Encode<R>::text;
  s += "@:";
  ((s += Encode<A>::text), ...);
  return s;
}
template <class F> void method(Class* c, const char* name, F f) {
  auto* p = +f;
  addMethod(c, name, reinterpret_cast<Imp>(p), encodingOf(p), false);
}
template <class F> void classMethod(Class* c, const char* name, F f) {
  auto* p = +f;
  addMethod(c, name, reinterpret_cast<Imp>(p), encodingOf(p), true);
}

/** The C++ object behind a handle of exactly T's class, or null with a misuse report. */
template <class T> T* expect(id h, const char* where) {
  if (h && alive(h) && h->cls == T::isa) return static_cast<T*>(h->impl);
  std::string got = !h ? "nil" : !alive(h) ? (freed(h) ? "a freed " + h->cls->name : "no object") : "a " + h->cls->name;
  misuse("bad-argument", std::string(where) + " wants a " + T::isa->name + ", got " + got);
  return nullptr;
}
/** Lets `+alloc` and `+new` make a T. */
template <class T> void creatable(Class* c) {
  c->make = [] { return adopt(T::isa, new T); };
}
template <class T> T* self(id h) { return static_cast<T*>(h->impl); }
template <class T> bool is(id h) { return h && alive(h) && h->cls == T::isa; }
template <class T, class... A> id create(A&&... a) { return adopt(T::isa, new T{std::forward<A>(a)...}); }

/** A counted reference held by C++ code. */
class Strong {
  id h_ = nullptr;
 public:
  Strong() = default;
  Strong(id h) : h_(retain(h)) {}
  Strong(const Strong& o) : h_(retain(o.h_)) {}
  Strong(Strong&& o) noexcept : h_(o.h_) { o.h_ = nullptr; }
  Strong& operator=(Strong o) noexcept { std::swap(h_, o.h_); return *this; }
  ~Strong() { if (h_) release(h_); }
  id get() const { return h_; }
  explicit operator bool() const { return h_ != nullptr; }
};

}  // namespace soft
