// The LZ4 block format, read only: what nvcc before version 13 compresses fat binaries with.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace gpusnap {

// Decompresses one block that must give exactly `size` bytes; nullopt when the block is damaged.
std::optional<std::string> lz4_decompress(std::span<const std::byte> block, size_t size);

}  // namespace gpusnap
