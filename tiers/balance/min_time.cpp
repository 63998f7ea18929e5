// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/min_time.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace gpusnap::balance {

namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();

// The residual network. Its nodes are devices: as a sender with a remainder, or as a receiver with
// spare memory, never both. The host is reached from a sender, and is always the end of a path.
class UnitFlows {
 public:
  UnitFlows(const Problem& problem, uint64_t unit)
      : problem_(problem),
        unit_(unit),
        sent_(problem.devices()),
        left_(problem.remainders),
        room_(problem.spare),
        nodes_(problem.devices()) {}

  Result<Plan> run() {
    while (has_left()) {
      const std::optional<Path> path = cheapest_path();
      if (!path) return unreachable();
      send(*path);
    }
    return sent_.plan();
  }

 private:
  struct Node {
    double cost = kUnreached;
    size_t before = kNoDevice;
    bool is_settled = false;
  };
  struct Path {
    size_t last = 0;
    bool ends_at_host = false;
  };

  bool is_sender(size_t device) const { return problem_.remainders[device] > 0; }
  bool has_left() const {
    return std::any_of(left_.begin(), left_.end(), [](uint64_t bytes) { return bytes > 0; });
  }
  double cost(uint64_t bytes, uint64_t bandwidth) const {
    return static_cast<double>(bytes + unit_) / static_cast<double>(bandwidth);
  }

  // Dijkstra's algorithm, with the greatest cost of a path's links in place of their sum.
  std::optional<Path> cheapest_path() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i] = {left_[i] > 0 ? 0 : kUnreached, kNoDevice, false};
    }
    std::optional<Path> best;
    double best_cost = kUnreached;
    for (size_t at = nearest(); at != kNoDevice && nodes_[at].cost < best_cost; at = nearest()) {
      nodes_[at].is_settled = true;
      if (!is_sender(at)) {
        if (room_[at] > 0) return Path{at, false};
        take_back_from(at);
        continue;
      }
      const uint64_t host = problem_.host_bandwidth[at];
      if (host > 0) {
        const double there = std::max(nodes_[at].cost, cost(sent_.host(at), host));
        if (there < best_cost) {
          best_cost = there;
          best = Path{at, true};
        }
      }
      send_on_from(at);
    }
    return best;
  }

  size_t nearest() const {
    size_t best = kNoDevice;
    double cost = kUnreached;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].is_settled && nodes_[i].cost < cost) {
        best = i;
        cost = nodes_[i].cost;
      }
    }
    return best;
  }

  void reach(size_t device, double cost, size_t before) {
    if (cost >= nodes_[device].cost) return;
    nodes_[device].cost = cost;
    nodes_[device].before = before;
  }

  void send_on_from(size_t from) {
    for (size_t to = 0; to < nodes_.size(); ++to) {
      const uint64_t bandwidth = problem_.peer(from, to);
      if (bandwidth == 0 || problem_.spare[to] == 0) continue;
      reach(to, std::max(nodes_[from].cost, cost(sent_.peer(from, to), bandwidth)), from);
    }
  }

  void take_back_from(size_t receiver) {
    for (size_t sender = 0; sender < nodes_.size(); ++sender) {
      if (sent_.peer(sender, receiver) > 0) reach(sender, nodes_[receiver].cost, receiver);
    }
  }

  void send(const Path& path) {
    uint64_t bytes = path.ends_at_host ? unit_ : std::min(unit_, room_[path.last]);
    size_t first = path.last;
    for (; nodes_[first].before != kNoDevice; first = nodes_[first].before) {
      if (is_sender(first)) bytes = std::min(bytes, sent_.peer(first, nodes_[first].before));
    }
    bytes = std::min(bytes, left_[first]);
    left_[first] -= bytes;
    if (path.ends_at_host) {
      sent_.host(path.last) += bytes;
    } else {
      room_[path.last] -= bytes;
    }
    for (size_t at = path.last; at != first; at = nodes_[at].before) {
      if (is_sender(at)) {
        sent_.peer(at, nodes_[at].before) -= bytes;
      } else {
        sent_.peer(nodes_[at].before, at) += bytes;
      }
    }
  }

  // Senders that the last search settled have no way to the host and none to room.
  Status unreachable() const {
    uint64_t senders = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!is_sender(i) || !nodes_[i].is_settled) continue;
      senders |= uint64_t{1} << i;
      bytes += left_[i];
    }
    return no_room(senders, bytes);
  }

  const Problem& problem_;
  const uint64_t unit_;
  LinkBytes sent_;
  std::vector<uint64_t> left_;  // bytes of each sender without a place
  std::vector<uint64_t> room_;  // bytes of each receiver that are free
  std::vector<Node> nodes_;
};

}  // namespace

Result<Plan> min_time(const Problem& problem, uint64_t unit) {
  if (Status status = check(problem); !status.ok()) return status;
  return UnitFlows(problem, unit).run();
}

}  // namespace gpusnap::balance
