// SPDX-License-Identifier: Apache-2.0
#include "tiers/ahead_files.h"

#include <algorithm>

#include "tiers/page_memory.h"

namespace gpusnap {

std::vector<AheadFiles::File>::const_iterator AheadFiles::roomiest() const {
  return std::ranges::max_element(files_, {},
                                  [](const File& file) { return file.room - file.used; });
}

std::optional<AheadFiles::Place> AheadFiles::take(uint64_t bytes) {
  if (bytes > room()) return std::nullopt;
  File& file = files_[static_cast<size_t>(roomiest() - files_.begin())];
  const Place place{file.file.get(), file.used};
  file.used += std::min((bytes + kPageBytes - 1) / kPageBytes * kPageBytes, file.room - file.used);
  return place;
}

void AheadFiles::fail(const BulkFile* failed) {
  for (File& file : files_) {
    if (file.file.get() == failed) file.room = file.used;
  }
}

}  // namespace gpusnap
