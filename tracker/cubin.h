// Machine code images as ELF files: their sizes and the variables in their symbol tables. Only the
// public ELF format is read, never the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/image.h"

namespace gpusnap {

inline constexpr size_t kElfHeaderBytes = 64;
// What kernels call for memory from the device's heap.
inline constexpr std::string_view kDeviceMalloc = "malloc";

// Whether `bytes` begin as an ELF file.
bool is_elf(std::span<const std::byte> bytes);

// The size of the ELF file at `image`, from its own tables, which must be readable; 0 when they
// are not possible.
uint64_t elf_size_at(const std::byte* image);

// Adds the device variables of the file to `found`. Returns why it could not, empty for success.
std::string read_cubin_globals(std::span<const std::byte> file, ImageGlobals& found);

}  // namespace gpusnap
