// SPDX-License-Identifier: Apache-2.0
//
// Bytes that can be sent until a deadline: a maximum flow, where a link's capacity is what it
// carries until then. Integral, and without rounding errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tiers/balance/duration.h"
#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"

namespace gpusnap::balance {

// Two sets of devices, as bits. The senders' bytes that exceed the receivers' memory can only leave
// over links to other receivers and to the host.
struct Cut {
  uint64_t senders = 0;
  uint64_t receivers = 0;
};

class MaxFlow {
 public:
  // `problem` is one that check() accepts; it is kept by reference.
  explicit MaxFlow(const Problem& problem);

  // Senders whose flows may change, as bits. At first all that have a remainder.
  uint64_t active() const { return active_; }

  // Sends as much of the active senders' remainders as can be sent until the deadline. Between two
  // calls of freeze(), no deadline is earlier than the one before. None: all has been sent.
  // Otherwise a cut of active senders that does not let their remainders pass until the deadline.
  std::optional<Cut> extend(const Duration& deadline);

  // The least deadline until which the cut lets its senders' remainders pass; none: it never does.
  std::optional<Duration> deadline_of(const Cut& cut) const;
  // Bytes of the cut's senders that have to leave it, because its receivers have no room for them.
  uint64_t excess(const Cut& cut) const;

  // The flows of these senders become final. The flows of the other active senders are undone.
  void freeze(uint64_t senders);

  Plan plan() const { return sent_.plan(); }

 private:
  struct Link {
    size_t to = 0;  // a receiver with spare memory, or kHost
    uint64_t bandwidth = 0;
    uint64_t capacity = 0;  // bytes until the deadline
  };
  struct Path {
    size_t last = 0;  // a receiver, or the sender that sends to the host
    bool ends_at_host = false;
  };

  std::vector<Link> links_of(size_t sender) const;
  std::optional<Path> find_path(Cut& reached);
  std::optional<Path> visit_sender(size_t sender, Cut& reached);
  void visit_receiver(size_t receiver, Cut& reached);
  void send(const Path& path);
  uint64_t unused(size_t from, const Link& link) const {
    return link.capacity - (link.to == kHost ? sent_.host(from) : sent_.peer(from, link.to));
  }

  const Problem& problem_;
  uint64_t active_ = 0;
  std::vector<std::vector<Link>> links_;  // of each sender
  LinkBytes sent_;
  std::vector<uint64_t> left_;    // bytes of each sender that have not been sent
  std::vector<uint64_t> memory_;  // bytes of each receiver for active senders
  std::vector<uint64_t> room_;    // bytes of them that are free
  // The search for a path: devices in the order in which they were reached, and from where.
  std::vector<size_t> queue_;
  std::vector<size_t> before_;
};

}  // namespace gpusnap::balance
