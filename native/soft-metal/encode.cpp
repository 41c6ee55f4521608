// Compute and blit encoders: they record commands and check, while recording, what Metal's validation layer would.
// A command that breaks a rule is not recorded; it spoils the command buffer.
#include <cstring>

#include "metal.h"

namespace soft {

Class *ComputeEncoder::isa, *BlitEncoder::isa;

namespace {

std::string sizeText(const MTLSize& s) { return "(" + std::to_string(s.width) + ", " + std::to_string(s.height) + ", " + std::to_string(s.depth) + ")"; }
std::string selectorText(const Encoder* e, const char* selector) { return "-[MTL" + e->kind + "CommandEncoder " + selector + "]"; }

Command& record(Encoder* e, Command::Kind kind) {
  e->work->commands.emplace_back();
  e->work->commands.back().kind = kind;
  return e->work->commands.back();
}

/** A buffer argument's memory; spoils the work unless it is a live MTLBuffer. */
MemoryRef memoryOf(Encoder* e, id h, const char* selector) {
  if (is<Buffer>(h)) {
    e->work->keep(h);
    return self<Buffer>(h)->memory;
  }
  std::string text = selectorText(e, selector) + ": wants an MTLBuffer, got " + (!h ? "nil" : freed(h) ? "a freed " + h->cls->name : !alive(h) ? "no object" : "a " + h->cls->name);
  e->work->spoil(freed(h) ? "freed-object" : "bad-argument", text);
  return nullptr;
}
bool slot(Encoder* e, u64 index, const char* selector) {
  if (index < sm::kBuffers) return true;
  e->work->spoil("limit", selectorText(e, selector) + ": index " + std::to_string(index) + " must be below 31");
  return false;
}

void setBuffer(ComputeEncoder* e, id h, u64 offset, u64 index, const char* selector) {
  if (!e->open(selector) || !slot(e, index, selector)) return;
  if (!h) { e->buffers[index] = Bound{}; return; }
  MemoryRef m = memoryOf(e, h, selector);
  if (!m) return;
  if (offset >= m->length)
    return e->work->spoil("limit", selectorText(e, selector) + ": offset " + std::to_string(offset) + " is not inside the buffer's length " + std::to_string(m->length));
  e->buffers[index] = Bound{m, offset, nullptr};
}

void dispatch(ComputeEncoder* e, MTLSize grid, MTLSize size, bool threads, MemoryRef indirect, u64 indirectOffset, const char* selector) {
  if (!e->open(selector)) return;
  Work& w = *e->work;
  std::string where = selectorText(e, selector);
  if (!e->pipeline) return w.spoil("bad-order", where + " before setComputePipelineState:");
  Dispatch d;
  d.pipeline = self<Pipeline>(e->pipeline.get());
  d.grid = grid, d.size = size, d.threads = threads, d.indirect = std::move(indirect), d.indirectOffset = indirectOffset;
  memcpy(d.dynamicBytes, e->dynamicBytes, sizeof d.dynamicBytes);
  if (!gatherBuffers(w, d, e->buffers, where) || !validDispatch(w, d, where)) return;
  Command& c = record(e, Command::Run);
  c.dispatch = std::move(d);
  counters.dispatches++;
}

void use(ComputeEncoder* e, id* resources, u64 count, u64 usage, const char* selector) {
  if (!e->open(selector)) return;
  if (usage == 0 || usage > 3) return e->work->spoil("bad-argument", selectorText(e, selector) + ": usage is 1 (read), 2 (write) or 3, got " + std::to_string(usage));
  for (u64 i = 0; i < count; i++) {
    if (resources && is<IndirectBuffer>(resources[i])) { e->work->keep(resources[i]); continue; }
    if (MemoryRef m = memoryOf(e, resources ? resources[i] : nullptr, selector)) e->used.push_back(m);
  }
}

void barrierOn(ComputeEncoder* e, id* resources, u64 count) {
  const char* selector = "memoryBarrierWithResources:count:";
  if (!e->open(selector)) return;
  Command c;
  c.kind = Command::BarrierOn;
  for (u64 i = 0; i < count; i++)
    if (MemoryRef m = memoryOf(e, resources ? resources[i] : nullptr, selector)) c.memories.push_back(m);
  counters.barriers++;
  e->work->commands.push_back(std::move(c));
}

void executeIndirect(ComputeEncoder* e, id icb, NSRange range) {
  const char* selector = "executeCommandsInBuffer:withRange:";
  if (!e->open(selector)) return;
  Work& w = *e->work;
  if (!is<IndirectBuffer>(icb)) return w.spoil("bad-argument", selectorText(e, selector) + ": wants an MTLIndirectCommandBuffer");
  auto* b = self<IndirectBuffer>(icb);
  if (range.length == 0 || range.location + range.length > b->commands.size())
    return w.spoil("limit", selectorText(e, selector) + ": range " + std::to_string(range.location) + "+" + std::to_string(range.length) + " is not inside the " +
      std::to_string(b->commands.size()) + " commands");
  if (b->inheritPipeline && !e->pipeline) return w.spoil("bad-order", selectorText(e, selector) + ": the commands inherit a pipeline and none is set");
  w.kept.emplace_back(icb);
  Command& c = record(e, Command::Execute);
  c.icb = b;
  c.from = range.location, c.size = range.length;
  c.memories = e->used;
  c.dispatch.pipeline = e->pipeline ? self<Pipeline>(e->pipeline.get()) : nullptr;
  for (u32 i = 0; i < sm::kBuffers; i++)
    if (b->inheritBuffers && e->buffers[i]) c.dispatch.buffers.emplace_back(i, e->buffers[i]);
  counters.dispatches += range.length;
}

void endEncoding(Encoder* e) {
  if (!e->open("endEncoding")) return;
  record(e, Command::End);
  e->ended = true;
}

void defineCompute() {
  Class* c = ComputeEncoder::isa = defineClass("MTLComputeCommandEncoder");
  method(c, "setComputePipelineState:", [](id h, SEL, id p) {
    auto* e = self<ComputeEncoder>(h);
    if (!e->open("setComputePipelineState:")) return;
    if (!expect<Pipeline>(p, "-[MTLComputeCommandEncoder setComputePipelineState:]")) return e->work->spoil("bad-argument", "setComputePipelineState: got no pipeline");
    e->pipeline = Strong(p);
    e->work->kept.emplace_back(p);
  });
  method(c, "setBuffer:offset:atIndex:", [](id h, SEL, id b, u64 offset, u64 index) { setBuffer(self<ComputeEncoder>(h), b, offset, index, "setBuffer:offset:atIndex:"); });
  method(c, "setBufferOffset:atIndex:", [](id h, SEL, u64 offset, u64 index) {
    auto* e = self<ComputeEncoder>(h);
    const char* s = "setBufferOffset:atIndex:";
    if (!e->open(s) || !slot(e, index, s)) return;
    if (!e->buffers[index].memory || offset >= e->buffers[index].memory->length) return e->work->spoil("limit", selectorText(e, s) + ": no buffer there, or offset beyond it");
    e->buffers[index].offset = offset;
  });
  method(c, "setBuffers:offsets:withRange:", [](id h, SEL, id* b, u64* offsets, NSRange r) {
    for (u64 i = 0; i < r.length; i++) setBuffer(self<ComputeEncoder>(h), b[i], offsets[i], r.location + i, "setBuffers:offsets:withRange:");
  });
  method(c, "setBytes:length:atIndex:", [](id h, SEL, const void* bytes, u64 length, u64 index) {
    auto* e = self<ComputeEncoder>(h);
    const char* s = "setBytes:length:atIndex:";
    if (!e->open(s) || !slot(e, index, s)) return;
    if (!bytes || length == 0 || length > kMaxBytes) return e->work->spoil("limit", selectorText(e, s) + ": length " + std::to_string(length) + " must be between 1 and 4096");
    auto* p = static_cast<const char*>(bytes);
    e->buffers[index] = Bound{nullptr, 0, std::make_shared<std::vector<char>>(p, p + length)};
  });
  method(c, "setThreadgroupMemoryLength:atIndex:", [](id h, SEL, u64 length, u64 index) {
    auto* e = self<ComputeEncoder>(h);
    const char* s = "setThreadgroupMemoryLength:atIndex:";
    if (!e->open(s) || !slot(e, index, s)) return;
    if (length % 16 || length > kMaxThreadgroupMemory) return e->work->spoil("limit", selectorText(e, s) + ": length " + std::to_string(length) + " must be a multiple of 16, at most 32768");
    e->dynamicBytes[index] = static_cast<u32>(length);
  });
  method(c, "dispatchThreadgroups:threadsPerThreadgroup:", [](id h, SEL, MTLSize g, MTLSize s) {
    dispatch(self<ComputeEncoder>(h), g, s, false, nullptr, 0, "dispatchThreadgroups:threadsPerThreadgroup:");
  });
  method(c, "dispatchThreads:threadsPerThreadgroup:", [](id h, SEL, MTLSize g, MTLSize s) {
    dispatch(self<ComputeEncoder>(h), g, s, true, nullptr, 0, "dispatchThreads:threadsPerThreadgroup:");
  });
  method(c, "dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:", [](id h, SEL, id b, u64 offset, MTLSize s) {
    auto* e = self<ComputeEncoder>(h);
    const char* sel = "dispatchThreadgroupsWithIndirectBuffer:indirectBufferOffset:threadsPerThreadgroup:";
    MemoryRef m = e->open(sel) ? memoryOf(e, b, sel) : nullptr;
    if (!m) return;
    if (offset % 4 || offset + 12 > m->length) return e->work->spoil("limit", selectorText(e, sel) + ": three u32 do not fit at the offset");
    dispatch(e, {1, 1, 1}, s, false, m, offset, sel);
  });
  method(c, "memoryBarrierWithScope:", [](id h, SEL, u64 scope) {
    auto* e = self<ComputeEncoder>(h);
    if (!e->open("memoryBarrierWithScope:")) return;
    if (!(scope & 1)) return e->work->spoil("bad-argument", "-[MTLComputeCommandEncoder memoryBarrierWithScope:] wants 1 (buffers), got " + std::to_string(scope));
    counters.barriers++;
    record(e, Command::Barrier);
  });
  method(c, "memoryBarrierWithResources:count:", [](id h, SEL, id* r, u64 n) { barrierOn(self<ComputeEncoder>(h), r, n); });
  method(c, "useResource:usage:", [](id h, SEL, id r, u64 usage) { use(self<ComputeEncoder>(h), &r, 1, usage, "useResource:usage:"); });
  method(c, "useResources:count:usage:", [](id h, SEL, id* r, u64 n, u64 usage) { use(self<ComputeEncoder>(h), r, n, usage, "useResources:count:usage:"); });
  method(c, "executeCommandsInBuffer:withRange:", [](id h, SEL, id b, NSRange r) { executeIndirect(self<ComputeEncoder>(h), b, r); });
  method(c, "dispatchType", [](id h, SEL) -> u64 { return self<ComputeEncoder>(h)->concurrent ? 1 : 0; });
}

void defineBlit() {
  Class* c = BlitEncoder::isa = defineClass("MTLBlitCommandEncoder");
  method(c, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", [](id h, SEL, id src, u64 from, id dst, u64 to, u64 size) {
    auto* e = self<BlitEncoder>(h);
    const char* s = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:";
    if (!e->open(s)) return;
    MemoryRef a = memoryOf(e, src, s), b = memoryOf(e, dst, s);
    if (!a || !b) return;
    if (size == 0 || from + size > a->length || to + size > b->length)
      return e->work->spoil("limit", selectorText(e, s) + ": " + std::to_string(size) + " bytes do not fit in both buffers");
    if ((from | to | size) % 4) return e->work->spoil("limit", selectorText(e, s) + ": offsets and size must be multiples of 4");
    if (a == b && from < to + size && to < from + size) return e->work->spoil("limit", selectorText(e, s) + ": source and destination overlap");
    Command& k = record(e, Command::Copy);
    k.memories = {a, b};
    k.from = from, k.to = to, k.size = size;
  });
  method(c, "fillBuffer:range:value:", [](id h, SEL, id dst, NSRange r, uint8_t value) {
    auto* e = self<BlitEncoder>(h);
    const char* s = "fillBuffer:range:value:";
    if (!e->open(s)) return;
    MemoryRef m = memoryOf(e, dst, s);
    if (!m) return;
    if (r.length == 0 || r.location + r.length > m->length) return e->work->spoil("limit", selectorText(e, s) + ": range " + std::to_string(r.location) + "+" +
      std::to_string(r.length) + " is not inside the buffer's length " + std::to_string(m->length));
    Command& k = record(e, Command::Fill);
    k.memories = {m};
    k.to = r.location, k.size = r.length, k.value = value;
  });
  method(c, "synchronizeResource:", [](id, SEL, id) {});
  method(c, "optimizeIndirectCommandBuffer:withRange:", [](id, SEL, id, NSRange) {});
}

}  // namespace

