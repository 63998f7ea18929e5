// SPDX-License-Identifier: Apache-2.0
//
// Transfers of chunks that share a rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

#include "tests/bench/comparison/machine.h"

namespace gpusnap::comparison {

struct Transfer {
  uint64_t producer = 0;
  double counts_from_s = 0;  // of a flush: when its time begins
};

// All have the same rate and size at each moment, so the first that began is the first that ends.
class Lane {
 public:
  size_t size() const { return transfers_.size(); }
  double users() const { return static_cast<double>(transfers_.size()); }
  double rate() const { return rate_; }  // of one; bytes per second
  void set_rate(double rate) { rate_ = rate; }

  void begin(const Transfer& transfer) {
    transfers_.push_back({moved_by_each_ + kChunkBytes, transfer});
  }
  void pass(double seconds) {
    moved_by_each_ += seconds * rate_;
    moved_ += seconds * rate_ * users();
  }
  double seconds_to_next() const {
    if (transfers_.empty()) return std::numeric_limits<double>::infinity();
    const double left = transfers_.front().ends_at - moved_by_each_;
    return left <= kNothing ? 0 : left / rate_;
  }
  bool has_ended() const {
    return !transfers_.empty() && transfers_.front().ends_at - moved_by_each_ <= kNothing;
  }
  Transfer take() {
    const Transfer transfer = transfers_.front().transfer;
    transfers_.pop_front();
    return transfer;
  }
  double moved() const { return moved_; }  // bytes, by all

 private:
  static constexpr double kNothing = 0.5;  // bytes

  struct Entry {
    double ends_at = 0;  // of moved_by_each_
    Transfer transfer;
  };
  std::deque<Entry> transfers_;
  double rate_ = 0;
  double moved_by_each_ = 0;  // bytes that a transfer from the beginning on would have moved
  double moved_ = 0;
};

}  // namespace gpusnap::comparison
