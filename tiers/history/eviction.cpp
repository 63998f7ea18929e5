// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/eviction.h"

#include <deque>
#include <tuple>

namespace gpusnap::history {

namespace {

// A window that moves to the right: fragments enter at its end and leave at its beginning. Sums are
// of integers, so that nothing is left of a fragment that has gone. They cannot overflow: a wait
// that is no barrier is less than a day, a distance less than the number of checkpoints.
class SlidingWindow {
 public:
  explicit SlidingWindow(std::span<const Candidate> fragments) : fragments_(fragments) {}

  size_t first() const { return first_; }
  size_t last() const { return last_; }
  uint64_t size() const { return size_; }
  int64_t wait_ns() const { return wait_ns_; }
  uint64_t distance() const { return distance_; }
  bool has_barrier() const { return barriers_ != 0; }
  uint64_t oldest() const { return fragments_[oldest_.front()].age; }
  uint64_t steps() const { return steps_; }

  void grow() {
    const Candidate& entering = fragments_[last_];
    // Fragments that are younger than a later one never become the oldest.
    while (!oldest_.empty() && fragments_[oldest_.back()].age > entering.age) oldest_.pop_back();
    oldest_.push_back(last_++);
    size_ += entering.size;
    distance_ += entering.distance;
    if (entering.wait_ns == kNever) {
      ++barriers_;
    } else {
      wait_ns_ += entering.wait_ns;
    }
    ++steps_;
  }

  void shrink() {
    const Candidate& leaving = fragments_[first_];
    if (oldest_.front() == first_) oldest_.pop_front();
    ++first_;
    size_ -= leaving.size;
    distance_ -= leaving.distance;
    if (leaving.wait_ns == kNever) {
      --barriers_;
    } else {
      wait_ns_ -= leaving.wait_ns;
    }
    ++steps_;
  }

 private:
  std::span<const Candidate> fragments_;
  size_t first_ = 0, last_ = 0;
  uint64_t size_ = 0, distance_ = 0, barriers_ = 0, steps_ = 0;
  int64_t wait_ns_ = 0;
  std::deque<size_t> oldest_;  // its front is the oldest fragment of the window
};

// Less is better.
using Rank = std::tuple<int64_t, uint64_t, uint64_t>;

Rank rank(const SlidingWindow& window, Evictor evictor) {
  if (evictor == Evictor::kFifo || evictor == Evictor::kLru) return {0, 0, window.oldest()};
  return {window.wait_ns(), UINT64_MAX - window.distance(),
          evictor == Evictor::kScore ? window.oldest() : 0};
}

}  // namespace

std::optional<Window> choose_window(std::span<const Candidate> fragments, uint64_t size,
                                    Evictor evictor, uint64_t* steps) {
  SlidingWindow window(fragments);
  std::optional<Window> best;
  Rank best_rank;
  for (size_t first = 0; first < fragments.size(); ++first) {
    while (window.size() < size && window.last() < fragments.size()) window.grow();
    if (window.size() < size) break;
    const bool first_is_needed = window.size() - fragments[first].size < size;
    const bool counts = first_is_needed || evictor == Evictor::kAsPrinted;
    if (counts && !window.has_barrier() && (!best || rank(window, evictor) < best_rank)) {
      best = Window{window.first(), window.last()};
      best_rank = rank(window, evictor);
    }
    if (evictor == Evictor::kAsPrinted && window.last() == fragments.size()) break;
    window.shrink();
  }
  if (steps != nullptr) *steps = window.steps();
  return best;
}

}  // namespace gpusnap::history
