// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/range_text.h"

#include <fmt/format.h>

namespace gpusnap {

const char* name_of_kind(const SavedRange& range) {
  if (range.kind == kArray) return "array";
  if (range.kind == kPhysical) return "physical";
  if (range.kind == kProtectedRegion) return "region";
  if (range.kind == kRoutedFile) return "file";
  return range.kind == kAllocation ? "allocation" : "global";
}

std::string show_origin(const SavedRange& range) {
  if (range.kind == kArray) return fmt::format("number {}", range.ordinal);
  if (range.kind == kPhysical) return fmt::format("cuMemCreate #{}", range.module);
  if (range.kind == kProtectedRegion || range.kind == kRoutedFile) return printable(range.name);
  if (range.kind != kAllocation) {
    return fmt::format("{} (module {})", printable(range.name), range.module);
  }
  return fmt::format("{:016x} #{}", range.call_site, range.ordinal);
}

void add_origin(Json& json, const SavedRange& range, bool by_program) {
  if (range.kind == kArray) {
    json.key("ordinal").value(uint64_t{range.ordinal});
  } else if (range.kind == kAllocation) {
    json.key("call_site").value(fmt::format("{:016x}", range.call_site));
    json.key("ordinal").value(uint64_t{range.ordinal});
  } else if (range.kind == kPhysical) {
    json.key("number").value(range.module);
  } else {
    json.key("name").value(range.name);
    if (!by_program) json.key("module").value(range.module);
  }
}

}  // namespace gpusnap