Encoder::~Encoder() {
  if (work && !ended) misuse("missing-end-encoding", "a " + kind + " encoder was released without endEncoding");
}

bool Encoder::open(const char* selector) {
  if (!ended) return true;
  work->spoil("after-end-encoding", selectorText(this, selector) + " after endEncoding");
  return false;
}

bool gatherBuffers(Work& w, Dispatch& d, const Bound* table, const std::string& where) {
  for (auto& a : d.pipeline->info().args) {
    if (a.kind != KernelArg::Buffer && a.kind != KernelArg::Reference) continue;
    if (table[a.index]) d.buffers.emplace_back(a.index, table[a.index]);
    else if (!a.optional) {
      w.spoil("unbound", where + ": kernel '" + d.pipeline->info().name + "' wants buffer(" + std::to_string(a.index) + ") '" + a.name + "', nothing is bound there");
      return false;
    }
  }
  return true;
}

bool validDispatch(Work& w, const Dispatch& d, const std::string& where) {
  auto bad = [&](const std::string& text) { w.spoil("limit", where + ": kernel '" + d.pipeline->info().name + "': " + text); return false; };
  u64 threads = d.size.width * d.size.height * d.size.depth;
  if (d.grid.width == 0 || d.grid.height == 0 || d.grid.depth == 0) return bad("the grid " + sizeText(d.grid) + " is empty");
  if (threads == 0) return bad("threadsPerThreadgroup " + sizeText(d.size) + " is empty");
  if (d.size.width > kMaxThreads || d.size.height > kMaxThreads || d.size.depth > kMaxThreads || threads > d.pipeline->maxThreads)
    return bad("threadsPerThreadgroup " + sizeText(d.size) + " is more than " + std::to_string(d.pipeline->maxThreads) + " threads");
  for (u64 n : {d.grid.width, d.grid.height, d.grid.depth}) if (n > 0xffffffffull) return bad("the grid " + sizeText(d.grid) + " exceeds 32 bits");
  u64 bytes = d.pipeline->program->statics[d.pipeline->kernel].bytes;
  for (auto& a : d.pipeline->info().args) {
    if (a.kind != KernelArg::Threadgroup) continue;
    if (!d.dynamicBytes[a.index]) return bad("threadgroup(" + std::to_string(a.index) + ") '" + a.name + "' has no length: setThreadgroupMemoryLength:atIndex: is missing");
    bytes = (bytes + 15) / 16 * 16 + d.dynamicBytes[a.index];
  }
  if (bytes > kMaxThreadgroupMemory) return bad(std::to_string(bytes) + " bytes of threadgroup memory are more than 32768");
  return true;
}

