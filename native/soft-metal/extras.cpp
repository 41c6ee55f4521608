// Residency sets, the capture manager and command buffer descriptors: small classes around the main path.
#include <fstream>

#include "metal.h"

namespace soft {

Class* ResidencySet::isa;

namespace {

struct SetDescriptor : Object { static Class* isa; };
struct CommandBufferDescriptor : Object {
  static Class* isa;
  bool retains = true;
};
struct CaptureDescriptor : Object {
  static Class* isa;
  i64 destination = 1;
  Strong url, object;
};
struct CaptureManager : Object {
  static Class* isa;
  bool capturing = false;
};
Class *SetDescriptor::isa, *CommandBufferDescriptor::isa, *CaptureDescriptor::isa, *CaptureManager::isa;

void defineResidency() {
  Class* d = SetDescriptor::isa = defineClass("MTLResidencySetDescriptor");
  creatable<SetDescriptor>(d);
  method(d, "setInitialCapacity:", [](id, SEL, u64) {});
  method(d, "setLabel:", [](id, SEL, id) {});
  Class* c = ResidencySet::isa = defineClass("MTLResidencySet");
  auto add = [](ResidencySet* s, id a) {
    if (is<IndirectBuffer>(a) || expect<Buffer>(a, "-[MTLResidencySet addAllocation:]")) s->pending.emplace_back(a);
  };
  static auto addTo = add;
  method(c, "addAllocation:", [](id h, SEL, id a) { addTo(self<ResidencySet>(h), a); });
  method(c, "addAllocations:count:", [](id h, SEL, id* a, u64 n) { for (u64 i = 0; i < n; i++) addTo(self<ResidencySet>(h), a[i]); });
  method(c, "removeAllocation:", [](id h, SEL, id a) {
    auto& p = self<ResidencySet>(h)->pending;
    for (size_t i = 0; i < p.size(); i++) if (p[i].get() == a) { p.erase(p.begin() + static_cast<long>(i)); return; }
  });
  method(c, "removeAllAllocations", [](id h, SEL) { self<ResidencySet>(h)->pending.clear(); });
  method(c, "commit", [](id h, SEL) { self<ResidencySet>(h)->current = self<ResidencySet>(h)->pending; });
  method(c, "requestResidency", [](id, SEL) {});
  method(c, "endResidency", [](id, SEL) {});
  method(c, "allocationCount", [](id h, SEL) -> u64 { return self<ResidencySet>(h)->pending.size(); });
  method(c, "allocatedSize", [](id h, SEL) -> u64 {
    u64 n = 0;
    for (auto& s : self<ResidencySet>(h)->current) if (is<Buffer>(s.get())) n += self<Buffer>(s.get())->memory->mapped;
    return n;
  });
  method(c, "containsAllocation:", [](id h, SEL, id a) -> bool {
    for (auto& s : self<ResidencySet>(h)->pending) if (s.get() == a) return true;
    return false;
  });
  method(findClass("MTLDevice"), "newResidencySetWithDescriptor:error:", [](id, SEL, id desc, id*) -> id {
    return expect<SetDescriptor>(desc, "-[MTLDevice newResidencySetWithDescriptor:error:]") ? create<ResidencySet>() : nullptr;
  });
}

void defineDescriptors() {
  Class* d = CommandBufferDescriptor::isa = defineClass("MTLCommandBufferDescriptor");
  creatable<CommandBufferDescriptor>(d);
  method(d, "setRetainedReferences:", [](id h, SEL, bool v) { self<CommandBufferDescriptor>(h)->retains = v; });
  method(d, "setErrorOptions:", [](id, SEL, u64) {});
  method(Queue::isa, "commandBufferWithDescriptor:", [](id h, SEL, id desc) -> id {
    auto* d = expect<CommandBufferDescriptor>(desc, "-[MTLCommandQueue commandBufferWithDescriptor:]");
    return d ? newCommandBuffer(h, d->retains) : nullptr;
  });
}

// A capture writes an empty file: enough to prove that the client asks for it rightly.
void defineCapture() {
  Class* d = CaptureDescriptor::isa = defineClass("MTLCaptureDescriptor");
  creatable<CaptureDescriptor>(d);
  method(d, "setCaptureObject:", [](id h, SEL, id o) { self<CaptureDescriptor>(h)->object = Strong(o); });
  method(d, "setDestination:", [](id h, SEL, i64 v) { self<CaptureDescriptor>(h)->destination = v; });
  method(d, "setOutputURL:", [](id h, SEL, id u) { if (expect<Url>(u, "-[MTLCaptureDescriptor setOutputURL:]")) self<CaptureDescriptor>(h)->url = Strong(u); });
  Class* c = CaptureManager::isa = defineClass("MTLCaptureManager");
  classMethod(c, "sharedCaptureManager", [](id, SEL) {
    static id shared = [] {
      id h = create<CaptureManager>();
      h->refs = 1 << 30;
      h->cls->live = 0;
      return h;
    }();
    return shared;
  });
  method(c, "supportsDestination:", [](id, SEL, i64 v) -> bool { return v == 2 && getenv("METAL_CAPTURE_ENABLED"); });
  method(c, "startCaptureWithDescriptor:error:", [](id h, SEL, id desc, id* error) -> bool {
    auto* m = self<CaptureManager>(h);
    auto* d = expect<CaptureDescriptor>(desc, "-[MTLCaptureManager startCaptureWithDescriptor:error:]");
    auto refuse = [&](const char* text) { giveError(error, "MTLCaptureErrorDomain", 1, text); return false; };
    if (!d) return false;
    if (!getenv("METAL_CAPTURE_ENABLED")) return refuse("Capturing is not supported: METAL_CAPTURE_ENABLED=1 is not set");
    if (m->capturing) return refuse("Already capturing");
    if (d->destination != 2 || !d->url || !d->object) return refuse("A gputrace capture wants a captureObject and an outputURL");
    std::string path = self<Url>(d->url.get())->path;
    if (std::ifstream(path).good()) return refuse("The output file exists already");
    std::ofstream out(path);
    if (!out.good()) return refuse("The output file cannot be written");
    m->capturing = true;
    return true;
  });
  method(c, "stopCapture", [](id h, SEL) { self<CaptureManager>(h)->capturing = false; });
  method(c, "isCapturing", [](id h, SEL) -> bool { return self<CaptureManager>(h)->capturing; });
}

}  // namespace

void defineExtras() {
  defineResidency();
  defineDescriptors();
  defineCapture();
}

}  // namespace soft
