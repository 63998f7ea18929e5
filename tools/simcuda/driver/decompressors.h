// Formats that the device decompresses: raw Deflate, Snappy's and LZ4's block formats.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tools/simcuda/driver/cuda.h"

namespace simcuda {

// Bytes that have been written; none where the data is damaged, or gives more than there is room.
std::optional<size_t> decompress(CUmemDecompressAlgorithm algorithm, std::span<const std::byte> in,
                                 std::span<std::byte> out);

}  // namespace simcuda
