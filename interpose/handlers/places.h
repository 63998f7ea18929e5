// The side that an address of the program's belongs to.
#pragma once

#include "interpose/model/device_model.h"

namespace gpusnap::handle {

enum class Side : uint8_t { kDevice, kShared, kHost };  // the device's, of both, the host's alone

inline Side side_of(DeviceModel& model, uint64_t address) {
  const MemoryRange* range = model.memory.find(address);
  if (range != nullptr) return is_on_device(range->kind) ? Side::kDevice : Side::kShared;
  return model.is_device_address(address) ? Side::kDevice : Side::kHost;
}

inline void mix(uint64_t& hash, std::initializer_list<uint64_t> words) {
  for (const uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15;
}

}  // namespace gpusnap::handle
