// SPDX-License-Identifier: Apache-2.0
//
// Maps HOST_MAPPING bytes of host memory before the program begins: the next mappings lie elsewhere
// than they would without it.
#include <sys/mman.h>

#include <cstdlib>

namespace {
struct Mapping {
  Mapping() {
    const char* bytes = std::getenv("HOST_MAPPING");
    if (bytes == nullptr) return;
    (void)mmap(nullptr, std::strtoull(bytes, nullptr, 10), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
} const mapping;
}  // namespace
