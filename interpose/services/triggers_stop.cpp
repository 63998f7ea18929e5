// SPDX-License-Identifier: Apache-2.0
//
// Requests and signals after which the program ends.
#include <algorithm>

#include "interpose/services/log.h"
#include "interpose/services/triggers.h"
#include "tiers/unlocked.h"

namespace gpusnap {

void Triggers::say_not_stopped(const std::string& why) const {
  log(LogLevel::kError, "not stopped, the program goes on: ", why);
}

// With the lock held. The request is of a checkpoint, and with `stops` of the program's end.
void Triggers::take_request(Client& client, bool stops) {
  if (!why_no_more_.empty()) return refuse(client, why_no_more_);
  client.state = Client::State::kWaiting;
  client.stops = stops;
  make_due(stops ? CutReason::kRequestedStop : CutReason::kRequest);
}

// With the lock held. Nobody may end a program long after having gone.
void Triggers::withdraw_stop() {
  const bool others = std::ranges::any_of(clients_, [](const auto& client) {
    return client->stops && client->socket >= 0 && client->state == Client::State::kWaiting;
  });
  if (others) return;
  due_.fetch_and(~bit_of(CutReason::kRequestedStop));
  wanted_.fetch_and(~bit_of(CutReason::kRequestedStop));
}

// A stop is wanted that no cut may ever come to.
void Triggers::stop_early() {
  std::unique_lock lock(mutex_);
  if (stop_signalled_.exchange(false, std::memory_order_acquire) && !why_no_more_.empty()) {
    say_not_stopped(why_no_more_);
  }
  const uint32_t due = due_.load(std::memory_order_relaxed);
  if ((due & kStopBits) == 0 || !why_no_more_.empty() || !stop_source_) return;
  const auto source = stop_source_;
  const auto end = end_;
  std::string id;
  {
    const Unlocked unlocked(lock);
    id = source();
  }
  if (id.empty()) return;
  for (const auto& client : clients_) {
    if (client->state != Client::State::kWaiting) continue;
    answer(*client, encode_reply({.ok = true, .id = id}));
  }
  lock.unlock();
  answer_and_drop();
  end(id);
}

}  // namespace gpusnap
