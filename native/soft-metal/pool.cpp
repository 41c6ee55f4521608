// The threads that run threadgroups. One job at a time; the thread that brings it works too, so a small grid never waits
// for a sleeping thread. Threads are never joined: the process ends with them asleep.
#include <condition_variable>
#include <cstdlib>
#include <thread>
#include <vector>

#include "execute.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace soft {

namespace {

struct Job {
  uint64_t count;
  const std::function<void(Worker*, uint64_t)>& body;
  std::atomic<uint64_t> next{0};
  int active = 0;
};

// Apple GPUs flush 32-bit denormals to zero (and keep 16-bit ones, which these bits do not touch).
void flushDenormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

class Pool {
  std::mutex turn_, lock_;
  std::condition_variable wake_, idle_;
  Job* job_ = nullptr;
  Worker* own_ = newWorker();
  unsigned threads_ = 1;

  void work(Job& job, Worker* worker) {
    for (uint64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) job.body(worker, i);
  }
  void serve() {
    flushDenormals();
    Worker* worker = newWorker();
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      wake_.wait(hold, [&] { return job_ && job_->next.load() < job_->count; });
      Job* job = job_;
      job->active++;
      hold.unlock();
      work(*job, worker);
      hold.lock();
      if (--job->active == 0) idle_.notify_all();
    }
  }

 public:
  Pool() {
    const char* env = getenv("INGOT_SOFT_METAL_THREADS");
    threads_ = env && atoi(env) > 0 ? static_cast<unsigned>(atoi(env)) : std::thread::hardware_concurrency();
    for (unsigned i = 1; i < threads_; i++) std::thread([this] { serve(); }).detach();
  }
  void run(uint64_t n, const std::function<void(Worker*, uint64_t)>& body) {
    std::lock_guard<std::mutex> mine(turn_);
    flushDenormals();
    Job job{n, body};
    bool share = n > 1 && threads_ > 1;
    if (share) {
      std::lock_guard<std::mutex> hold(lock_);
      job_ = &job;
    }
    if (share) n > 2 ? wake_.notify_all() : wake_.notify_one();
    work(job, own_);
    if (!share) return;
    std::unique_lock<std::mutex> hold(lock_);
    job_ = nullptr;
    idle_.wait(hold, [&] { return job.active == 0; });
  }
};

}  // namespace

void parallel(uint64_t n, const std::function<void(Worker*, uint64_t)>& body) {
  static Pool* pool = new Pool;
  pool->run(n, body);
}

bool runGrid(GridRun& run) {
  const uint32_t* g = run.launch.groups;
  uint64_t n = static_cast<uint64_t>(g[0]) * g[1] * g[2];
  // A few groups per step, so that taking a step costs little against running it.
  uint64_t step = n > 512 ? 8 : 1;
  parallel((n + step - 1) / step, [&](Worker* worker, uint64_t at) {
    for (uint64_t i = at * step; i < n && i < (at + 1) * step && !run.failed.load(std::memory_order_relaxed); i++) {
      uint32_t id[3] = {static_cast<uint32_t>(i % g[0]), static_cast<uint32_t>(i / g[0] % g[1]), static_cast<uint32_t>(i / g[0] / g[1])};
      runGroup(worker, run, id);
    }
  });
  return !run.failed.load();
}

}  // namespace soft
