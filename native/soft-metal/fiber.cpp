// Threads as fibers: one threadgroup at a time on one operating-system thread, true rendezvous for simdgroup and threadgroup
// collectives, and the reports of the checks that need to know who waits where.
// Invariants: a fiber yields only inside a collective or when it ends; a fault never returns to the kernel, its fiber is
// abandoned and its stack reused; the Lane of a fiber lies at the bottom of its stack (see shim/abi.h).
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include <cstdlib>
#include <cstring>

#include "execute.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (void)0
#endif

extern "C" void soft_switch(void** save, void* to);

namespace soft {

using sm::Lane;
using sm::Simd;

namespace {

constexpr uint32_t kThreads = 1024, kMemory = 32 * 1024;
enum State : uint32_t { kReady, kSimd, kBarrier, kDone };
const char* const kUnforeseen = "a collective that the rewriter did not see: soft-metal runs this kernel without fibers";
constexpr uint64_t kCanary = 0x57ac5a4e57ac5a4eull;

void simdWait(Lane*, int line, const char* op);
void groupWait(Lane*, int line, bool ordersMemory);
void fault(Lane*, sm::Fault, uint32_t access, int line, const void* at, uint64_t bytes, const sm::Binding*, const sm::Range*, uint64_t other);
void track(Lane*, const sm::Binding*, const void* at, uint64_t bytes, uint32_t access, int line);
const sm::Api kApi{simdWait, groupWait, fault, track};

}  // namespace

struct Worker : sm::Group {
  GridRun* run = nullptr;
  char* stacks = nullptr;
  void* home = nullptr;  // the scheduler's stack pointer
  bool aborted = false;
  uint32_t arrived = 0, finished = 0, first = 0;
  int barrierLine = 0;
  uint64_t epoch = 1;
  Simd lanes[kThreads / sm::kLanes];
  sm::Cell shadow[kMemory];
  alignas(256) char bytes[kMemory + 256];

