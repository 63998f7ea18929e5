// Faults that SIMCUDA_FAULT asks for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tools/simcuda/driver/engine_settings.h"

namespace simcuda {

// Thread-safe.
class Faults {
 public:
  explicit Faults(const std::array<FaultRule, kFaultPoints>& rules) : rules_(rules) {}
  // Counts one of these; true: it is to fail.
  bool strike(FaultPoint point) {
    const FaultRule& rule = rules_[static_cast<size_t>(point)];
    if (rule.at == 0) return false;
    uint64_t number = ++counts_[static_cast<size_t>(point)];
    return number == rule.at || (rule.onwards && number > rule.at);
  }

 private:
  std::array<FaultRule, kFaultPoints> rules_;
  std::array<std::atomic<uint64_t>, kFaultPoints> counts_{};
};

}  // namespace simcuda
