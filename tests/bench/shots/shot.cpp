// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/shot.h"

#include <utility>

namespace gpusnap::shots {

Shot::Shot(Clock& clock, Runtime& runtime, Work work, const Behaviour& behaviour, Barrier* barrier)
    : clock_(clock),
      runtime_(runtime),
      work_(std::move(work)),
      behaviour_(behaviour),
      barrier_(barrier) {}

void Shot::start() {
  if (behaviour_.hints == Hints::kAll) {
    for (const Version version : work_.order) runtime_.hint(version);
  }
  compute_and_write();
}

void Shot::compute_and_write() {
  if (iteration_ < work_.bytes.size()) {
    return clock_.after(behaviour_.interval_ns, [this] { write(); });
  }
  iteration_ = 0;
  const int64_t begun_ns = clock_.now_ns();
  if (!behaviour_.waits_for_flushes) return start_backward();
  runtime_.when_flushed([this, begun_ns] {
    result_.flush_wait_ns = clock_.now_ns() - begun_ns;
    clock_.after(0, [this] { start_backward(); });
  });
}

void Shot::write() {
  const int64_t begun_ns = clock_.now_ns();
  const uint64_t bytes = work_.bytes[iteration_];
  runtime_.write(iteration_, bytes, [this, begun_ns, bytes](bool is_done) {
    result_.bytes += bytes;
    result_.write_wait_ns += clock_.now_ns() - begun_ns;
    result_.failed += is_done ? 0 : 1;
    ++iteration_;
    end_iteration([this] { compute_and_write(); });
  });
}

void Shot::start_backward() {
  if (behaviour_.hints != Hints::kNone) runtime_.start_prefetching();
  restore();
}

void Shot::restore() {
  if (iteration_ == work_.order.size()) {
    result_.ended_ns = clock_.now_ns();
    return;
  }
  const bool is_last = iteration_ + 1 == work_.order.size();
  if (behaviour_.hints == Hints::kSingle && !is_last) runtime_.hint(work_.order[iteration_ + 1]);
  result_.restores.push_back({.distance = prefetch_distance()});
  const int64_t begun_ns = clock_.now_ns();
  runtime_.restore(work_.order[iteration_], [this, begun_ns](bool is_done) {
    restored(is_done, clock_.now_ns() - begun_ns);
  });
}

void Shot::restored(bool is_done, int64_t wait_ns) {
  const Version version = work_.order[iteration_];
  Restored& restored = result_.restores.back();
  restored.bytes = work_.bytes[version];
  restored.wait_ns = wait_ns;
  if (is_done) restored.from = runtime_.read_from(version);
  result_.restore_wait_ns += wait_ns;
  result_.failed += is_done ? 0 : 1;
  ++iteration_;
  clock_.after(behaviour_.interval_ns, [this] { end_iteration([this] { restore(); }); });
}

void Shot::end_iteration(Clock::Event then) {
  if (barrier_ == nullptr) return clock_.after(0, std::move(then));
  barrier_->arrive(std::move(then));
}

uint64_t Shot::prefetch_distance() const {
  uint64_t distance = 0;
  for (size_t i = iteration_ + 1; i < work_.order.size(); ++i, ++distance) {
    if (!runtime_.is_on_device(work_.order[i])) break;
  }
  return distance;
}

}  // namespace gpusnap::shots