  Lane* lane(uint32_t i) const { return reinterpret_cast<Lane*>(stacks + i * sm::kStackBytes); }
  uint32_t simdCount() const { return (count + 31) / 32; }
};

void GridRun::fail(const std::string& text) {
  std::lock_guard<std::mutex> hold(lock);
  if (report.empty()) report = text;
  failed = true;
}

uint32_t threadgroupBytes(const GridRun& run) {
  uint32_t n = run.program->statics[run.kernel].bytes;
  for (uint32_t d : run.dynamicBytes) n = (n + 15) / 16 * 16 + d;
  return n;
}

namespace {

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}
std::string positionOf(const Worker* w, const Lane* l) {
  return "thread " + triple(l->position[0], l->position[1], l->position[2]) + " of threadgroup " + triple(w->id[0], w->id[1], w->id[2]);
}
std::string threadName(const Worker* w, uint32_t index) {
  uint32_t x = w->size[0], y = w->size[1];
  return "thread " + triple(index % x, index / x % y, index / x / y);
}

/** End the whole group: record, leave the fiber for good. */
void stop(Worker* w, Lane* l, int line, const std::string& what) {
  w->run->fail("kernel '" + w->run->info().name + "', program_source:" + std::to_string(line) + ": " + what + "; " + positionOf(w, l));
  w->aborted = true;
  void* dropped;
  soft_switch(&dropped, w->home);
}

void yield(Worker* w, Lane* l) {
  Simd* s = l->simd;
  if (s->ready) {
    uint32_t next = static_cast<uint32_t>(__builtin_ctz(s->ready));
    s->ready &= s->ready - 1;
    soft_switch(&l->sp, w->lane(l->simdIndex * 32 + next)->sp);
  } else soft_switch(&l->sp, w->home);
}

void completeSimd(Simd* s, uint32_t current) {
  s->arrived = 0;
  s->computed[s->parity ^ 1] = false;
  s->met[s->parity] = s->live;
  s->parity ^= 1;
  s->ready = s->live & ~current;
  // Only a barrier orders memory; the shim names it otherwise when its flags leave threadgroup memory out.
  if (strcmp(s->op, "simdgroup_barrier") == 0) s->epoch++, s->stamp += 1ull << 13;
}

void simdWait(Lane* l, int line, const char* op) {
  auto* w = static_cast<Worker*>(l->group);
  Simd* s = l->simd;
  if (!w->run->info().collective) stop(w, l, line, kUnforeseen);
  uint32_t bit = 1u << l->lane;
  if (s->arrived == 0) s->line = line, s->op = op, s->first = l->index;
  else if (s->line != line || (s->op != op && strcmp(s->op, op) != 0))
    stop(w, l, line, std::string("divergent collective: ") + op + " while " + threadName(w, s->first) + " of the same simdgroup waits in " +
      s->op + " at line " + std::to_string(s->line));
  s->arrived |= bit;
  l->line = line, l->op = op;
  if (s->arrived == s->live) return completeSimd(s, bit);
  l->state = kSimd;
  yield(w, l);
  l->state = kReady;
}

void groupWait(Lane* l, int line, bool ordersMemory) {
  auto* w = static_cast<Worker*>(l->group);
  if (!w->run->info().collective) stop(w, l, line, kUnforeseen);
  if (w->finished) {
    uint32_t other = 0;
    while (w->lane(other)->state != kDone) other++;
    stop(w, l, line, "divergent barrier: threadgroup_barrier after " + threadName(w, other) + " returned without reaching it");
  }
  if (w->arrived == 0) w->barrierLine = line, w->first = l->index;
  else if (w->barrierLine != line)
    stop(w, l, line, "divergent barrier: threadgroup_barrier while " + threadName(w, w->first) + " waits in another at line " + std::to_string(w->barrierLine));
  l->line = line, l->op = "threadgroup_barrier";
  if (++w->arrived == w->count) {
    w->arrived = 0;
    if (ordersMemory) w->epoch++;
    for (uint32_t i = 0; i < w->simdCount(); i++) {
      Simd& s = w->lanes[i];
      s.ready = s.live;
      if (ordersMemory) s.epoch = 0, s.stamp = w->epoch << 33;
    }
    l->simd->ready &= ~(1u << l->lane);
    return;
  }
  l->state = kBarrier;
  yield(w, l);
  l->state = kReady;
}

void fault(Lane* l, sm::Fault kind, uint32_t access, int line, const void* at, uint64_t bytes, const sm::Binding* b, const sm::Range* r, uint64_t other) {
  auto* w = static_cast<Worker*>(l->group);
  std::string verb = access & sm::kAtomic ? "atomic access" : access & sm::kWrite ? "write" : "read";
  std::string place = "threadgroup memory";
  int64_t offset = 0, length = 0;
  if (b) {
    place = "buffer(" + std::to_string(b->index) + ")";
    for (auto& a : w->run->info().args)
      if ((a.kind == KernelArg::Buffer || a.kind == KernelArg::Reference) && a.index == b->index) place += " '" + a.name + "'";
    offset = static_cast<const char*>(at) - b->base, length = b->end - b->base;
  } else if (r) offset = static_cast<const char*>(at) - r->base, length = r->end - r->base;
  std::string where = std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of " + place;
  auto thread = static_cast<uint32_t>(other & 0xfff);
  std::string whom = thread == 0xfff || thread > 1024 ? "several threads" : thread ? threadName(w, thread - 1) : "another thread";
  switch (kind) {
    case sm::kBounds: return stop(w, l, line, "out of bounds: " + verb + " of " + where + ", whose length is " + std::to_string(length));
    case sm::kAlign: return stop(w, l, line, "misaligned " + verb + " at offset " + std::to_string(offset) + " of " + place + ": wants a multiple of " + std::to_string(bytes));
    case sm::kRace: return stop(w, l, line, "threadgroup race: " + verb + " of " + where + " that " + whom + (other >> 63 ? " wrote" : " read") + " with no barrier between");
    case sm::kUninit: return stop(w, l, line, "uninitialised read of " + where);
    case sm::kDispatchRace: return stop(w, l, line, "race between concurrent dispatches: " + verb + " of " + where + " that " +
      w->run->nameOf(static_cast<uint32_t>(other)) + (access & 4 ? " read" : " wrote") + " with no memory barrier between");
    case sm::kStack: return stop(w, l, line, "stack overflow");
  }
}

// Shadow words hold a dispatch serial; the top bit says 'atomic' in `writers` and 'several dispatches' in `readers`.
void track(Lane* l, const sm::Binding* b, const void* at, uint64_t bytes, uint32_t access, int line) {
  constexpr uint32_t top = 0x80000000u;
  uint64_t from = static_cast<uint64_t>(static_cast<const char*>(at) - b->memory), to = (from + bytes - 1) >> 1;
  bool atomic = access & sm::kAtomic;
  for (uint64_t c = from >> 1; c <= to; c++) {
    uint32_t w = b->writers[c], r = b->readers[c];
    if ((w & ~top) >= b->epoch && (w & ~top) != b->serial && !(atomic && (w & top)))
      fault(l, sm::kDispatchRace, access, line, at, bytes, b, nullptr, w & ~top);
    if (access & sm::kWrite) {
      if ((r & ~top) >= b->epoch && ((r & ~top) != b->serial || (r & top)))
        fault(l, sm::kDispatchRace, access | 4, line, at, bytes, b, nullptr, r & ~top);
      b->writers[c] = b->serial | (atomic ? top : 0);
    } else if (!atomic && r != b->serial) {
      b->readers[c] = b->serial | ((r & ~top) >= b->epoch ? top : 0);
    }
  }
}

void finishLane(Worker* w, Lane* l) {
  Simd* s = l->simd;
  l->state = kDone;
  w->finished++;
  s->live &= ~(1u << l->lane);
  if (*reinterpret_cast<uint64_t*>(l + 1) != kCanary) stop(w, l, w->run->info().line, "stack overflow: more than 128 KiB of thread memory");
  if (w->arrived) stop(w, l, w->barrierLine, "divergent barrier: this thread returned while " + threadName(w, w->first) + " waits in threadgroup_barrier");
  if (s->arrived && s->arrived == s->live) completeSimd(s, 0);
  yield(w, l);
}

void fiberMain() {
  Lane* l = sm::self();
  auto* w = static_cast<Worker*>(l->group);
  w->run->program->run[w->run->kernel](l);
  finishLane(w, l);
  abort();  // a finished fiber is never resumed
}

void prepare(Worker* w, uint32_t i) {
  Lane* l = w->lane(i);
  ASAN_UNPOISON_MEMORY_REGION(l, sm::kStackBytes);  // an abandoned fiber leaves its frames' red zones behind
  *reinterpret_cast<uint64_t*>(l + 1) = kCanary;
  auto** top = reinterpret_cast<void**>(reinterpret_cast<char*>(l) + sm::kStackBytes);
#if defined(__x86_64__)
  // As after a call: the stack pointer is 8 below a multiple of 16 when fiberMain begins.
  top -= 8;
  top[6] = reinterpret_cast<void*>(fiberMain);
  top[7] = nullptr;
#else
  top -= 20;
  memset(top, 0, 160);
  top[11] = reinterpret_cast<void*>(fiberMain);
#endif
  l->sp = top;
}

void place(Worker* w, uint32_t i) {
  Lane* l = w->lane(i);
  l->group = w;
  l->index = i, l->lane = i & 31, l->simdIndex = i / 32;
  l->simd = &w->lanes[i / 32];
  l->position[0] = i % w->size[0], l->position[1] = i / w->size[0] % w->size[1], l->position[2] = i / w->size[0] / w->size[1];
  l->state = kReady;
}

/** Nothing can run, not everyone is done: say who waits where. */
void reportDeadlock(Worker* w) {
  Lane* a = nullptr;
  for (uint32_t i = 0; i < w->count; i++) {
    Lane* l = w->lane(i);
    if (l->state != kSimd && l->state != kBarrier) continue;
    if (!a) a = l;
    if (a->state == l->state) continue;
    w->run->fail("kernel '" + w->run->info().name + "', program_source:" + std::to_string(l->line) + ": divergent collective: " + l->op + " while " +
      threadName(w, a->index) + " waits in " + a->op + " at line " + std::to_string(a->line) + "; " + positionOf(w, l));
    return;
  }
  std::string op = a ? a->op : "a collective";
  w->run->fail("kernel '" + w->run->info().name + "', program_source:" + std::to_string(a ? a->line : 0) + ": divergent collective: some threads never reach " + op +
    (a ? "; " + positionOf(w, a) : ""));
}

void layOutMemory(Worker* w, GridRun& run) {
  auto& statics = run.program->statics[run.kernel];
  for (uint32_t i = 0; i < statics.count; i++)
    w->statics[i] = {w->memory + statics.slots[i].offset, w->memory + statics.slots[i].offset + statics.slots[i].bytes};
  uint32_t at = statics.bytes, scalar = statics.scalar ? statics.scalar : 4;
  for (auto& a : run.info().args) {
    if (a.kind != KernelArg::Threadgroup) continue;
    at = (at + 15) / 16 * 16;
    w->dynamics[a.index] = {w->memory + at, w->memory + at + run.dynamicBytes[a.index]};
    at += run.dynamicBytes[a.index];
    bool four = a.type == "float" || a.type == "uint" || a.type == "int" || a.type == "float4" || a.type == "float2";
    scalar = std::min(scalar, a.type.rfind("half", 0) == 0 ? 2u : four ? 4u : 1u);
  }
  w->cellShift = scalar >= 4 ? 2 : scalar == 2 ? 1 : 0;
  if (at) memset(w->memory, 0xff, std::min(at, kMemory));  // NaN: what a group leaves behind must not help the next
}

void schedule(Worker* w) {
  for (;;) {
    bool ran = false;
    for (uint32_t i = 0; i < w->simdCount(); i++) {
      Simd& s = w->lanes[i];
      while (s.ready && !w->aborted) {
        uint32_t next = static_cast<uint32_t>(__builtin_ctz(s.ready));
        s.ready &= s.ready - 1;
        ran = true;
        soft_switch(&w->home, w->lane(i * 32 + next)->sp);
      }
      if (w->aborted) return;
    }
    if (w->finished == w->count) return;
    if (!ran) return reportDeadlock(w);
  }
}

void loopMain() {
  Lane* l = sm::self();
  auto* w = static_cast<Worker*>(l->group);
  w->run->program->run[w->run->kernel](l);
  void* dropped;
  soft_switch(&dropped, w->home);
  abort();
}

}  // namespace

