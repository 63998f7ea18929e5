// SPDX-License-Identifier: Apache-2.0
//
// Memory in whole pages, aligned to a page, as direct I/O needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "tiers/status.h"

namespace gpusnap {

inline constexpr uint64_t kPageBytes = 4096;

struct FreePages {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using PageMemory = std::unique_ptr<std::byte, FreePages>;

// Allocates at least `bytes` bytes, and at least one page.
inline Result<PageMemory> allocate_pages(uint64_t bytes) {
  const uint64_t pages = bytes == 0 ? 1 : (bytes + kPageBytes - 1) / kPageBytes;
  PageMemory memory(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, pages * kPageBytes)));
  if (memory == nullptr) return Status(Code::kIo, "no memory is left to read a checkpoint");
  return memory;
}

}  // namespace gpusnap
