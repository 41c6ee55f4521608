// Executes committed work: encoders in order, dispatches one after another on all cores, blits and events between them.
// Dispatches of a concurrent encoder run one by one too; whether they could have run together is checked through shadow
// memory, only for buffers that two dispatches between barriers share and one may write.
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "metal.h"

namespace soft {

namespace {

std::atomic<u32> nextSerial{1};

struct Failure { i64 code; std::string text; };

void checkFreed(const std::vector<std::pair<u32, Bound>>& buffers, const std::string& kernel, const char* when) {
  for (auto& [index, b] : buffers)
    if (b.memory && b.memory->freed.load()) {
      std::string text = "kernel '" + kernel + "': buffer(" + std::to_string(index) + ")" + (b.memory->label.empty() ? "" : " '" + b.memory->label + "'") + " was freed " + when;
      misuse("freed-buffer", text);
      throw Failure{kInvalidResource, text};
    }
}

/** What an encoder comes down to once indirect commands are unfolded. */
struct Step {
  enum Kind { Run, Barrier, BarrierOn } kind = Run;
  const Dispatch* dispatch = nullptr;
  const std::vector<MemoryRef>* memories = nullptr;
};

class Encoding {
  Work& work_;
  bool concurrent_;
  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Dispatch>> unfolded_;
  u32 epoch_ = nextSerial.load();
  std::map<Memory*, u32> epochs_;
  std::map<u32, std::string> names_;
  std::set<Memory*> tracked_;

 public:
  Encoding(Work& work, bool concurrent) : work_(work), concurrent_(concurrent) {}

  void add(const Command& c) {
    if (c.kind == Command::Run) steps_.push_back({Step::Run, &c.dispatch, nullptr});
    else if (c.kind == Command::Barrier) steps_.push_back({Step::Barrier, nullptr, nullptr});
    else if (c.kind == Command::BarrierOn) steps_.push_back({Step::BarrierOn, nullptr, &c.memories});
    else if (c.kind == Command::Execute) unfold(c);
  }

  void run() {
    size_t segment = 0;
    for (size_t i = 0; i < steps_.size(); i++) {
      if (i >= segment) segment = openSegment(i);
      Step& s = steps_[i];
      if (s.kind == Step::Barrier) epoch_ = nextSerial.load();
      else if (s.kind == Step::BarrierOn) for (auto& m : *s.memories) epochs_[m.get()] = nextSerial.load();
      else dispatch(*s.dispatch);
    }
  }

 private:
  // From step i to the next full barrier: which memories could two dispatches fight over?
  size_t openSegment(size_t i) {
    struct Use { int dispatches = 0; bool written = false; };
    std::map<Memory*, Use> uses;
    size_t end = i;
    tracked_.clear();
    for (; end < steps_.size() && (end == i || steps_[end].kind != Step::Barrier); end++) {
      if (steps_[end].kind != Step::Run) continue;
      const Dispatch& d = *steps_[end].dispatch;
      std::map<Memory*, bool> here;
      for (auto& [index, b] : d.buffers) {
        if (!b.memory) continue;
        bool& written = here[b.memory.get()];
        for (auto& a : d.pipeline->info().args) written = written || (a.kind != KernelArg::Builtin && a.kind != KernelArg::Threadgroup && a.index == index && a.writable);
      }
      for (auto& [m, written] : here) uses[m].dispatches++, uses[m].written = uses[m].written || written;
    }
    if (concurrent_ && checkedMode())
      for (auto& [m, u] : uses) if (u.dispatches > 1 && u.written) tracked_.insert(m);
    return end;
  }

  void unfold(const Command& c) {
    IndirectBuffer& icb = *c.icb;
    if (!icb.poison.empty()) throw Failure{kInvalidResource, icb.poison};
    for (u64 i = c.from; i < c.from + c.size; i++) {
      IndirectCommand& k = icb.commands[i];
      if (!k.set) continue;
      std::string where = "indirect command " + std::to_string(i);
      auto d = std::make_unique<Dispatch>();
      d->pipeline = icb.inheritPipeline ? c.dispatch.pipeline : k.pipeline ? self<Pipeline>(k.pipeline.get()) : nullptr;
      if (!d->pipeline) throw Failure{kInvalidResource, where + " has no pipeline"};
      if (!d->pipeline->indirect) throw Failure{kInvalidResource, where + ": pipeline of '" + d->pipeline->info().name + "' was made without supportIndirectCommandBuffers"};
      d->grid = k.grid, d->size = k.size, d->threads = k.threads;
      memcpy(d->dynamicBytes, k.dynamicBytes, sizeof d->dynamicBytes);
      Bound table[sm::kBuffers];
      if (icb.inheritBuffers) for (auto& [index, b] : c.dispatch.buffers) table[index] = b;
      else for (u32 n = 0; n < sm::kBuffers; n++) table[n] = k.buffers[n];
      if (!gatherBuffers(work_, *d, table, where) || !validDispatch(work_, *d, where)) throw Failure{kInvalidResource, work_.poison};
      if (!icb.inheritBuffers)
        for (auto& [index, b] : d->buffers) {
          bool found = false;
          for (auto& m : c.memories) found = found || m == b.memory;
          for (auto& m : work_.resident) found = found || m == b.memory;
          if (!found) throw Failure{kInvalidResource, where + " ('" + d->pipeline->info().name + "'): buffer(" + std::to_string(index) +
            ") is not resident: useResource:usage: or a residency set is missing"};
        }
      if (k.barrier) steps_.push_back({Step::Barrier, nullptr, nullptr});
      steps_.push_back({Step::Run, d.get(), nullptr});
      unfolded_.push_back(std::move(d));
    }
  }

