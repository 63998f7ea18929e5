// SPDX-License-Identifier: Apache-2.0
//
// Parts of checkpoints that stay in memory: which of them are not needed any more, and which go to
// the store. A part goes only when a later checkpoint of its job is complete on all ranks, so the
// newest complete one is always there. Touches no memory and no files, has no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpusnap {

// Not thread-safe. Parts are known by the numbers of their streams.
class KeptParts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Streams = std::vector<uint32_t>;

  // A part begins. `job`: its folder in the store.
  void add(uint32_t stream, const std::string& job, uint32_t rank, uint64_t epoch);
  // All of it is there, and stays. `alone`: its job has one rank. Returns the parts that are not
  // needed any more.
  Streams whole(uint32_t stream, bool alone);
  // As that rank's process says, that epoch of the job is complete on all ranks. Likewise.
  Streams superseded(const std::string& job, uint32_t rank, uint64_t complete) const;
  // That rank's part of the epoch is in the store. Likewise, where its job has one rank.
  Streams stored(const std::string& job, uint32_t rank, uint64_t epoch) const;
  void remove(uint32_t stream) { parts_.erase(stream); }

  using HasClient = std::function<bool(uint32_t stream)>;
  // Whole parts whose programs have been gone for so long; their time begins when this is asked.
  Streams abandoned(const HasClient& has_client, Time now, std::chrono::nanoseconds longest);
  // The whole part to go to the store where memory is short: of a program that has gone, or else
  // the oldest. Nothing where there is none.
  std::optional<uint32_t> least_needed(const HasClient& has_client) const;
  Streams all_whole() const;  // in the order of their epochs

 private:
  struct Part {
    std::string job;
    uint32_t rank = 0;
    uint64_t epoch = 0;
    bool is_whole = false;
    bool is_alone = false;
    std::optional<Time> gone_since;  // its program has
  };
  std::map<uint32_t, Part> parts_;
};

}  // namespace gpusnap
