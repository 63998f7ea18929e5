// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/growth.h"

#include <algorithm>

#include "tiers/staging/large_pages.h"

namespace gpusnap {

namespace {

uint32_t slots_of_part(StagingMemory& memory, const Growth::Options& options) {
  const uint64_t slots = options.part_bytes / memory.bytes(0).size();
  return static_cast<uint32_t>(std::clamp<uint64_t>(slots, 1, memory.slots().size()));
}

TouchPlan plan_for(StagingMemory& memory, const Growth::Options& options) {
  TouchPlan::Options plan;
  plan.slots = static_cast<uint32_t>(memory.slots().size());
  plan.part_slots = slots_of_part(memory, options);
  plan.threads = std::max(options.threads, 1U);
  const bool all = options.way == GrowthWay::kAtOnce;
  plan.ahead_slots = all ? plan.slots : Growth::kPartsAhead * plan.part_slots;
  plan.few_slots = all ? plan.slots : Growth::kPartsFew * plan.part_slots;
  plan.pauses = options.way == GrowthWay::kAhead;
  return {plan, memory.backed()};
}

}  // namespace

Growth::Growth(StagingMemory& memory, const Options& options)
    : memory_(memory),
      options_(options),
      forerunner_(plan_for(memory, options),
                  {[this](uint32_t slot) { return touch(slot); },
                   [this](uint32_t backed, bool all) { memory_.publish(backed, all); }}) {}

void Growth::start() {
  if (has_more()) forerunner_.start(options_.spawn, options_.threads);
}

void Growth::observe(uint32_t free, bool transferring) {
  if (!has_more()) return;
  const uint32_t backed = memory_.backed();
  forerunner_.observe({backed - std::min(free, backed), clients(), transferring});
}

bool Growth::has_more() const {
  return memory_.backed() < memory_.slots().size() && memory_.header().refused.load() == 0;
}

void Growth::stop() {
  forerunner_.stop();
}

// The first part tells whether the system backs the area by large pages.
bool Growth::touch(uint32_t slot) {
  const bool there = memory_.touch(slot);
  if (there && ++touched_ == slots_of_part(memory_, options_) && options_.note) {
    const std::string lacking = lack_of_large_pages(memory_.bytes(0).data(), memory_.data_bytes());
    if (!lacking.empty()) options_.note(lacking);
  }
  return there;
}

uint32_t Growth::clients() const {
  return static_cast<uint32_t>(std::ranges::count_if(memory_.clients(), [](const auto& client) {
    return client.word.load().state != ClientState::kFree;
  }));
}

}  // namespace gpusnap
