#include "interpose/mpi/state.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace gpusnap::mpi {

namespace {
struct State {
  std::mutex mutex;
  std::optional<Ranks> ranks;
  uint64_t job_run = 0;
  std::vector<EarlyOutcome> early;
  std::atomic<bool> initialised{false};
  std::atomic<bool> has_early{false};
  std::atomic<size_t> open_requests{0};
  std::atomic<const char*> refused{nullptr};
};

State& state() {
  // Never deleted: asked by what comes after our destructors.
  static auto* const the_state = new State;
  return *the_state;
}
}  // namespace

Ranks ranks() {
  const std::lock_guard lock(state().mutex);
  return state().ranks ? *state().ranks : ranks_from_launcher(environ);
}

void set_ranks(const Ranks& ranks, uint64_t job_run) {
  const std::lock_guard lock(state().mutex);
  state().ranks = ranks;
  state().job_run = job_run;
  state().initialised.store(true, std::memory_order_release);
}

uint64_t job_run() {
  const std::lock_guard lock(state().mutex);
  return state().job_run;
}

bool initialised() {
  return state().initialised.load(std::memory_order_acquire);
}

bool request_is_open() {
  return state().open_requests.load(std::memory_order_relaxed) != 0;
}

void set_open_requests(size_t count) {
  state().open_requests.store(count, std::memory_order_relaxed);
}

const char* refused() {
  return state().refused.load(std::memory_order_relaxed);
}

void set_refused(const char* what) {
  state().refused.store(what, std::memory_order_relaxed);
}

void keep_early(EarlyOutcome outcome) {
  constexpr size_t kMost = 1 << 16;
  const std::lock_guard lock(state().mutex);
  state().has_early.store(true, std::memory_order_release);
  if (state().early.size() < kMost) return state().early.push_back(std::move(outcome));
  set_refused("so many MPI calls before the first CUDA call");
}

bool has_early() {
  return state().has_early.load(std::memory_order_acquire);
}

std::vector<EarlyOutcome> take_early() {
  const std::lock_guard lock(state().mutex);
  state().has_early.store(false, std::memory_order_release);
  return std::exchange(state().early, {});
}

}  // namespace gpusnap::mpi
