// SPDX-License-Identifier: Apache-2.0
#include "tools/simcuda/driver/address_space.h"

#include <sys/mman.h>

#include "tools/simcuda/driver/backing.h"

namespace simcuda {
namespace {

constexpr uint64_t kDeviceMemory = 0x0000'a000'0000'0000;
constexpr uint64_t kPerDevice = uint64_t{4} << 40;   // of address space
constexpr uint64_t kShiftStep = uint64_t{64} << 20;  // a seed moves by multiples of this
// Offset into a device's address space from where on lie reservations made without a hint.
constexpr uint64_t kUnhinted = uint64_t{2} << 40;

// In the process's own address space: where drivers have pools, and the end of it.
constexpr uint64_t kRegion = 0x3'0200'0000;
constexpr uint64_t kHostEnd = 0x7fff'ffff'f000;
constexpr uint64_t kSkipped = uint64_t{1} << 30;  // past host memory that is in the way
constexpr int kTries = 64;

// Drivers take a hint where it and the size are multiples of this (seen with driver 580).
constexpr uint64_t kHintBlock = uint64_t{32} << 20;

constexpr uint64_t kOwnStep = 512;  // what a driver uses of its first page
constexpr uint64_t kMostOwn = 1024;

uint64_t shift_of(const Settings& settings) {
  if (settings.device_seed == 0 || settings.addresses_of_host) return 0;
  return (scramble(settings.device_seed) % 4096 + 1) * kShiftStep;
}

uint64_t offset_of(const Settings& settings) {
  if (!settings.addresses_of_host) return 0;
  return (scramble(settings.device_seed) % kMostOwn + 1) * kOwnStep;
}

}  // namespace

AddressSpace::AddressSpace(const Settings& settings)
    : of_host_(settings.addresses_of_host),
      hints_(settings.hints),
      high_(kDeviceMemory + kPerDevice * static_cast<uint64_t>(settings.devices)),
      shift_(shift_of(settings)),
      first_offset_(offset_of(settings)),
      next_in_region_(kRegion) {}

AddressSpace::~AddressSpace() {
  for (const auto& [address, bytes] : mapped_) munmap(reinterpret_cast<void*>(address), bytes);
}

uint64_t AddressSpace::device_low(int device) const {
  return kDeviceMemory + kPerDevice * static_cast<uint64_t>(device);
}

bool AddressSpace::is_device_address(uint64_t address) const {
  return (!of_host_ && address >= kDeviceMemory && address < high_) || ranges_.contains(address);
}

// Takes the range from the process: nothing else is mapped there, and the host cannot use it.
bool AddressSpace::map_at(uint64_t address, uint64_t size) {
  void* const wanted = reinterpret_cast<void*>(address);
  // The kernel maps elsewhere what does not fit there. MAP_FIXED_NOREPLACE would be as good, but
  // for ThreadSanitizer, which takes away an address that it does not like and leaves the flag.
  void* const got =
      mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != wanted || !ranges_.take_at(address, size)) {
    munmap(got, size);
    return false;
  }
  mapped_.emplace(address, size);
  return true;
}

std::optional<uint64_t> AddressSpace::map_anywhere(uint64_t size, uint64_t align) {
  const uint64_t all = size + align;
  void* const got =
      mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return std::nullopt;
  const auto begin = reinterpret_cast<uint64_t>(got);
  const uint64_t address = round_up(begin, align);
  if (address > begin) munmap(got, address - begin);
  if (const uint64_t after = begin + all - (address + size); after > 0) {
    munmap(reinterpret_cast<void*>(address + size), after);
  }
  if (!ranges_.take_at(address, size)) {
    munmap(reinterpret_cast<void*>(address), size);
    return std::nullopt;
  }
  mapped_.emplace(address, size);
  return address;
}

std::optional<uint64_t> AddressSpace::take(int device, uint64_t size) {
  if (of_host_) return map_anywhere(size, kGranule);
  const uint64_t low = device_low(device);
  return ranges_.take(low + shift_, low + kUnhinted, size, kGranule);
}

// Never lower than before, so that the order of all calls of both kinds shows.
std::optional<uint64_t> AddressSpace::take_in_region(int device, uint64_t size, uint64_t align) {
  if (!of_host_) {
    const uint64_t low = device_low(device);
    return ranges_.take(low + kUnhinted, high_, size, align);
  }
  for (int tried = 0; tried < kTries; ++tried) {
    const uint64_t address = round_up(next_in_region_, align);
    if (size > kHostEnd - address) break;
    if (map_at(address, size)) {
      next_in_region_ = address + size;
      return address;
    }
    next_in_region_ = address + kSkipped;
  }
  return map_anywhere(size, align);
}

bool AddressSpace::take_at(uint64_t address, uint64_t size, uint64_t align) {
  if (!hints_ || address == 0 || address % align != 0) return false;
  if (of_host_ && (address % kHintBlock != 0 || size % kHintBlock != 0)) return false;
  if (!of_host_ && address >= kDeviceMemory && address < high_) {
    return size <= high_ - address && ranges_.take_at(address, size);
  }
  return address < kHostEnd && size <= kHostEnd - address && map_at(address, size);
}

void AddressSpace::release(uint64_t address) {
  ranges_.release(address);
  const auto found = mapped_.find(address);
  if (found == mapped_.end()) return;
  munmap(reinterpret_cast<void*>(address), found->second);
  mapped_.erase(found);
}

}  // namespace simcuda
