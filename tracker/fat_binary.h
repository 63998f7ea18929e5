// The container in which nvcc packs PTX and machine code for several architectures.
//
//   header  u32 magic 0xBA55ED50, u16 version 1, u16 header size, u64 bytes of all entries
//   entry   u16 kind (1 PTX, 2 ELF), u32 header size at 4, u64 payload bytes (padded) at 8,
//           u32 compressed bytes at 16, u32 architecture at 28, u64 flags at 40,
//           u64 uncompressed bytes at 56; then the payload, then the next entry
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tracker/image.h"

namespace gpusnap {

inline constexpr uint32_t kFatBinaryMagic = 0xBA55ED50;
inline constexpr size_t kFatBinaryHeaderBytes = 16;

// Bytes of the container that starts at `header`, of which kFatBinaryHeaderBytes can be read; 0
// when it is none.
uint64_t fat_binary_size(const std::byte* header);

// Adds what the containers in `bytes` hold, one after the other, to `contents`.
void read_fat_binary(std::span<const std::byte> bytes, ImageContents& contents);

}  // namespace gpusnap
