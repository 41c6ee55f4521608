// The Metal objects and the work they record. Shared by device.cpp, library.cpp, command.cpp, encode.cpp, indirect.cpp
// and submit.cpp; nobody else needs it.
#pragma once
#include <condition_variable>
#include <memory>
#include <set>

#include "counters.h"
#include "execute.h"
#include "foundation.h"

namespace soft {

constexpr u64 kMaxThreads = 1024, kMaxThreadgroupMemory = 32 * 1024, kMaxBytes = 4096, kPage = 16384;
enum Status : u64 { kNotEnqueued, kEnqueued, kCommitted, kScheduled, kCompleted, kFailed };
enum ErrorCode : i64 { kInternal = 1, kTimeout = 2, kPageFault = 3, kRemoved = 4, kOutOfMemory = 8, kInvalidResource = 9 };

/** Bytes of a buffer. Outlives its Buffer while work that names it is in flight, so that a freed one is a report. */
struct Memory {
  char* data = nullptr;
  u64 length = 0, mapped = 0;
  bool owned = false;
  std::atomic<bool> freed{false};
  std::atomic<u32*> shadow{nullptr};  // writers, then readers
  std::string label;
  ~Memory();
  u32* shadows();
  u64 cells() const { return (length + 1) / 2 + 1; }
};
using MemoryRef = std::shared_ptr<Memory>;

struct Buffer : Object {
  static Class* isa;
  MemoryRef memory;
  u64 options = 0;
  ~Buffer() override;
};

struct Pipeline : Object {
  static Class* isa;
  std::shared_ptr<Program> program;
  size_t kernel = 0;
  u64 constants[sm::kConstants]{};
  u64 defined = 0;
  bool indirect = false;
  u64 maxThreads = kMaxThreads;
  std::string label;
  const KernelInfo& info() const { return program->info.kernels[kernel]; }
};

struct SharedEvent : Object {
  static Class* isa;
  std::mutex lock;
  std::condition_variable changed;
  u64 value = 0;
  void signal(u64 v);
  bool wait(u64 v, u64 timeoutMs);
};

/** An argument: a place in a buffer, or a copy of some bytes. */
struct Bound {
  MemoryRef memory;
  u64 offset = 0;
  std::shared_ptr<std::vector<char>> bytes;
  explicit operator bool() const { return memory || bytes; }
};

struct Dispatch {
  Pipeline* pipeline = nullptr;
  std::vector<std::pair<u32, Bound>> buffers;  // only the slots that the kernel declares
  u32 dynamicBytes[sm::kBuffers]{};
  MTLSize grid{}, size{};
  bool threads = false;     // grid counts threads, not threadgroups
  MemoryRef indirect;       // grid comes from three u32 here
  u64 indirectOffset = 0;
  bool barrier = false;     // of an indirect command: wait for those before
};

struct IndirectBuffer;

struct Command {
  enum Kind { Begin, End, Run, Barrier, BarrierOn, Copy, Fill, Signal, Wait, Execute } kind = Begin;
  bool concurrent = false;
  Dispatch dispatch;
  std::vector<MemoryRef> memories;  // BarrierOn: which; Copy: source and destination; Fill: destination; Execute: resident
  u64 from = 0, to = 0, size = 0, value = 0;
  SharedEvent* event = nullptr;
  IndirectBuffer* icb = nullptr;
};

/** What a command buffer recorded and what became of it. Shared with the queue's thread. */
struct Work {
  std::mutex lock;
  std::condition_variable changed;
  std::atomic<u64> status{kNotEnqueued};
  bool retains = true;
  std::vector<Command> commands;
  std::vector<Strong> kept;         // objects the work needs until it is done
  std::vector<MemoryRef> resident;  // through residency sets
  std::string poison;               // the first misuse while encoding
  i64 errorCode = 0;
  std::string error;
  double start = 0, end = 0;
  std::string label;

  void spoil(const std::string& kind, const std::string& text) {
    misuse(kind, text);
    if (poison.empty()) poison = text;
  }
  void keep(id h) { if (retains && h) kept.emplace_back(h); }
  void finish(Status s);
};
using WorkRef = std::shared_ptr<Work>;

struct ResidencySet : Object {
  static Class* isa;
  std::vector<Strong> pending, current;
  std::string label;
};

struct Queue : Object {
  static Class* isa;
  struct Line;  // the thread and what waits for it
  std::shared_ptr<Line> line;
  std::vector<Strong> residency;
  std::string label;
  ~Queue() override;
  void submit(const WorkRef&);
};

struct Encoder : Object {
  WorkRef work;
  bool ended = false, concurrent = false;
  std::string kind;
  ~Encoder() override;
  /** False, with a report, when the encoder was ended. */
  bool open(const char* selector);
};

struct ComputeEncoder : Encoder {
  static Class* isa;
  Strong pipeline;
  Bound buffers[sm::kBuffers];
  u32 dynamicBytes[sm::kBuffers]{};
  std::vector<MemoryRef> used;
};
struct BlitEncoder : Encoder { static Class* isa; };

struct CommandBuffer : Object {
  static Class* isa;
  WorkRef work;
  Strong queue;
  Encoder* open = nullptr;
  Strong openHandle;
  ~CommandBuffer() override;
};

struct IndirectCommand {
  Strong pipeline;
  Bound buffers[sm::kBuffers];
  std::vector<Strong> kept;
  u32 dynamicBytes[sm::kBuffers]{};
  MTLSize grid{}, size{};
  bool threads = false, barrier = false, set = false;
};
struct IndirectBuffer : Object {
  static Class* isa;
  u64 types = 0, maxBuffers = 0;
  bool inheritBuffers = false, inheritPipeline = false;
  std::vector<IndirectCommand> commands;
  std::vector<id> handles;  // the command objects given out, one per index
  std::string poison;
  ~IndirectBuffer() override;
};

id newCommandBuffer(id queue, bool retains);
id newComputeEncoder(CommandBuffer*, bool concurrent);
id newBlitEncoder(CommandBuffer*);
/** Checks a dispatch against Metal's limits and the kernel's arguments; false after spoiling the work. */
bool validDispatch(Work&, const Dispatch&, const std::string& where);
/** The arguments the kernel declares, out of a table of 31. */
bool gatherBuffers(Work&, Dispatch&, const Bound* table, const std::string& where);
void execute(Work&);
double now();

}  // namespace soft
