// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/optimal.h"

#include <optional>

#include "tiers/balance/max_flow.h"

namespace gpusnap::balance {

namespace {

// A cut, and the time that it takes at least.
struct Bound {
  Cut cut;
  Duration duration;
};

Result<Bound> bound_of(const MaxFlow& flow, const Cut& cut) {
  const std::optional<Duration> duration = flow.deadline_of(cut);
  if (!duration) return no_room(cut.senders, flow.excess(cut));
  return Bound{cut, *duration};
}

// The device that would take the longest if it were alone: a bound that is near in most cases.
Result<Bound> slowest_alone(const MaxFlow& flow) {
  Bound slowest;
  for (uint64_t rest = flow.active(); rest != 0; rest &= rest - 1) {
    Result<Bound> alone = bound_of(flow, {rest & ~(rest - 1), 0});
    if (!alone.ok()) return alone;
    if (slowest.duration < alone->duration) slowest = alone.value();
  }
  return slowest;
}

// Sends all that active senders have, in the least time. The cut that decides about it.
Result<Cut> send_all(MaxFlow& flow) {
  Result<Bound> bound = slowest_alone(flow);
  while (bound.ok()) {
    const std::optional<Cut> cut = flow.extend(bound->duration);
    if (!cut) return bound->cut;
    bound = bound_of(flow, *cut);
  }
  return bound.status();
}

}  // namespace

Result<Plan> optimal(const Problem& problem) {
  if (Status status = check(problem); !status.ok()) return status;
  MaxFlow flow(problem);
  while (flow.active() != 0) {
    const Result<Cut> cut = send_all(flow);
    if (!cut.ok()) return cut.status();
    flow.freeze(cut->senders);
  }
  return flow.plan();
}

}  // namespace gpusnap::balance