static void begin(CommandBuffer* b, id h, Encoder* e, const char* kind, bool concurrent) {
  e->work = b->work;
  e->kind = kind;
  e->concurrent = concurrent;
  b->open = e;
  b->openHandle = Strong(h);
  counters.encoders++;
  record(e, Command::Begin).concurrent = concurrent;
}

id newComputeEncoder(CommandBuffer* b, bool concurrent) {
  id h = create<ComputeEncoder>();
  begin(b, h, self<ComputeEncoder>(h), "Compute", concurrent);
  return autorelease(h);
}
id newBlitEncoder(CommandBuffer* b) {
  id h = create<BlitEncoder>();
  begin(b, h, self<BlitEncoder>(h), "Blit", false);
  return autorelease(h);
}

void defineEncoders() {
  defineCompute();
  defineBlit();
  for (Class* c : {ComputeEncoder::isa, BlitEncoder::isa}) {
    method(c, "endEncoding", [](id h, SEL) { endEncoding(static_cast<Encoder*>(h->impl)); });
    method(c, "setLabel:", [](id, SEL, id) {});
    method(c, "insertDebugSignpost:", [](id, SEL, id) {});
    method(c, "pushDebugGroup:", [](id, SEL, id) {});
    method(c, "popDebugGroup", [](id, SEL) {});
  }
}

}  // namespace soft
