// SPDX-License-Identifier: Apache-2.0
// Explores the runs of a model one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace gpusnap::test {

// Every choice of a run, so that all of them can be made in turn; or by chance.
class Chooser {
 public:
  explicit Chooser(std::optional<uint64_t> seed = {}) {
    if (seed) random_.emplace(*seed);
  }
  unsigned choose(unsigned count) {
    if (count == 1) return 0;
    if (random_) return static_cast<unsigned>((*random_)() % count);
    if (at_ == taken_.size()) taken_.push_back({0, count});
    return taken_[at_++].first;
  }
  // False: there is no other run.
  bool next() {
    at_ = 0;
    while (!taken_.empty() && ++taken_.back().first == taken_.back().second) taken_.pop_back();
    return !taken_.empty();
  }
  // The next choice has not been made in a run before.
  bool is_new() const { return at_ == taken_.size(); }

 private:
  size_t at_ = 0;
  std::vector<std::pair<unsigned, unsigned>> taken_;
  std::optional<std::mt19937_64> random_;
};

}  // namespace gpusnap::test
