// NSObject, NSString, NSError, NSArray, NSURL, NSNumber, NSMutableDictionary, NSProcessInfo, NSAutoreleasePool:
// only the selectors of the table in docs/soft-metal.md. Knows nothing of Metal.
#include "foundation.h"

#include <unistd.h>

namespace soft {

Class *String::isa, *Error::isa, *Array::isa, *Url::isa, *Number::isa, *Dictionary::isa;

namespace {

struct ProcessInfo : Object { static Class* isa; };
struct PoolObject : Object {
  static Class* isa;
  void* token = pushPool();
  ~PoolObject() override { if (token) popPool(token); }
};
Class *ProcessInfo::isa, *PoolObject::isa;

constexpr u64 kUtf8 = 4;

u64 utf16Length(const std::string& s) {
  u64 n = 0;
  for (unsigned char c : s) n += (c & 0xc0) != 0x80 ? (c >= 0xf0 ? 2 : 1) : 0;
  return n;
}

id describe(id h) {
  std::string text = h->magic == kClass ? static_cast<Class*>(h)->name : h->impl->describe();
  if (text.empty()) {
    char at[32];
    snprintf(at, sizeof at, ": %p>", static_cast<void*>(h));
    text = "<" + h->cls->name + at;
  }
  return string(text);
}

void defineRoot() {
  Class* c = rootClass();
  method(c, "retain", [](id h, SEL) { return retain(h); });
  method(c, "release", [](id h, SEL) { release(h); });
  method(c, "autorelease", [](id h, SEL) { return autorelease(h); });
  method(c, "init", [](id h, SEL) { return h; });
  method(c, "retainCount", [](id h, SEL) -> u64 { return h->refs.load(); });
  method(c, "description", [](id h, SEL) { return describe(h); });
  method(c, "class", [](id h, SEL) -> id { return h->cls; });
  method(c, "hash", [](id h, SEL) -> u64 { return reinterpret_cast<uintptr_t>(h); });
  method(c, "isEqual:", [](id h, SEL, id o) -> bool { return h == o; });
  method(c, "respondsToSelector:", [](id h, SEL, SEL s) -> bool {
    return s && s->index < h->cls->instance.size() && h->cls->instance[s->index];
  });
  classMethod(c, "respondsToSelector:", [](id h, SEL, SEL s) -> bool {
    return s && s->index < h->cls->meta.size() && h->cls->meta[s->index];
  });
  classMethod(c, "instancesRespondToSelector:", [](id h, SEL, SEL s) -> bool {
    return s && s->index < h->cls->instance.size() && h->cls->instance[s->index];
  });
  classMethod(c, "description", [](id h, SEL) { return describe(h); });
  classMethod(c, "class", [](id h, SEL) { return h; });
  auto make = [](id h, SEL) -> id {
    if (h->cls->make) return h->cls->make();
    misuse("bad-alloc", "+[" + h->cls->name + " new]: only Metal makes these");
    return nullptr;
  };
  classMethod(c, "alloc", make);
  classMethod(c, "new", make);
}

void defineString() {
  Class* c = String::isa = defineClass("NSString");
  creatable<String>(c);
  classMethod(c, "stringWithUTF8String:", [](id, SEL, const char* text) -> id {
    if (!text) {
      misuse("bad-argument", "+[NSString stringWithUTF8String:] wants bytes, got NULL");
      return nullptr;
    }
    return string(text);
  });
  method(c, "initWithBytes:length:encoding:", [](id h, SEL, const void* bytes, u64 length, u64 encoding) -> id {
    if (encoding != kUtf8 || (!bytes && length)) {
      misuse("bad-argument", "-[NSString initWithBytes:length:encoding:] wants UTF-8 (4) bytes, got encoding " +
        std::to_string(encoding));
      release(h);
      return nullptr;
    }
    self<String>(h)->text.assign(static_cast<const char*>(bytes), length);
    return h;
  });
  method(c, "initWithUTF8String:", [](id h, SEL, const char* text) -> id {
    self<String>(h)->text = text ? text : "";
    return h;
  });
  method(c, "UTF8String", [](id h, SEL) { return self<String>(h)->text.c_str(); });
  method(c, "length", [](id h, SEL) { return utf16Length(self<String>(h)->text); });
  method(c, "lengthOfBytesUsingEncoding:", [](id h, SEL, u64 encoding) -> u64 {
    return encoding == kUtf8 ? self<String>(h)->text.size() : 0;
  });
  method(c, "isEqualToString:", [](id h, SEL, id o) -> bool {
    return is<String>(o) && self<String>(o)->text == self<String>(h)->text;
  });
}

void defineError() {
  Class* c = Error::isa = defineClass("NSError");
  method(c, "localizedDescription", [](id h, SEL) { return string(self<Error>(h)->text); });
  method(c, "localizedFailureReason", [](id, SEL) -> id { return nullptr; });
  method(c, "code", [](id h, SEL) { return self<Error>(h)->code; });
  method(c, "domain", [](id h, SEL) { return string(self<Error>(h)->domain); });
  method(c, "userInfo", [](id, SEL) { return autorelease(create<Dictionary>()); });
}

void defineCollections() {
  Class* a = Array::isa = defineClass("NSArray");
  method(a, "count", [](id h, SEL) -> u64 { return self<Array>(h)->items.size(); });
  method(a, "objectAtIndex:", [](id h, SEL, u64 i) -> id {
    auto& items = self<Array>(h)->items;
    if (i < items.size()) return items[i].get();
    misuse("range", "-[NSArray objectAtIndex:]: index " + std::to_string(i) + " beyond bounds [0, " +
      std::to_string(items.size()) + "): NSRangeException");
    return nullptr;
  });
  classMethod(a, "arrayWithObjects:count:", [](id, SEL, id* objects, u64 count) {
    id h = create<Array>();
    for (u64 i = 0; i < count; i++) self<Array>(h)->items.emplace_back(objects[i]);
    return autorelease(h);
  });

  Class* d = Dictionary::isa = defineClass("NSMutableDictionary");
  creatable<Dictionary>(d);
  classMethod(d, "dictionary", [](id, SEL) { return autorelease(create<Dictionary>()); });
  method(d, "count", [](id h, SEL) -> u64 { return self<Dictionary>(h)->entries.size(); });
  method(d, "setObject:forKey:", [](id h, SEL, id value, id key) {
    if (!value || !key) return misuse("bad-argument", "-[NSMutableDictionary setObject:forKey:] wants an object and a key");
    self<Dictionary>(h)->entries.emplace_back(Strong(key), Strong(value));
  });

  Class* n = Number::isa = defineClass("NSNumber");
  auto number = [](double v) {
    id h = create<Number>();
    self<Number>(h)->value = v;
    return autorelease(h);
  };
  static auto make = number;
  classMethod(n, "numberWithInt:", [](id, SEL, int32_t v) { return make(v); });
  classMethod(n, "numberWithBool:", [](id, SEL, bool v) { return make(v); });
  classMethod(n, "numberWithUnsignedInteger:", [](id, SEL, u64 v) { return make(static_cast<double>(v)); });
  method(n, "intValue", [](id h, SEL) { return static_cast<int32_t>(self<Number>(h)->value); });

  Class* u = Url::isa = defineClass("NSURL");
  classMethod(u, "fileURLWithPath:", [](id, SEL, id path) {
    id h = create<Url>();
    self<Url>(h)->path = textOf(path, "+[NSURL fileURLWithPath:]");
    return autorelease(h);
  });
  method(u, "path", [](id h, SEL) { return string(self<Url>(h)->path); });
}

void defineProcess() {
  Class* c = ProcessInfo::isa = defineClass("NSProcessInfo");
  classMethod(c, "processInfo", [](id, SEL) {
    static id shared = [] {
      id h = create<ProcessInfo>();
      h->cls->live = 0;  // lives as long as the process: no leak
      return h;
    }();
    return shared;
  });
  method(c, "operatingSystemVersionString", [](id, SEL) { return string("Version 15.0 (soft-metal)"); });
  method(c, "thermalState", [](id, SEL) -> i64 { return 0; });
  method(c, "physicalMemory", [](id, SEL) -> u64 {
    return static_cast<u64>(sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(sysconf(_SC_PAGESIZE));
  });

  Class* p = PoolObject::isa = defineClass("NSAutoreleasePool");
  creatable<PoolObject>(p);
  method(p, "drain", [](id h, SEL) { release(h); });
}

}  // namespace

std::string Number::describe() const { return std::to_string(static_cast<i64>(value)); }

id string(std::string text) { return autorelease(create<String>(std::move(text))); }

std::string textOf(id h, const char* where) {
  auto* s = expect<String>(h, where);
  return s ? s->text : "";
}

void giveError(id* out, const std::string& domain, i64 code, const std::string& text) {
  if (out) *out = autorelease(create<Error>(domain, code, text));
}

void defineFoundation() {
  defineRoot();
  defineString();
  defineError();
  defineCollections();
  defineProcess();
}

}  // namespace soft
