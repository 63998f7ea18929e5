// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/eviction.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <tuple>

namespace gpusnap::history {

namespace {

// The fragment of a window that no other one precedes by age: its oldest one, or its youngest one.
template <typename Precedes>
class Foremost {
 public:
  explicit Foremost(std::span<const Candidate> fragments) : fragments_(fragments) {}
  uint64_t age() const { return fragments_[queue_.front()].age; }
  void enter(size_t index) {
    // A later fragment that precedes this one stays longer.
    while (!queue_.empty() && Precedes()(fragments_[index].age, fragments_[queue_.back()].age)) {
      queue_.pop_back();
    }
    queue_.push_back(index);
  }
  void leave(size_t index) {
    if (queue_.front() == index) queue_.pop_front();
  }

 private:
  std::span<const Candidate> fragments_;
  std::deque<size_t> queue_;
};

// A window that moves to the right: fragments enter at its end and leave at its beginning. Sums are
// of integers, so that nothing is left of a fragment that has gone. They cannot overflow: a wait
// that is no barrier is less than a day, a distance less than the number of checkpoints, which is
// below 2^20 for caches of up to 16 TiB.
class SlidingWindow {
 public:
  explicit SlidingWindow(std::span<const Candidate> fragments)
      : fragments_(fragments), oldest_(fragments), youngest_(fragments) {
    for (const Candidate& each : fragments) farthest_ = std::max(farthest_, each.distance);
  }

  size_t first() const { return first_; }
  size_t last() const { return last_; }
  uint64_t size() const { return size_; }
  int64_t wait_ns() const { return wait_ns_; }
  uint64_t distance() const { return distance_; }
  uint64_t loss() const { return loss_; }
  bool has_barrier() const { return barriers_ != 0; }
  uint64_t oldest() const { return oldest_.age(); }
  uint64_t youngest() const { return youngest_.age(); }
  uint64_t steps() const { return steps_; }

  void grow() {
    const Candidate& entering = fragments_[last_];
    oldest_.enter(last_);
    youngest_.enter(last_);
    ++last_;
    size_ += entering.size;
    distance_ += entering.distance;
    loss_ += loss_of(entering);
    if (entering.wait_ns == kNever) {
      ++barriers_;
    } else {
      wait_ns_ += entering.wait_ns;
    }
    ++steps_;
  }

  void shrink() {
    const Candidate& leaving = fragments_[first_];
    oldest_.leave(first_);
    youngest_.leave(first_);
    ++first_;
    size_ -= leaving.size;
    distance_ -= leaving.distance;
    loss_ -= loss_of(leaving);
    if (leaving.wait_ns == kNever) {
      --barriers_;
    } else {
      wait_ns_ -= leaving.wait_ns;
    }
    ++steps_;
  }

 private:
  uint64_t loss_of(const Candidate& fragment) const {
    return fragment.size * (farthest_ - fragment.distance);
  }

  std::span<const Candidate> fragments_;
  uint64_t farthest_ = 0;  // distance
  size_t first_ = 0, last_ = 0;
  uint64_t size_ = 0, distance_ = 0, loss_ = 0, barriers_ = 0, steps_ = 0;
  int64_t wait_ns_ = 0;
  Foremost<std::less<>> oldest_;
  Foremost<std::greater<>> youngest_;
};

// Less is better.
using Rank = std::tuple<int64_t, uint64_t, uint64_t>;

Rank rank(const SlidingWindow& window, Evictor evictor) {
  if (evictor == Evictor::kFifo || evictor == Evictor::kLru) return {0, 0, window.youngest()};
  if (evictor == Evictor::kAsPrinted) return {window.wait_ns(), UINT64_MAX - window.distance(), 0};
  return {window.wait_ns(), window.loss(), window.oldest()};
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
