// SPDX-License-Identifier: Apache-2.0
#include "tiers/checksum.h"

#include <array>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpusnap {

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span(text)));
}

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  reset();
}
Checksum::~Checksum() = default;
void Checksum::reset() {
  XXH3_64bits_reset(&state_->xxh);
}
void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh);
}

uint64_t fingerprint(std::span<const std::byte> zone) {
  if (zone.size() > kShortZoneBytes) return checksum(zone);
  std::array<std::byte, kPaddedZoneBytes> padded{};
  if (!zone.empty()) std::memcpy(padded.data(), zone.data(), zone.size());
  return checksum(padded);
}

}  // namespace gpusnap
