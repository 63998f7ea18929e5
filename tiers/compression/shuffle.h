// SPDX-License-Identifier: Apache-2.0
// The byte shuffle: of elements of 2, 4 or 8 bytes, all first bytes, then all second ones, and so
// on. In neighbouring numbers the bytes of sign and exponent are alike and those of the mantissa's
// end are noise; apart from each other, zstd finds the former and passes over the latter.
#pragma once

#include <cstddef>
#include <span>

namespace gpusnap {

// `to` has the size of `from` and does not overlap it; `width` is 2, 4 or 8. With n whole elements
// in `from`, byte p of element i goes to p * n + i; bytes behind the last whole element stay at the
// end. Any size, any alignment.
void shuffle_bytes(size_t width, std::span<const std::byte> from, std::span<std::byte> to) noexcept;

// The way back.
void unshuffle_bytes(size_t width, std::span<const std::byte> from,
                     std::span<std::byte> to) noexcept;

}  // namespace gpusnap
