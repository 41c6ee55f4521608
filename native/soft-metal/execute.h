// Running one dispatch: its launch, its failure, the workers that run its threadgroups.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "compile.h"

namespace soft {

/** One dispatch on its way through the workers. */
struct GridRun {
  const Program* program = nullptr;
  size_t kernel = 0;
  sm::Launch launch{};
  uint32_t dynamicBytes[sm::kBuffers]{};  // setThreadgroupMemoryLength:atIndex:
  bool clip = false;                       // dispatchThreads: the last threadgroups may be smaller
  std::function<std::string(uint32_t serial)> nameOf;  // another dispatch of the encoder, for race reports
  std::atomic<bool> failed{false};
  std::mutex lock;
  std::string report;  // of the first thread that broke a rule

  const KernelInfo& info() const { return program->info.kernels[kernel]; }
  void fail(const std::string& text);
};

/** Bytes of threadgroup memory a dispatch needs. */
uint32_t threadgroupBytes(const GridRun&);

/** Runs every threadgroup on all cores; false when a check failed, with the report in the run. */
bool runGrid(GridRun&);

/** One operating-system thread's fibers. Made once per thread, reused for every group. */
struct Worker;
Worker* newWorker();
void runGroup(Worker*, GridRun&, const uint32_t id[3]);
/** Runs `body(worker, i)` for i in [0, n) on all cores; the caller takes part. */
void parallel(uint64_t n, const std::function<void(Worker*, uint64_t)>& body);

}  // namespace soft
