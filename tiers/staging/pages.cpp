// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/pages.h"

#include <sys/mman.h>

#include <cerrno>

namespace gpusnap {
namespace {

// MADV_POPULATE_WRITE, which headers of older systems do not name. A system that does not know it
// refuses it.
constexpr int kPopulateWrite = 23;

}  // namespace

Status populate_pages(std::byte* start, uint64_t bytes) {
  int outcome = 0;
  do outcome = ::madvise(start, bytes, kPopulateWrite);
  while (outcome < 0 && errno == EINTR);
  if (outcome == 0) return {};
  if (errno == EINVAL) return {Code::kUnsupported, "pages cannot be made ahead by this system"};
  return {Code::kNoSpace, "the system has no memory for pages"};
}

}  // namespace gpusnap