Worker* newWorker() {
  auto* w = static_cast<Worker*>(mmap(nullptr, sizeof(Worker), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  new (w) Worker;
  size_t bytes = (kThreads + 1) * sm::kStackBytes;
  auto raw = reinterpret_cast<uintptr_t>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  w->stacks = reinterpret_cast<char*>((raw + sm::kStackBytes - 1) & ~(sm::kStackBytes - 1));
  w->memory = w->bytes;
  w->cells = w->shadow;
  w->api = &kApi;
  w->simds = w->lanes;
  return w;
}

void runGroup(Worker* w, GridRun& run, const uint32_t id[3]) {
  w->run = &run;
  w->launch = &run.launch;
  w->count = 1;
  for (int i = 0; i < 3; i++) {
    w->id[i] = id[i];
    uint32_t full = run.launch.size[i], left = run.launch.threads[i] - id[i] * full;
    w->size[i] = run.clip && left < full ? left : full;
    w->count *= w->size[i];
  }
  w->aborted = false;
  w->arrived = w->finished = 0;
  w->startEpoch = ++w->epoch;
  layOutMemory(w, run);
  for (uint32_t i = 0; i < w->simdCount(); i++) {
    Simd& s = w->lanes[i];
    uint32_t n = w->count - i * 32;
    s.live = s.ready = n >= 32 ? 0xffffffffu : (1u << n) - 1;
    s.arrived = s.parity = s.epoch = 0;
    s.computed[0] = s.computed[1] = false;
    s.stamp = w->epoch << 33;
  }
  if (run.info().collective) {
    for (uint32_t i = 0; i < w->count; i++) place(w, i), prepare(w, i);
    schedule(w);
  } else {
    place(w, 0), prepare(w, 0);
#if defined(__x86_64__)
    static_cast<void**>(w->lane(0)->sp)[6] = reinterpret_cast<void*>(loopMain);
#else
    static_cast<void**>(w->lane(0)->sp)[11] = reinterpret_cast<void*>(loopMain);
#endif
    soft_switch(&w->home, w->lane(0)->sp);
  }
}

}  // namespace soft
