// MTLIndirectCommandBuffer for compute. Commands hold buffers unretained, as Metal's do; misuse spoils the whole buffer and
// shows when it is executed.
#include "metal.h"

namespace soft {

Class* IndirectBuffer::isa;

namespace {

struct Descriptor : Object {
  static Class* isa;
  u64 types = 0, maxBuffers = 31;
  bool inheritBuffers = true, inheritPipeline = true;
};
/** The client's handle of one command. */
struct CommandView : Object {
  static Class* isa;
  IndirectBuffer* owner = nullptr;
  size_t index = 0;
};
Class *Descriptor::isa, *CommandView::isa;

void spoil(IndirectBuffer* b, const std::string& kind, const std::string& text) {
  misuse(kind, text);
  if (b->poison.empty()) b->poison = text;
}
IndirectCommand* commandOf(id h, const char* selector) {
  auto* v = self<CommandView>(h);
  if (v->owner) return &v->owner->commands[v->index];
  misuse("freed-object", std::string("-[MTLIndirectComputeCommand ") + selector + "] after its buffer was freed");
  return nullptr;
}
IndirectBuffer* ownerOf(id h) { return self<CommandView>(h)->owner; }

void setDispatch(id h, MTLSize grid, MTLSize size, bool threads, const char* selector) {
  IndirectCommand* c = commandOf(h, selector);
  if (!c) return;
  if (!(ownerOf(h)->types & (threads ? 0x40 : 0x20)))
    return spoil(ownerOf(h), "bad-argument", std::string("-[MTLIndirectComputeCommand ") + selector + "]: its commandTypes do not allow it");
  c->grid = grid, c->size = size, c->threads = threads, c->set = true;
}

void defineCommand() {
  Class* c = CommandView::isa = defineClass("MTLIndirectComputeCommand");
  method(c, "setComputePipelineState:", [](id h, SEL, id p) {
    IndirectCommand* k = commandOf(h, "setComputePipelineState:");
    if (!k) return;
    if (ownerOf(h)->inheritPipeline) return spoil(ownerOf(h), "bad-argument", "-[MTLIndirectComputeCommand setComputePipelineState:]: the pipeline is inherited");
    if (!expect<Pipeline>(p, "-[MTLIndirectComputeCommand setComputePipelineState:]")) return spoil(ownerOf(h), "bad-argument", "an indirect command got no pipeline");
    if (!self<Pipeline>(p)->indirect)
      return spoil(ownerOf(h), "bad-argument", "-[MTLIndirectComputeCommand setComputePipelineState:]: pipeline of '" + self<Pipeline>(p)->info().name + "' was made without supportIndirectCommandBuffers");
    k->pipeline = Strong(p);
  });
  method(c, "setKernelBuffer:offset:atIndex:", [](id h, SEL, id b, u64 offset, u64 index) {
    const char* where = "-[MTLIndirectComputeCommand setKernelBuffer:offset:atIndex:]";
    IndirectCommand* k = commandOf(h, "setKernelBuffer:offset:atIndex:");
    if (!k) return;
    if (ownerOf(h)->inheritBuffers) return spoil(ownerOf(h), "bad-argument", std::string(where) + ": the buffers are inherited");
    if (index >= ownerOf(h)->maxBuffers) return spoil(ownerOf(h), "limit", std::string(where) + ": index " + std::to_string(index) + " is not below maxKernelBufferBindCount " + std::to_string(ownerOf(h)->maxBuffers));
    auto* buffer = expect<Buffer>(b, where);
    if (!buffer) return spoil(ownerOf(h), "bad-argument", std::string(where) + " got no buffer");
    if (offset >= buffer->memory->length) return spoil(ownerOf(h), "limit", std::string(where) + ": offset " + std::to_string(offset) + " is not inside the buffer's length " + std::to_string(buffer->memory->length));
    k->buffers[index] = Bound{buffer->memory, offset, nullptr};
  });
  method(c, "setThreadgroupMemoryLength:atIndex:", [](id h, SEL, u64 length, u64 index) {
    IndirectCommand* k = commandOf(h, "setThreadgroupMemoryLength:atIndex:");
    if (!k) return;
    if (length % 16 || index >= sm::kBuffers) return spoil(ownerOf(h), "limit", "-[MTLIndirectComputeCommand setThreadgroupMemoryLength:atIndex:]: length must be a multiple of 16");
    k->dynamicBytes[index] = static_cast<u32>(length);
  });
  method(c, "concurrentDispatchThreadgroups:threadsPerThreadgroup:", [](id h, SEL, MTLSize g, MTLSize s) {
    setDispatch(h, g, s, false, "concurrentDispatchThreadgroups:threadsPerThreadgroup:");
  });
  method(c, "concurrentDispatchThreads:threadsPerThreadgroup:", [](id h, SEL, MTLSize g, MTLSize s) {
    setDispatch(h, g, s, true, "concurrentDispatchThreads:threadsPerThreadgroup:");
  });
  method(c, "setBarrier", [](id h, SEL) { if (auto* k = commandOf(h, "setBarrier")) k->barrier = true; });
  method(c, "clearBarrier", [](id h, SEL) { if (auto* k = commandOf(h, "clearBarrier")) k->barrier = false; });
  method(c, "reset", [](id h, SEL) { if (auto* k = commandOf(h, "reset")) *k = IndirectCommand{}; });
}

void defineDescriptor() {
  Class* d = Descriptor::isa = defineClass("MTLIndirectCommandBufferDescriptor");
  creatable<Descriptor>(d);
  method(d, "setCommandTypes:", [](id h, SEL, u64 v) { self<Descriptor>(h)->types = v; });
  method(d, "setInheritBuffers:", [](id h, SEL, bool v) { self<Descriptor>(h)->inheritBuffers = v; });
  method(d, "setInheritPipelineState:", [](id h, SEL, bool v) { self<Descriptor>(h)->inheritPipeline = v; });
  method(d, "setMaxKernelBufferBindCount:", [](id h, SEL, u64 v) {
    if (v > sm::kBuffers) return misuse("limit", "-[MTLIndirectCommandBufferDescriptor setMaxKernelBufferBindCount:] is at most 31");
    self<Descriptor>(h)->maxBuffers = v;
  });
  method(d, "setMaxKernelThreadgroupMemoryBindCount:", [](id, SEL, u64) {});
}

}  // namespace

IndirectBuffer::~IndirectBuffer() {
  for (id h : handles)
    if (h) {
      static_cast<CommandView*>(h->impl)->owner = nullptr;
      release(h);
    }
}

void defineIndirect() {
  defineDescriptor();
  defineCommand();
  Class* c = IndirectBuffer::isa = defineClass("MTLIndirectCommandBuffer");
  method(c, "indirectComputeCommandAtIndex:", [](id h, SEL, u64 i) -> id {
    auto* b = self<IndirectBuffer>(h);
    if (i >= b->commands.size()) {
      spoil(b, "range", "-[MTLIndirectCommandBuffer indirectComputeCommandAtIndex:]: " + std::to_string(i) + " is not below " + std::to_string(b->commands.size()));
      return nullptr;
    }
    if (!b->handles[i]) {
      b->handles[i] = create<CommandView>();
      self<CommandView>(b->handles[i])->owner = b;
      self<CommandView>(b->handles[i])->index = i;
    }
    return b->handles[i];
  });
  method(c, "resetWithRange:", [](id h, SEL, NSRange r) {
    auto* b = self<IndirectBuffer>(h);
    if (r.location + r.length > b->commands.size()) return spoil(b, "range", "-[MTLIndirectCommandBuffer resetWithRange:] beyond its size");
    for (u64 i = 0; i < r.length; i++) b->commands[r.location + i] = IndirectCommand{};
  });
  method(c, "size", [](id h, SEL) -> u64 { return self<IndirectBuffer>(h)->commands.size(); });
  method(c, "setLabel:", [](id, SEL, id) {});
  method(findClass("MTLDevice"), "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:", [](id, SEL, id desc, u64 count, u64) -> id {
    const char* where = "-[MTLDevice newIndirectCommandBufferWithDescriptor:maxCommandCount:options:]";
    auto* d = expect<Descriptor>(desc, where);
    if (!d) return nullptr;
    if (count == 0 || count > 16384 || !(d->types & 0x60) || (d->types & ~0x60ull)) {
      misuse("bad-argument", std::string(where) + ": wants 1 to 16384 commands of compute types 0x20 | 0x40, got " + std::to_string(count) + " of " + std::to_string(d->types));
      return nullptr;
    }
    if (Injections::take(injections.oom)) return nullptr;
    id h = create<IndirectBuffer>();
    auto* b = self<IndirectBuffer>(h);
    b->types = d->types, b->maxBuffers = d->maxBuffers, b->inheritBuffers = d->inheritBuffers, b->inheritPipeline = d->inheritPipeline;
    b->commands.resize(count);
    b->handles.resize(count, nullptr);
    return h;
  });
}

}  // namespace soft
