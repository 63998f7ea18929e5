// SPDX-License-Identifier: Apache-2.0
// XXH3 with 64 bits and seed 0: the checksum of everything that is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace gpusnap {

uint64_t checksum(std::span<const std::byte> bytes);
uint64_t checksum(std::string_view text);

// The fingerprint of a zone: its checksum. A zone of at most kShortZoneBytes is padded with zeros
// to kPaddedZoneBytes first. gpusnap's kernel computes the same on the device.
inline constexpr size_t kShortZoneBytes = 240;
inline constexpr size_t kPaddedZoneBytes = 256;
uint64_t fingerprint(std::span<const std::byte> zone);

// Computes a checksum of bytes that are added in pieces. Not thread-safe. Allocates at
// construction.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void reset();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpusnap
