// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/max_flow.h"

#include <algorithm>

namespace gpusnap::balance {

namespace {

constexpr uint64_t bit(size_t device) {
  return uint64_t{1} << device;
}
constexpr bool has(uint64_t set, size_t device) {
  return (set & bit(device)) != 0;
}

}  // namespace

MaxFlow::MaxFlow(const Problem& problem)
    : problem_(problem),
      links_(problem.devices()),
      sent_(problem.devices()),
      left_(problem.remainders),
      memory_(problem.spare),
      room_(problem.spare),
      before_(problem.devices()) {
  queue_.reserve(problem.devices());
  for (size_t i = 0; i < problem.devices(); ++i) {
    if (problem.remainders[i] == 0) continue;
    active_ |= bit(i);
    links_[i] = links_of(i);
  }
}

std::vector<MaxFlow::Link> MaxFlow::links_of(size_t sender) const {
  std::vector<Link> links;
  links.reserve(problem_.devices());
  for (size_t to = 0; to < problem_.devices(); ++to) {
    const uint64_t bandwidth = problem_.peer(sender, to);
    if (bandwidth > 0 && problem_.spare[to] > 0) links.push_back({to, bandwidth, 0});
  }
  const uint64_t host = problem_.host_bandwidth[sender];
  if (host > 0) links.push_back({kHost, host, 0});
  return links;
}

std::optional<Cut> MaxFlow::extend(const Duration& deadline) {
  bool all_sent = true;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (!has(active_, i)) continue;
    for (Link& link : links_[i]) link.capacity = carried(link.bandwidth, deadline);
  }
  Cut reached;
  while (const std::optional<Path> path = find_path(reached)) send(*path);
  for (const uint64_t left : left_) all_sent = all_sent && left == 0;
  if (all_sent) return std::nullopt;
  return reached;
}

// Breadth first, from all senders that have something left.
std::optional<MaxFlow::Path> MaxFlow::find_path(Cut& reached) {
  reached = {};
  queue_.clear();
  for (size_t i = 0; i < left_.size(); ++i) {
    if (left_[i] == 0) continue;
    reached.senders |= bit(i);
    before_[i] = kNoDevice;
    queue_.push_back(i);
  }
  for (size_t next = 0; next < queue_.size(); ++next) {
    const size_t device = queue_[next];
    if (has(reached.receivers, device)) {
      visit_receiver(device, reached);
    } else if (const std::optional<Path> path = visit_sender(device, reached)) {
      return path;
    }
  }
  return std::nullopt;
}

std::optional<MaxFlow::Path> MaxFlow::visit_sender(size_t sender, Cut& reached) {
  for (const Link& link : links_[sender]) {
    if (unused(sender, link) == 0) continue;
    if (link.to == kHost) return Path{sender, true};
    if (has(reached.receivers, link.to)) continue;
    reached.receivers |= bit(link.to);
    before_[link.to] = sender;
    if (room_[link.to] > 0) return Path{link.to, false};
    queue_.push_back(link.to);
  }
  return std::nullopt;
}

// Active senders may take back what they send to the receiver.
void MaxFlow::visit_receiver(size_t receiver, Cut& reached) {
  for (size_t sender = 0; sender < left_.size(); ++sender) {
    if (!has(active_ & ~reached.senders, sender) || sent_.peer(sender, receiver) == 0) continue;
    reached.senders |= bit(sender);
    before_[sender] = receiver;
    queue_.push_back(sender);
  }
}

void MaxFlow::send(const Path& path) {
  const auto capacity_left = [this](size_t from, size_t to) {
    const auto& links = links_[from];
    return unused(from, *std::find_if(links.begin(), links.end(),
                                      [to](const Link& link) { return link.to == to; }));
  };
  uint64_t bytes = path.ends_at_host ? capacity_left(path.last, kHost) : room_[path.last];
  size_t first = path.last;
  bool is_receiver = !path.ends_at_host;
  for (; before_[first] != kNoDevice; first = before_[first], is_receiver = !is_receiver) {
    const size_t before = before_[first];
    bytes = std::min(bytes, is_receiver ? capacity_left(before, first) : sent_.peer(first, before));
  }
  bytes = std::min(bytes, left_[first]);

  left_[first] -= bytes;
  if (path.ends_at_host) {
    sent_.host(path.last) += bytes;
  } else {
    room_[path.last] -= bytes;
  }
  is_receiver = !path.ends_at_host;
  for (size_t at = path.last; at != first; at = before_[at], is_receiver = !is_receiver) {
    if (is_receiver) {
      sent_.peer(before_[at], at) += bytes;
    } else {
      sent_.peer(at, before_[at]) -= bytes;
    }
  }
}

uint64_t MaxFlow::excess(const Cut& cut) const {
  uint64_t remainders = 0;
  uint64_t memory = 0;
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (has(cut.senders, i)) remainders += problem_.remainders[i];
    if (has(cut.receivers, i)) memory += memory_[i];
  }
  return remainders > memory ? remainders - memory : 0;
}

std::optional<Duration> MaxFlow::deadline_of(const Cut& cut) const {
  const uint64_t bytes = excess(cut);
  uint64_t bandwidth = 0;
  const auto for_each_link = [&](auto&& visit) {
    for (size_t i = 0; i < links_.size(); ++i) {
      if (!has(cut.senders, i)) continue;
      for (const Link& link : links_[i]) {
        if (link.to == kHost || !has(cut.receivers, link.to)) visit(link.bandwidth);
      }
    }
  };
  for_each_link([&](uint64_t each) { bandwidth += each; });
  if (bytes == 0) return Duration{};
  if (bandwidth == 0) return std::nullopt;

  // Links carry whole bytes, so some may be missing. They pass one by one.
  Duration deadline{bytes, bandwidth};
  uint64_t passed = 0;
  std::vector<Duration> next;  // when each link has carried one more
  for_each_link([&](uint64_t each) {
    const uint64_t whole = carried(each, deadline);
    passed += whole;
    next.push_back({whole + 1, each});
  });
  for (; passed < bytes; ++passed) {
    const auto first = std::min_element(next.begin(), next.end());
    deadline = *first;
    ++first->bytes;
  }
  return deadline;
}

void MaxFlow::freeze(uint64_t senders) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (!has(active_, i)) continue;
    const bool is_final = has(senders, i);
    for (const Link& link : links_[i]) {
      if (link.to == kHost) {
        if (!is_final) sent_.host(i) = 0;
      } else if (is_final) {
        memory_[link.to] -= sent_.peer(i, link.to);
      } else {
        sent_.peer(i, link.to) = 0;
      }
    }
    if (!is_final) left_[i] = problem_.remainders[i];
  }
  room_ = memory_;
  active_ &= ~senders;
}

}  // namespace gpusnap::balance
