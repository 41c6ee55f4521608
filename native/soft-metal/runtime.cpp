// Classes, selectors, retain counts, autorelease pools and the lookup behind objc_msgSend.
// Knows nothing of Metal; the classes register themselves through `ensureRuntime`.
#include "runtime.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include <cstring>
#include <deque>
#include <map>
#include <set>

namespace soft {

void defineFoundation();
void defineDevice();
void defineLibrary();
void defineEncoders();
void defineIndirect();
void defineCommandBuffers();
void defineExtras();

std::atomic<u64> messageCount{0};

namespace {

/** Objects of one kind side by side, so that any pointer can be told from one of them without touching what it points at. */
template <class T> struct Arena {
#if defined(__SANITIZE_ADDRESS__)
  // The leak checker reads all of it to find what the objects own.
  static constexpr size_t capacity = 1 << 14;
  Arena() { __lsan_register_root_region(base, capacity * sizeof(T)); }
#else
  static constexpr size_t capacity = sizeof(T) < 64 ? 1 << 24 : 1 << 14;
#endif
  char* base = static_cast<char*>(mmap(nullptr, capacity * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::atomic<size_t> used{0};
  void* take() {
    size_t i = used.fetch_add(1);
    if (i >= capacity) abort();
    return base + i * sizeof(T);
  }
  bool holds(const void* p) const {
    auto at = static_cast<size_t>(static_cast<const char*>(p) - base);
    return at < used.load(std::memory_order_relaxed) * sizeof(T) && at % sizeof(T) == 0;
  }
};
template <class T> Arena<T>& arena() {
  static Arena<T>* a = new Arena<T>;
  return *a;
}

// Leaked on purpose: worker threads may still look things up while the process exits.
struct State {
  std::mutex lock;
  std::unordered_map<std::string, Class*> classes;
  std::unordered_map<std::string, SEL> selectors;
  std::vector<Class*> order;
  std::deque<id> quarantine;
  std::vector<id> spare;
  std::vector<std::pair<std::string, std::string>> misuses;
  std::map<std::string, u64> overReleases;
  u64 dropped = 0;
};
State& state() {
  static State* s = new State;
  return *s;
}
constexpr size_t kQuarantine = 1 << 18;
constexpr size_t kMisuses = 500;

struct Pool { u64 serial; std::vector<id> objects; };
struct PoolStack {
  std::vector<Pool> pools;
  ~PoolStack() { for (auto& p : pools) for (id o : p.objects) release(o); }
};
thread_local PoolStack poolStack;
std::atomic<u64> poolSerial{1};
std::atomic<u32> generation{1};

// Clears the integer and the floating-point return register.
struct Nil { double real; u64 word; };
Nil returnNil() { return {0, 0}; }

bool isClass(id h) { return arena<Class>().holds(static_cast<Class*>(h)); }
std::string classNameOf(id h) { return isClass(h) ? static_cast<Class*>(h)->name : h->cls->name; }

}  // namespace

Class* defineClass(const char* name, Class* super) {
  auto& s = state();
  auto* c = new (arena<Class>().take()) Class;
  c->magic = kClass;
  c->refs = 1;
  c->cls = c;
  c->impl = nullptr;
  c->name = name;
  c->super = super ? super : rootClass();
  s.classes[name] = c;
  s.order.push_back(c);
  return c;
}

Class* rootClass() {
  static Class* root = nullptr;
  static bool making = false;
  if (!root && !making) {
    making = true;
    root = defineClass("NSObject");
    root->super = nullptr;
  }
  return root;
}

Class* findClass(const std::string& name) {
  auto& s = state();
  auto it = s.classes.find(name);
  return it == s.classes.end() ? nullptr : it->second;
}

SEL selector(const char* name) {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  auto& slot = s.selectors[name];
  if (!slot) slot = new (arena<Selector>().take()) Selector{kSelector, static_cast<u32>(s.selectors.size() - 1), name};
  return slot;
}

void addMethod(Class* c, const char* name, Imp imp, std::string types, bool onClass) {
  auto& table = onClass ? c->classMethods : c->instanceMethods;
  table[name] = Method{imp, std::move(types)};
  selector(name);
}

void sealClasses() {
  for (Class* c : state().order) {
    for (Class* from = c; from; from = from->super) {
      for (bool onClass : {false, true}) {
        auto& table = onClass ? c->meta : c->instance;
        for (auto& [name, m] : onClass ? from->classMethods : from->instanceMethods) {
          u32 i = selector(name.c_str())->index;
          if (table.size() <= i) table.resize(i + 1, nullptr);
          if (!table[i]) table[i] = m.imp;
        }
      }
    }
  }
}

void ensureRuntime() {
  static std::once_flag once;
  std::call_once(once, [] {
    rootClass();
    defineFoundation();
    defineDevice();
    defineLibrary();
    defineEncoders();
    defineIndirect();
    defineCommandBuffers();
    defineExtras();
    sealClasses();
  });
}

id adopt(Class* c, Object* o) {
  void* at = nullptr;
  {
    auto& s = state();
    std::lock_guard<std::mutex> hold(s.lock);
    if (!s.spare.empty()) at = s.spare.back(), s.spare.pop_back();
  }
  id h = new (at ? at : arena<Handle>().take()) Handle{kLive, {1}, c, o, generation.load()};
  o->self = h;
  c->live.fetch_add(1, std::memory_order_relaxed);
  return h;
}

bool alive(id h) { return arena<Handle>().holds(h) && h->magic == kLive; }
bool freed(id h) { return arena<Handle>().holds(h) && h->magic == kDead; }

id retain(id h) {
  if (!h || isClass(h)) return h;
  if (!alive(h)) {
    misuse("freed-object", freed(h) ? "retain of a freed " + h->cls->name : "retain of a pointer that is no object");
    return h;
  }
  h->refs.fetch_add(1, std::memory_order_relaxed);
  return h;
}

void release(id h) {
  if (!h || isClass(h)) return;
  if (!alive(h)) return noteOverRelease(h);
  if (h->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Object* impl = h->impl;
  h->magic = kDead;
  h->impl = nullptr;
  if (h->generation == generation.load()) h->cls->live.fetch_sub(1, std::memory_order_relaxed);
  delete impl;
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  s.quarantine.push_back(h);
  if (s.quarantine.size() <= kQuarantine) return;
  s.spare.push_back(s.quarantine.front());
  s.quarantine.pop_front();
}

void noteOverRelease(id h) {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  s.overReleases[freed(h) ? h->cls->name : "unknown pointer"]++;
}

id autorelease(id h) {
  if (!h || isClass(h)) return h;
  if (poolStack.pools.empty()) {
    misuse("no-pool", "a " + classNameOf(h) + " was autoreleased on a thread without an autorelease pool: it leaks");
    return h;
  }
  poolStack.pools.back().objects.push_back(h);
  return h;
}

void* pushPool() {
  u64 serial = poolSerial.fetch_add(1);
  poolStack.pools.push_back({serial, {}});
  return reinterpret_cast<void*>(serial << 4);
}

void popPool(void* token) {
  u64 serial = reinterpret_cast<uintptr_t>(token) >> 4;
  auto& pools = poolStack.pools;
  size_t at = pools.size();
  while (at > 0 && pools[at - 1].serial != serial) at--;
  if (at == 0) return misuse("bad-pool", "an autorelease pool was popped twice or on another thread than it was pushed");
  while (pools.size() >= at) {
    // A dealloc may autorelease into the pool being drained, so take the objects first.
    std::vector<id> objects = std::move(pools.back().objects);
    if (!objects.empty()) {
      pools.back().objects.clear();
      for (size_t i = objects.size(); i-- > 0;) release(objects[i]);
      if (!pools.back().objects.empty()) continue;
    }
    pools.pop_back();
  }
}

void misuse(const std::string& kind, const std::string& text) {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  if (s.misuses.size() < kMisuses) s.misuses.emplace_back(kind, text);
  else s.dropped++;
}

std::string quoteJson(const std::string& s) {
  std::string out = "\"";
  char hex[8];
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') { out += '\\'; out += static_cast<char>(c); }
    else if (c == '\n') out += "\\n";
    else if (c < 0x20) { snprintf(hex, sizeof hex, "\\u%04x", c); out += hex; }
    else out += static_cast<char>(c);
  }
  return out + "\"";
}

std::string misuseJson() {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  std::string out = "[";
  for (auto& [kind, text] : s.misuses) {
    if (out.size() > 1) out += ",";
    out += "{\"kind\":" + quoteJson(kind) + ",\"text\":" + quoteJson(text) + "}";
  }
  if (s.dropped) out += ",{\"kind\":\"dropped\",\"text\":\"" + std::to_string(s.dropped) + " more\"}";
  return out + "]";
}

std::string liveJson() {
  std::string out = "{";
  std::set<std::string> skip{"NSObject"};
  for (Class* c : state().order) {
    i64 n = c->live.load();
    if (n == 0 || skip.count(c->name)) continue;
    if (out.size() > 1) out += ",";
    out += quoteJson(c->name) + ":" + std::to_string(n);
  }
  return out + "}";
}

std::string overReleaseJson() {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  std::string out = "{";
  for (auto& [name, n] : s.overReleases) {
    if (out.size() > 1) out += ",";
    out += quoteJson(name) + ":" + std::to_string(n);
  }
  return out + "}";
}

void clearMisuse() {
  auto& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  s.misuses.clear();
  s.overReleases.clear();
  s.dropped = 0;
}

void forgetLive() {
  generation++;
  for (Class* c : state().order) c->live = 0;
}

}  // namespace soft

using namespace soft;

/** Called by the trampoline with the receiver and selector of a message; whatever it returns is jumped to. */
extern "C" __attribute__((visibility("hidden"))) Imp soft_lookup(id receiver, SEL sel) {
  messageCount.fetch_add(1, std::memory_order_relaxed);
  if (!receiver) return reinterpret_cast<Imp>(returnNil);
  auto nil = reinterpret_cast<Imp>(returnNil);
  if (!arena<Selector>().holds(sel)) {
    misuse("bad-selector", "a message was sent with a selector that sel_registerName did not return");
    return nil;
  }
  bool onClass = isClass(receiver);
  if (!onClass && !alive(receiver)) {
    if (!freed(receiver)) misuse("bad-receiver", "-" + sel->name + " sent to a pointer that is no object");
    else if (sel->name == "release") noteOverRelease(receiver);
    else misuse("freed-object", "-" + sel->name + " sent to a freed " + receiver->cls->name);
    return nil;
  }
  auto& table = onClass ? receiver->cls->meta : receiver->cls->instance;
  if (sel->index < table.size() && table[sel->index]) return table[sel->index];
  const char* sign = onClass ? "+[" : "-[";
  misuse("unknown-selector", sign + receiver->cls->name + " " + sel->name + "]: unrecognized selector sent to " +
    (onClass ? "class" : "instance"));
  return nil;
}

SOFT_EXPORT id objc_getClass(const char* name) {
  ensureRuntime();
  return name ? findClass(name) : nullptr;
}
SOFT_EXPORT SEL sel_registerName(const char* name) {
  ensureRuntime();
  return selector(name);
}
SOFT_EXPORT void* objc_autoreleasePoolPush() { return pushPool(); }
SOFT_EXPORT void objc_autoreleasePoolPop(void* token) { popPool(token); }
SOFT_EXPORT id objc_retain(id h) { return retain(h); }
SOFT_EXPORT void objc_release(id h) { release(h); }

SOFT_EXPORT const char* soft_metal_selector_types(const char* cls, const char* sel) {
  ensureRuntime();
  bool onClass = cls && cls[0] == '+';
  for (Class* c = findClass(onClass ? cls + 1 : cls ? cls : ""); c; c = c->super) {
    auto& table = onClass ? c->classMethods : c->instanceMethods;
    auto it = table.find(sel);
    if (it != table.end()) return it->second.types.c_str();
  }
  return nullptr;
}
