// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/range_text.h"

#include <fmt/format.h>

namespace gpusnap {

const char* name_of_kind(const SavedRange& range) {
  if (range.kind == kSavedArray) return "array";
  if (range.kind == kSavedPhysical) return "physical";
  if (range.kind == kProtectedRegion) return "region";
  if (range.kind == kRoutedFile) return "file";
  return range.kind == kSavedAllocation ? "allocation" : "global";
}

std::string show_origin(const SavedRange& range) {
  if (range.kind == kSavedArray) return fmt::format("number {}", range.ordinal);
  if (range.kind == kSavedPhysical) return fmt::format("cuMemCreate #{}", range.module);
  if (range.kind == kProtectedRegion || range.kind == kRoutedFile) return printable(range.name);
  if (range.kind != kSavedAllocation) {
    return fmt::format("{} (module {})", printable(range.name), range.module);
  }
  return fmt::format("{:016x} #{}", range.call_site, range.ordinal);
}

void add_origin(Json& json, const SavedRange& range, bool by_program) {
  if (range.kind == kSavedArray) {
    json.key("ordinal").value(uint64_t{range.ordinal});
  } else if (range.kind == kSavedAllocation) {
    json.key("call_site").value(fmt::format("{:016x}", range.call_site));
    json.key("ordinal").value(uint64_t{range.ordinal});
  } else if (range.kind == kSavedPhysical) {
    json.key("number").value(range.module);
  } else {
    json.key("name").value(range.name);
    if (!by_program) json.key("module").value(range.module);
  }
}

}  // namespace gpusnap
