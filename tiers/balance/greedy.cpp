// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/greedy.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpusnap::balance {

namespace {

// Devices in descending order of what `value` gives for them; equal ones by number.
template <typename Value>
std::vector<size_t> in_descending_order(size_t devices, Value value) {
  std::vector<size_t> order(devices);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return value(a) > value(b); });
  return order;
}

Status send_to_host(const Problem& problem, size_t from, uint64_t bytes, LinkBytes& sent) {
  if (bytes > 0 && problem.host_bandwidth[from] == 0) {
    return no_room(uint64_t{1} << from, bytes);
  }
  sent.host(from) = bytes;
  return {};
}

}  // namespace

Result<Plan> baseline(const Problem& problem) {
  if (Status status = check(problem); !status.ok()) return status;
  LinkBytes sent(problem.devices());
  for (size_t from = 0; from < problem.devices(); ++from) {
    Status status = send_to_host(problem, from, problem.remainders[from], sent);
    if (!status.ok()) return status;
  }
  return sent.plan();
}

Result<Plan> greedy(const Problem& problem) {
  if (Status status = check(problem); !status.ok()) return status;
  const size_t devices = problem.devices();
  LinkBytes sent(devices);
  std::vector<uint64_t> room = problem.spare;
  for (const size_t from :
       in_descending_order(devices, [&](size_t i) { return problem.remainders[i]; })) {
    uint64_t left = problem.remainders[from];
    for (const size_t to :
         in_descending_order(devices, [&](size_t j) { return problem.peer(from, j); })) {
      if (problem.peer(from, to) == 0) break;
      const uint64_t bytes = std::min(left, room[to]);
      sent.peer(from, to) = bytes;
      room[to] -= bytes;
      left -= bytes;
    }
    Status status = send_to_host(problem, from, left, sent);
    if (!status.ok()) return status;
  }
  return sent.plan();
}

}  // namespace gpusnap::balance
