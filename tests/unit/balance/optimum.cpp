// SPDX-License-Identifier: Apache-2.0
#include "optimum.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace gpusnap::test {

namespace {

__extension__ using Wide = unsigned __int128;

struct Cut {
  uint64_t excess = 0;               // bytes of its senders beyond the memory of its receivers
  std::vector<uint64_t> bandwidths;  // of the links that lead out of it
};

Cut cut_of(const balance::Problem& problem, uint64_t set) {
  const auto is_in = [set](size_t device) { return (set >> device & 1) != 0; };
  uint64_t remainders = 0;
  uint64_t spare = 0;
  Cut cut;
  for (size_t i = 0; i < problem.devices(); ++i) {
    if (!is_in(i)) continue;
    remainders += problem.remainders[i];
    spare += problem.spare[i];
    if (problem.remainders[i] == 0) continue;
    cut.bandwidths.push_back(problem.host_bandwidth[i]);
    for (size_t j = 0; j < problem.devices(); ++j) {
      if (!is_in(j) && problem.spare[j] > 0) cut.bandwidths.push_back(problem.peer(i, j));
    }
  }
  cut.excess = remainders > spare ? remainders - spare : 0;
  return cut;
}

// Bytes that a link has carried just before `bytes / bandwidth` seconds: the last one of a link
// that is done at that very time is missing.
uint64_t carried_before(uint64_t link, uint64_t bytes, uint64_t bandwidth) {
  const Wide product = Wide{link} * bytes;
  return product == 0 ? 0 : static_cast<uint64_t>((product - 1) / bandwidth);
}

}  // namespace

std::optional<double> least_seconds(const balance::Problem& problem) {
  double least = 0;
  for (uint64_t set = 1; set < uint64_t{1} << problem.devices(); ++set) {
    const Cut cut = cut_of(problem, set);
    if (cut.excess == 0) continue;
    double bandwidth = 0;
    for (const uint64_t each : cut.bandwidths) bandwidth += static_cast<double>(each);
    if (bandwidth == 0) return std::nullopt;
    least = std::max(least, static_cast<double>(cut.excess) / bandwidth);
  }
  return least;
}

bool is_least(const balance::Problem& problem, uint64_t bytes, uint64_t bandwidth) {
  for (uint64_t set = 1; set < uint64_t{1} << problem.devices(); ++set) {
    const Cut cut = cut_of(problem, set);
    uint64_t passed = 0;
    for (const uint64_t each : cut.bandwidths) passed += carried_before(each, bytes, bandwidth);
    if (passed < cut.excess) return true;
  }
  return false;
}

std::optional<double> tried_seconds(const balance::Problem& problem) {
  std::optional<double> least;
  std::vector<uint64_t> room = problem.spare;
  // Decides about what device `from` has left, from receiver `to` on.
  const std::function<void(size_t, size_t, uint64_t, double)> decide =
      [&](size_t from, size_t to, uint64_t left, double seconds) {
        if (from == problem.devices()) {
          least = std::min(least.value_or(seconds), seconds);
          return;
        }
        const auto go_on = [&](uint64_t bytes, uint64_t bandwidth) {
          const double took = bytes == 0 ? 0 : static_cast<double>(bytes) / bandwidth;
          const bool is_host = to == problem.devices();
          const size_t next = is_host ? from + 1 : from;
          const uint64_t rest = !is_host                   ? left - bytes
                                : next < problem.devices() ? problem.remainders[next]
                                                           : 0;
          decide(next, is_host ? 0 : to + 1, rest, std::max(seconds, took));
        };
        if (to == problem.devices()) {
          if (left == 0 || problem.host_bandwidth[from] > 0)
            go_on(left, problem.host_bandwidth[from]);
          return;
        }
        const uint64_t most = problem.peer(from, to) == 0 ? 0 : std::min(left, room[to]);
        for (uint64_t bytes = 0; bytes <= most; ++bytes) {
          room[to] -= bytes;
          go_on(bytes, problem.peer(from, to));
          room[to] += bytes;
        }
      };
  decide(0, 0, problem.remainders[0], 0);
  return least;
}

}  // namespace gpusnap::test
