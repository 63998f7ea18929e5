// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/byte_coder.h"

namespace gpusnap::levels {

// Inlined and fully optimised, g++ 12 warns of its copy for no reason.
ByteWriter& ByteWriter::raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

}  // namespace gpusnap::levels
