// MTLCommandQueue and MTLCommandBuffer: recording, committing, waiting. Each queue has a thread that executes its work in
// order. What a Mac answers with an exception spoils the work: it then ends in status 5 with the report as its error.
#include <deque>
#include <thread>

#include "metal.h"

namespace soft {

Class *Queue::isa, *CommandBuffer::isa;

/** A queue's thread and the work that waits for it; outlives the queue until the work is done. */
struct Queue::Line {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<WorkRef> waiting;
  bool started = false, closing = false;

  void serve() {
    for (;;) {
      WorkRef work;
      {
        std::unique_lock<std::mutex> hold(lock);
        changed.wait(hold, [&] { return closing || !waiting.empty(); });
        if (waiting.empty()) return;
        work = waiting.front();
        waiting.pop_front();
      }
      execute(*work);
    }
  }
};

Queue::~Queue() {
  if (!line) return;
  std::lock_guard<std::mutex> hold(line->lock);
  line->closing = true;
  line->changed.notify_all();
}

void Queue::submit(const WorkRef& work) {
  std::lock_guard<std::mutex> hold(line->lock);
  if (!line->started) {
    line->started = true;
    std::thread([l = line] { l->serve(); }).detach();
  }
  line->waiting.push_back(work);
  line->changed.notify_all();
}

void Work::finish(Status s) {
  // Objects are let go before the status is seen, so that a client that waited can count them.
  std::vector<Strong> done;
  std::vector<MemoryRef> memories;
  done.swap(kept);
  memories.swap(resident);
  std::vector<Command> ran;
  ran.swap(commands);
  ran.clear();
  done.clear();
  memories.clear();
  std::lock_guard<std::mutex> hold(lock);
  status = s;
  changed.notify_all();
}

CommandBuffer::~CommandBuffer() {
  if (!work || work->status.load() >= kCommitted) return;
  misuse("missing-commit", "a command buffer" + (work->label.empty() ? std::string() : " '" + work->label + "'") + " was released without commit: its " +
    std::to_string(work->commands.size()) + " commands never ran");
}

namespace {

id newQueue() {
  id h = create<Queue>();
  self<Queue>(h)->line = std::make_shared<Queue::Line>();
  return h;
}

void addResident(Work& w, id set) {
  for (auto& s : self<ResidencySet>(set)->current)
    if (is<Buffer>(s.get())) w.resident.push_back(self<Buffer>(s.get())->memory);
}

bool recording(CommandBuffer* b, const char* selector) {
  if (b->work->status.load() >= kCommitted) {
    misuse("after-commit", std::string("-[MTLCommandBuffer ") + selector + "] after commit");
    return false;
  }
  if (b->open && !b->open->ended) {
    b->work->spoil("missing-end-encoding", std::string("-[MTLCommandBuffer ") + selector + "] while a " + b->open->kind + " encoder is open: endEncoding is missing");
    return false;
  }
  return true;
}

void commit(id h) {
  auto* b = self<CommandBuffer>(h);
  Work& w = *b->work;
  if (w.status.load() >= kCommitted) return misuse("double-commit", "-[MTLCommandBuffer commit] on a command buffer that was committed before");
  if (b->open && !b->open->ended) {
    w.spoil("missing-end-encoding", "-[MTLCommandBuffer commit] with an open " + b->open->kind + " encoder: endEncoding is missing");
    b->open->ended = true;
  }
  counters.commandBuffers++;
  auto* q = self<Queue>(b->queue.get());
  for (auto& s : q->residency) addResident(w, s.get());
  w.status = kCommitted;
  q->submit(b->work);
}

void event(id h, id e, u64 value, Command::Kind kind, const char* selector) {
  auto* b = self<CommandBuffer>(h);
  if (!recording(b, selector)) return;
  auto* ev = expect<SharedEvent>(e, selector);
  if (!ev) return b->work->spoil("bad-argument", std::string(selector) + " wants an event");
  Command c;
  c.kind = kind;
  c.event = ev;
  c.value = value;
  b->work->kept.emplace_back(e);
  b->work->commands.push_back(std::move(c));
}

void defineQueue() {
  Class* c = Queue::isa = defineClass("MTLCommandQueue");
  method(c, "commandBuffer", [](id h, SEL) { return newCommandBuffer(h, true); });
  method(c, "commandBufferWithUnretainedReferences", [](id h, SEL) { return newCommandBuffer(h, false); });
  method(c, "setLabel:", [](id h, SEL, id t) { self<Queue>(h)->label = textOf(t, "-[MTLCommandQueue setLabel:]"); });
  method(c, "label", [](id h, SEL) { return string(self<Queue>(h)->label); });
  method(c, "addResidencySet:", [](id h, SEL, id s) {
    auto& sets = self<Queue>(h)->residency;
    if (!expect<ResidencySet>(s, "-[MTLCommandQueue addResidencySet:]")) return;
    if (sets.size() >= 32) return misuse("limit", "-[MTLCommandQueue addResidencySet:]: at most 32 sets per queue");
    sets.emplace_back(s);
  });
  method(c, "removeResidencySet:", [](id h, SEL, id s) {
    auto& sets = self<Queue>(h)->residency;
    for (size_t i = 0; i < sets.size(); i++)
      if (sets[i].get() == s) { sets.erase(sets.begin() + static_cast<long>(i)); return; }
  });
  Class* d = findClass("MTLDevice");
  method(d, "newCommandQueue", [](id, SEL) { return newQueue(); });
  method(d, "newCommandQueueWithMaxCommandBufferCount:", [](id, SEL, u64 n) -> id {
    if (n == 0) { misuse("bad-argument", "-[MTLDevice newCommandQueueWithMaxCommandBufferCount:] wants a positive count"); return nullptr; }
    return newQueue();
  });
}

void defineBuffer() {
  Class* c = CommandBuffer::isa = defineClass("MTLCommandBuffer");
  method(c, "enqueue", [](id h, SEL) {
    auto& s = self<CommandBuffer>(h)->work->status;
    if (s.load() == kNotEnqueued) s = kEnqueued;
  });
  method(c, "commit", [](id h, SEL) { commit(h); });
  auto wait = [](id h, SEL) {
    WorkRef w = self<CommandBuffer>(h)->work;
    if (w->status.load() < kCommitted) return misuse("missing-commit", "waiting for a command buffer that was not committed: on a Mac this never returns");
    std::unique_lock<std::mutex> hold(w->lock);
    w->changed.wait(hold, [&] { return w->status.load() >= kCompleted; });
  };
  method(c, "waitUntilCompleted", wait);
  method(c, "waitUntilScheduled", wait);
  method(c, "status", [](id h, SEL) -> u64 { return self<CommandBuffer>(h)->work->status.load(); });
  method(c, "error", [](id h, SEL) -> id {
    Work& w = *self<CommandBuffer>(h)->work;
    return w.status.load() == kFailed ? autorelease(create<Error>("MTLCommandBufferErrorDomain", w.errorCode, w.error)) : nullptr;
  });
  for (const char* name : {"GPUStartTime", "kernelStartTime"}) method(c, name, [](id h, SEL) { return self<CommandBuffer>(h)->work->start; });
  for (const char* name : {"GPUEndTime", "kernelEndTime"}) method(c, name, [](id h, SEL) { return self<CommandBuffer>(h)->work->end; });
  method(c, "computeCommandEncoder", [](id h, SEL) -> id {
    auto* b = self<CommandBuffer>(h);
    return recording(b, "computeCommandEncoder") ? newComputeEncoder(b, false) : nullptr;
  });
  method(c, "computeCommandEncoderWithDispatchType:", [](id h, SEL, u64 type) -> id {
    auto* b = self<CommandBuffer>(h);
    if (type > 1) b->work->spoil("bad-argument", "-[MTLCommandBuffer computeCommandEncoderWithDispatchType:] wants 0 or 1, got " + std::to_string(type));
    return recording(b, "computeCommandEncoderWithDispatchType:") ? newComputeEncoder(b, type == 1) : nullptr;
  });
  method(c, "blitCommandEncoder", [](id h, SEL) -> id {
    auto* b = self<CommandBuffer>(h);
    return recording(b, "blitCommandEncoder") ? newBlitEncoder(b) : nullptr;
  });
  method(c, "encodeSignalEvent:value:", [](id h, SEL, id e, u64 v) { event(h, e, v, Command::Signal, "encodeSignalEvent:value:"); });
  method(c, "encodeWaitForEvent:value:", [](id h, SEL, id e, u64 v) { event(h, e, v, Command::Wait, "encodeWaitForEvent:value:"); });
  method(c, "useResidencySet:", [](id h, SEL, id s) {
    auto* b = self<CommandBuffer>(h);
    if (expect<ResidencySet>(s, "-[MTLCommandBuffer useResidencySet:]")) addResident(*b->work, s);
  });
  method(c, "pushDebugGroup:", [](id, SEL, id) {});
  method(c, "popDebugGroup", [](id, SEL) {});
  method(c, "retainedReferences", [](id h, SEL) -> bool { return self<CommandBuffer>(h)->work->retains; });
  method(c, "setLabel:", [](id h, SEL, id t) { self<CommandBuffer>(h)->work->label = textOf(t, "-[MTLCommandBuffer setLabel:]"); });
  method(c, "label", [](id h, SEL) { return string(self<CommandBuffer>(h)->work->label); });
}

}  // namespace

id newCommandBuffer(id queue, bool retains) {
  id h = create<CommandBuffer>();
  auto* b = self<CommandBuffer>(h);
  b->queue = Strong(queue);
  b->work = std::make_shared<Work>();
  b->work->retains = retains;
  return autorelease(h);
}

void defineCommandBuffers() {
  defineQueue();
  defineBuffer();
}

}  // namespace soft
