// SPDX-License-Identifier: Apache-2.0
//
// Questions and wishes about an address. A block of the arena is no allocation of the
// driver's: its stand-in answers, but for where the block lies.

#include <cstring>

#include "interpose/handlers/handlers.h"

namespace gpusnap::handle {

namespace {
template <class T>
void put(void* place, T value) {
  if (place != nullptr) std::memcpy(place, &value, sizeof value);
}

// An attribute that says where the memory lies.
void correct(void* value, CUpointer_attribute attribute, uint64_t address,
             const DeviceArena::Block& block) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put<CUdeviceptr>(value, address);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put<CUdeviceptr>(value, block.address);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put<size_t>(value, block.size);
      break;
    default:
      break;
  }
}

uint64_t asked_about(uint64_t address) {
  const DeviceArena* const arena = DeviceArena::of_process();
  return arena == nullptr ? address : arena->asked_about(address);
}

std::optional<DeviceArena::Block> block_at(uint64_t address) {
  const DeviceArena* const arena = DeviceArena::of_process();
  return arena == nullptr ? std::nullopt : arena->find(address);
}
}  // namespace

CUresult pointer_get(const Call<decltype(cuPointerGetAttribute)>& call, void* value,
                     CUpointer_attribute attribute, CUdeviceptr address) {
  const auto block = block_at(address);
  const CUresult result = call.real(value, attribute, asked_about(address));
  if (block && result == CUDA_SUCCESS) correct(value, attribute, address, *block);
  return result;
}

CUresult pointer_get(const Call<decltype(cuPointerGetAttributes)>& call, unsigned count,
                     CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
  const auto block = block_at(address);
  const CUresult result = call.real(count, attributes, values, asked_about(address));
  if (!block || result != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < count; ++i) correct(values[i], attributes[i], address, *block);
  return result;
}

CUresult pointer_set(const Call<decltype(cuPointerSetAttribute)>& call, const void* value,
                     CUpointer_attribute attribute, CUdeviceptr address) {
  HookedCall hooked(call);
  const auto real = [&] { return call.real(value, attribute, asked_about(address)); };
  if (hooked.passthrough()) return real();
  hooked.check(attribute);
  hooked.check(address);
  return hooked.record_or_repeat(real);
}

}  // namespace gpusnap::handle
