// What soft-metal counts and which faults are waiting to be injected. Read and set through report.cpp.
#pragma once
#include <atomic>
#include <cstdint>

namespace soft {

struct Counters {
  std::atomic<uint64_t> commandBuffers{0}, dispatches{0}, encoders{0}, compiles{0}, libraries{0}, barriers{0};
};
extern Counters counters;

/** How many of the next operations shall fail, or how long completion shall take. */
struct Injections {
  std::atomic<uint64_t> oom{0}, commandError{0}, compileError{0}, slowMs{0};
  std::atomic<bool> deviceLost{false};
  static bool take(std::atomic<uint64_t>& n) {
    uint64_t v = n.load();
    while (v > 0 && !n.compare_exchange_weak(v, v - 1)) {}
    return v > 0;
  }
};
extern Injections injections;

}  // namespace soft
