// SPDX-License-Identifier: Apache-2.0
//
// Answers what the replay's scheduler asks at the moment of a decision, for this process. The
// session's lock guards it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "interpose/model/device_model.h"
#include "interpose/record/host_callbacks.h"
#include "interpose/replay/replay_scheduler.h"

namespace gpusnap {

class ReplayWorld final : public ReplayScheduler::World {
 public:
  // They outlive it. `open`: another reader of the journal; null where it cannot be opened, which
  // the reader of the replay will say.
  ReplayWorld(const DeviceModel& model, const HostCallbacks& callbacks,
              std::function<std::unique_ptr<CallsAhead>()> open)
      : model_(model), callbacks_(callbacks), open_(std::move(open)) {}

  CallsAhead* ahead() override {
    if (ahead_ == nullptr) ahead_ = open_();
    return ahead_.get();
  }
  // A call may be forbidden while another thread captures, and pools give and take back memory by
  // the order of calls.
  bool keeps_order() const override {
    return model_.pool_reuse.is_used() || model_.contexts.is_capturing();
  }
  bool is_occupied(uint64_t address, uint64_t size) const override {
    const auto& ranges = model_.memory.ranges();
    const auto next = ranges.lower_bound(address + size);
    return next != ranges.begin() &&
           std::prev(next)->first + std::prev(next)->second.size > address;
  }
  bool has_one_context() const override { return model_.contexts.is_single(); }
  bool has_ended(uint64_t function) const override { return callbacks_.has_ended(function); }

  void forget_ahead() { ahead_.reset(); }

 private:
  const DeviceModel& model_;
  const HostCallbacks& callbacks_;
  const std::function<std::unique_ptr<CallsAhead>()> open_;
  std::unique_ptr<CallsAhead> ahead_;
};

}  // namespace gpusnap
