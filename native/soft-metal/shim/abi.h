// The contract between the soft-metal library and the kernels it compiles: what a thread, a simdgroup, a threadgroup and
// a launch look like in memory, and what a kernel may call back. Both sides include it; its text is part of the cache key.
// Invariant: a Lane lies at the lowest address of its fiber's stack, and stacks are aligned to their size, so that code
// anywhere in a kernel finds its Lane from the stack pointer without thread-local storage.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sm {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i64 = int64_t;

constexpr uintptr_t kStackBytes = 128 * 1024;
constexpr u32 kLanes = 32, kBuffers = 31, kSlots = 32, kConstants = 64;

/** What a buffer argument may touch. The shadow arrays hold, per two bytes, the serial of the last dispatch to do so. */
struct Binding {
  char* base;
  char* end;
  char* memory;   // where the shadows begin
  u32 *writers, *readers;  // null when no other dispatch can conflict
  u32 serial, epoch;       // of this dispatch; dispatches at or after `epoch` are not ordered before it
  u32 index;
};

struct Range { char *base, *end; };

/** Who last wrote and read a cell of threadgroup memory: epoch 31 | simdgroup epoch 20 | atomic 1 | thread 12 bits. */
struct Cell { u64 write, read; };

struct Lane;
struct Group;

enum Fault : u32 { kBounds, kAlign, kRace, kUninit, kDispatchRace, kStack };
enum Access : u32 { kRead = 0, kWrite = 1, kAtomic = 2 };

struct Api {
  void (*simdWait)(Lane*, int line, const char* op);
  void (*groupWait)(Lane*, int line, bool ordersMemory);
  void (*fault)(Lane*, Fault, u32 access, int line, const void* at, u64 bytes, const Binding*, const Range*, u64 other);
  void (*track)(Lane*, const Binding*, const void* at, u64 bytes, u32 access, int line);
};

struct Simd {
  u32 ready, live, arrived, parity, epoch, first;
  int line;
  const char* op;
  bool computed[2];
  u32 met[2];  // who took part: a fast lane may have finished, and left `live`, before a slow one reads
  u64 stamp;  // epoch bits of every access stamp of this simdgroup, kept current by the barriers
  alignas(64) char slots[2][kLanes][64];
  alignas(64) char results[2][512];
};

struct Launch {
  u32 threads[3], groups[3], size[3];  // of the grid in threads and groups; of a full threadgroup
  Binding buffers[kBuffers];
  u64 constants[kConstants];
  u64 defined;  // bit i: function constant i has a value
};

struct Group {
  const Launch* launch;
  const Api* api;
  u32 id[3], size[3], count;
  char* memory;
  Cell* cells;
  u32 cellShift;
  u64 startEpoch;
  Simd* simds;
  Range statics[kSlots], dynamics[kBuffers];
};

struct Lane {
  Group* group;
  Simd* simd;
  u32 position[3], index, lane, simdIndex;
  u32 state;
  int line;
  const char* op;
  void* sp;
};

inline Lane* self() {
  uintptr_t sp;
#if defined(__x86_64__)
  asm("movq %%rsp, %0" : "=r"(sp));
#else
  asm("mov %0, sp" : "=r"(sp));
#endif
  return reinterpret_cast<Lane*>(sp & ~(kStackBytes - 1));
}

/** One `threadgroup` variable of one kernel, registered when the compiled library is loaded. */
struct Slot { u32 offset, bytes; };
struct KernelStatics {
  Slot slots[kSlots];
  u32 bytes, count, scalar;  // scalar: size of the smallest element, the width of a shadow cell
};

}  // namespace sm
