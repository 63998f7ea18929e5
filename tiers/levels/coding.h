// SPDX-License-Identifier: Apache-2.0
// Reed-Solomon coding of one part's shards by ISA-L, with a Cauchy matrix: every square part of
// it can be inverted, so any `data` shards of `data + parity` give all others. (Vandermonde's,
// which ISA-L offers, too, cannot always.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tiers/levels/level_settings.h"
#include "tiers/status.h"

namespace gpusnap::levels {

// Immutable, hence thread-safe.
class Encoder {
 public:
  explicit Encoder(const LevelScheme& scheme);
  // Computes the parity blocks of data blocks, all of so many bytes. Blocks do not overlap.
  void encode(size_t bytes, std::span<const std::byte* const> data,
              std::span<std::byte* const> parity) const;

 private:
  LevelScheme scheme_;
  std::vector<uint8_t> tables_;
};

// Computes some shards of a part from others. Immutable, hence thread-safe.
class Recovery {
 public:
  // `present`: scheme.data different shards by their numbers; `wanted`: any shards. kInvalid where
  // they are not.
  static Result<Recovery> make(const LevelScheme& scheme, std::span<const uint32_t> present,
                               std::span<const uint32_t> wanted);
  // Blocks in the order of `present` and of `wanted`, all of so many bytes.
  void recover(size_t bytes, std::span<const std::byte* const> present,
               std::span<std::byte* const> wanted) const;

 private:
  Recovery(uint32_t present, uint32_t wanted) : present_(present), wanted_(wanted) {}
  uint32_t present_;
  uint32_t wanted_;
  std::vector<uint8_t> tables_;
};

}  // namespace gpusnap::levels
