// MTLDevice, MTLBuffer, MTLSharedEvent and the device's limits. Makes objects; runs nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "metal.h"

namespace soft {

Class *Buffer::isa, *SharedEvent::isa;

namespace {

struct Device : Object {
  static Class* isa;
  std::string describe() const override { return "Ingot soft-metal"; }
};
struct Architecture : Object { static Class* isa; };
Class *Device::isa, *Architecture::isa;

std::atomic<u64> allocated{0};

u64 physicalMemory() { return static_cast<u64>(sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(sysconf(_SC_PAGESIZE)); }
u64 setting(const char* name, u64 otherwise) {
  const char* e = getenv(name);
  return e && *e ? strtoull(e, nullptr, 10) : otherwise;
}
u64 maxBufferLength() { return setting("INGOT_SOFT_METAL_MAX_BUFFER", physicalMemory() / 2); }
u64 workingSet() { return setting("INGOT_SOFT_METAL_WORKING_SET", physicalMemory() / 4 * 3); }

MemoryRef allocate(u64 length) {
  u64 bytes = (length + kPage - 1) / kPage * kPage;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto m = std::make_shared<Memory>();
  m->data = static_cast<char*>(p);
  m->length = length;
  m->mapped = bytes;
  m->owned = true;
  allocated += bytes;
  return m;
}

id bufferOf(MemoryRef m, u64 options) {
  if (!m) return nullptr;
  id h = create<Buffer>();
  self<Buffer>(h)->memory = std::move(m);
  self<Buffer>(h)->options = options;
  return h;
}

id newBuffer(u64 length, u64 options, const char* where) {
  if (length == 0 || length > maxBufferLength()) {
    misuse("limit", std::string(where) + ": length " + std::to_string(length) + " must be between 1 and maxBufferLength " + std::to_string(maxBufferLength()));
    return nullptr;
  }
  if (options & ~0x331ull) {
    misuse("bad-argument", std::string(where) + ": unknown resource options " + std::to_string(options));
    return nullptr;
  }
  if (Injections::take(injections.oom)) return nullptr;
  return bufferOf(allocate(length), options);
}

id sharedDevice() {
  static id device = [] {
    id h = create<Device>();
    h->refs = 1 << 30;  // the device outlives every client, as on a Mac
    h->cls->live = 0;
    return h;
  }();
  return device;
}

void defineBuffer() {
  Class* c = Buffer::isa = defineClass("MTLBuffer");
  method(c, "contents", [](id h, SEL) -> void* {
    auto* b = self<Buffer>(h);
    return (b->options & 0xf0) == 0x20 ? nullptr : b->memory->data;
  });
  method(c, "length", [](id h, SEL) { return self<Buffer>(h)->memory->length; });
  method(c, "allocatedSize", [](id h, SEL) { return self<Buffer>(h)->memory->mapped; });
  method(c, "gpuAddress", [](id h, SEL) -> u64 { return reinterpret_cast<uintptr_t>(self<Buffer>(h)->memory->data); });
  method(c, "storageMode", [](id h, SEL) -> u64 { return self<Buffer>(h)->options >> 4 & 3; });
  method(c, "resourceOptions", [](id h, SEL) { return self<Buffer>(h)->options; });
  method(c, "setLabel:", [](id h, SEL, id text) { self<Buffer>(h)->memory->label = textOf(text, "-[MTLBuffer setLabel:]"); });
  method(c, "label", [](id h, SEL) { return string(self<Buffer>(h)->memory->label); });
  method(c, "setPurgeableState:", [](id, SEL, u64) -> u64 { return 2; });
  method(c, "device", [](id, SEL) { return sharedDevice(); });
  method(c, "didModifyRange:", [](id h, SEL, NSRange) {
    if ((self<Buffer>(h)->options & 0xf0) != 0x10) misuse("bad-argument", "-[MTLBuffer didModifyRange:] is for managed storage only");
  });
}

void defineEvent() {
  Class* c = SharedEvent::isa = defineClass("MTLSharedEvent");
  method(c, "signaledValue", [](id h, SEL) {
    auto* e = self<SharedEvent>(h);
    std::lock_guard<std::mutex> hold(e->lock);
    return e->value;
  });
  method(c, "setSignaledValue:", [](id h, SEL, u64 v) { self<SharedEvent>(h)->signal(v); });
  method(c, "waitUntilSignaledValue:timeoutMS:", [](id h, SEL, u64 v, u64 ms) -> bool {
    Strong keep(h);
    return self<SharedEvent>(h)->wait(v, ms);
  });
  method(c, "setLabel:", [](id, SEL, id) {});
}

void defineDeviceClass() {
  Class* c = Device::isa = defineClass("MTLDevice");
  method(c, "name", [](id, SEL) { return string("Ingot soft-metal"); });
  method(c, "registryID", [](id, SEL) -> u64 { return 0x1a607; });
  method(c, "architecture", [](id, SEL) { return autorelease(create<Architecture>()); });
  method(c, "hasUnifiedMemory", [](id, SEL) -> bool { return true; });
  method(c, "isLowPower", [](id, SEL) -> bool { return false; });
  method(c, "isHeadless", [](id, SEL) -> bool { return true; });
  method(c, "recommendedMaxWorkingSetSize", [](id, SEL) { return workingSet(); });
  method(c, "maxBufferLength", [](id, SEL) { return maxBufferLength(); });
  method(c, "maxThreadgroupMemoryLength", [](id, SEL) { return kMaxThreadgroupMemory; });
  method(c, "currentAllocatedSize", [](id, SEL) -> u64 { return allocated.load(); });
  // Apple1..Apple7 (1001..1007), Mac2 (2002), Common1..3 (3001..3003), Metal3 (5001): an M1.
  method(c, "supportsFamily:", [](id, SEL, i64 f) -> bool {
    return (f >= 1001 && f <= 1007) || f == 2002 || (f >= 3001 && f <= 3003) || f == 5001;
  });
  method(c, "supportsCounterSampling:", [](id, SEL, u64) -> bool { return false; });
  method(c, "counterSets", [](id, SEL) { return autorelease(create<Array>()); });
  method(c, "sampleTimestamps:gpuTimestamp:", [](id, SEL, u64* cpu, u64* gpu) {
    *cpu = *gpu = static_cast<u64>(now() * 1e9);
  });
  method(c, "newBufferWithLength:options:", [](id, SEL, u64 length, u64 options) {
    return newBuffer(length, options, "-[MTLDevice newBufferWithLength:options:]");
  });
  method(c, "newBufferWithBytes:length:options:", [](id, SEL, const void* bytes, u64 length, u64 options) -> id {
    if (!bytes) {
      misuse("bad-argument", "-[MTLDevice newBufferWithBytes:length:options:] wants bytes, got NULL");
      return nullptr;
    }
    id h = newBuffer(length, options, "-[MTLDevice newBufferWithBytes:length:options:]");
    if (h) memcpy(self<Buffer>(h)->memory->data, bytes, length);
    return h;
  });
  method(c, "newBufferWithBytesNoCopy:length:options:deallocator:", [](id, SEL, void* bytes, u64 length, u64 options, void* block) -> id {
    const char* where = "-[MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:]";
    u64 page = static_cast<u64>(sysconf(_SC_PAGESIZE));
    if (!bytes || reinterpret_cast<uintptr_t>(bytes) % page || length == 0 || length % page) {
      misuse("bad-argument", std::string(where) + ": pointer and length must be multiples of the page size " + std::to_string(page));
      return nullptr;
    }
    if (length > maxBufferLength()) {
      misuse("limit", std::string(where) + ": length " + std::to_string(length) + " beyond maxBufferLength");
      return nullptr;
    }
    if (block) misuse("unsupported", std::string(where) + ": deallocator blocks are not called by soft-metal");
    if (Injections::take(injections.oom)) return nullptr;
    auto m = std::make_shared<Memory>();
    m->data = static_cast<char*>(bytes);
    m->length = m->mapped = length;
    return bufferOf(m, options);
  });
  method(c, "newEvent", [](id, SEL) { return create<SharedEvent>(); });
  method(c, "newSharedEvent", [](id, SEL) { return create<SharedEvent>(); });

  Class* a = Architecture::isa = defineClass("MTLArchitecture");
  method(a, "name", [](id, SEL) { return string("soft_metal"); });
}

}  // namespace

Memory::~Memory() {
  if (u32* s = shadow.load()) munmap(s, cells() * 8);
  if (!owned) return;
  munmap(data, mapped);
  allocated -= mapped;
}

// Address space only: a page of it costs memory when a tracked access first falls there.
u32* Memory::shadows() {
  if (u32* s = shadow.load()) return s;
  void* p = mmap(nullptr, cells() * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  shadow = static_cast<u32*>(p);
  return static_cast<u32*>(p);
}

Buffer::~Buffer() {
  if (memory) memory->freed = true;
}

void SharedEvent::signal(u64 v) {
  std::lock_guard<std::mutex> hold(lock);
  value = v;
  changed.notify_all();
}
bool SharedEvent::wait(u64 v, u64 timeoutMs) {
  std::unique_lock<std::mutex> hold(lock);
  return changed.wait_for(hold, std::chrono::milliseconds(std::min<u64>(timeoutMs, 1u << 30)), [&] { return value >= v; });
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void defineDevice() {
  defineBuffer();
  defineEvent();
  defineDeviceClass();
}

}  // namespace soft

using namespace soft;

SOFT_EXPORT id MTLCreateSystemDefaultDevice() {
  ensureRuntime();
  return retain(sharedDevice());
}
SOFT_EXPORT id MTLCopyAllDevices() {
  ensureRuntime();
  id h = create<Array>();
  self<Array>(h)->items.emplace_back(sharedDevice());
  return h;
}