  void bind(GridRun& run, const Dispatch& d, u32 serial) {
    for (auto& [index, b] : d.buffers) {
      sm::Binding& to = run.launch.buffers[index];
      to.index = index;
      if (b.bytes) {
        to.base = b.bytes->data();
        to.end = to.base + b.bytes->size();
        continue;
      }
      Memory& m = *b.memory;
      to.base = m.data + b.offset;
      to.end = m.data + m.length;
      if (!tracked_.count(&m)) continue;
      to.memory = m.data;
      to.writers = m.shadows();
      to.readers = to.writers ? to.writers + m.cells() : nullptr;
      to.serial = serial;
      auto own = epochs_.find(&m);
      to.epoch = own != epochs_.end() && own->second > epoch_ ? own->second : epoch_;
    }
  }

  void dispatch(const Dispatch& d) {
    checkFreed(d.buffers, d.pipeline->info().name, "before the command buffer ran");
    u32 serial = nextSerial.fetch_add(1);
    GridRun run;
    run.program = d.pipeline->program.get();
    run.kernel = d.pipeline->kernel;
    bind(run, d, serial);
    memcpy(run.launch.constants, d.pipeline->constants, sizeof run.launch.constants);
    run.launch.defined = d.pipeline->defined;
    memcpy(run.dynamicBytes, d.dynamicBytes, sizeof run.dynamicBytes);
    u64 grid[3] = {d.grid.width, d.grid.height, d.grid.depth}, size[3] = {d.size.width, d.size.height, d.size.depth};
    if (d.indirect) {
      u32 counts[3];
      memcpy(counts, d.indirect->data + d.indirectOffset, 12);
      for (int i = 0; i < 3; i++) grid[i] = counts[i];
      if (!grid[0] || !grid[1] || !grid[2]) return;
    }
    for (int i = 0; i < 3; i++) {
      run.launch.size[i] = static_cast<u32>(size[i]);
      run.launch.groups[i] = static_cast<u32>(d.threads ? (grid[i] + size[i] - 1) / size[i] : grid[i]);
      run.launch.threads[i] = static_cast<u32>(d.threads ? grid[i] : grid[i] * size[i]);
    }
    run.clip = d.threads;
    names_[serial] = "dispatch " + std::to_string(names_.size() + 1) + " ('" + d.pipeline->info().name + "')";
    run.nameOf = [this](u32 s) { auto it = names_.find(s); return it == names_.end() ? std::string("another dispatch") : it->second; };
    if (!runGrid(run)) throw Failure{kPageFault, run.report};
    checkFreed(d.buffers, d.pipeline->info().name, "while the command buffer ran");
  }
};

void blit(const Command& c) {
  for (auto& m : c.memories)
    if (m->freed.load()) {
      misuse("freed-buffer", "a blit uses a buffer that was freed before the command buffer ran");
      throw Failure{kInvalidResource, "a blit uses a buffer that was freed before the command buffer ran"};
    }
  if (c.kind == Command::Fill) memset(c.memories[0]->data + c.to, static_cast<int>(c.value), c.size);
  else memcpy(c.memories[1]->data + c.to, c.memories[0]->data + c.from, c.size);
}

void runCommands(Work& w) {
  std::unique_ptr<Encoding> encoding;
  for (auto& c : w.commands) switch (c.kind) {
    case Command::Begin: encoding = std::make_unique<Encoding>(w, c.concurrent); break;
    case Command::End: if (encoding) encoding->run(); encoding.reset(); break;
    case Command::Copy: case Command::Fill: blit(c); break;
    case Command::Signal: c.event->signal(c.value); break;
    case Command::Wait:
      if (!c.event->wait(c.value, 10000)) throw Failure{kTimeout, "Caused GPU Timeout Error: event value " + std::to_string(c.value) + " was not signalled within 10 s"};
      break;
    default: encoding->add(c);
  }
}

void attempt(Work& w) {
  if (u64 ms = injections.slowMs.load()) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  if (injections.deviceLost.load()) throw Failure{kRemoved, "Device removed (injected): the device is lost (MTLCommandBufferErrorDeviceRemoved)"};
  if (Injections::take(injections.commandError)) throw Failure{kInternal, "Internal Error (injected) (00000001:kIOGPUCommandBufferCallbackErrorInternal)"};
  if (!w.poison.empty()) throw Failure{kInvalidResource, w.poison};
  runCommands(w);
  for (auto& c : w.commands)
    if (c.kind == Command::Run) checkFreed(c.dispatch.buffers, c.dispatch.pipeline->info().name, "before the command buffer completed");
}

}  // namespace

void execute(Work& w) {
  w.status = kScheduled;
  w.start = now();
  Status end = kCompleted;
  try {
    attempt(w);
  } catch (const Failure& f) {
    w.errorCode = f.code;
    w.error = f.text;
    end = kFailed;
  } catch (const std::exception& e) {
    w.errorCode = kOutOfMemory;
    w.error = e.what();
    end = kFailed;
  }
  w.end = now();
  w.finish(end);
}

}  // namespace soft
