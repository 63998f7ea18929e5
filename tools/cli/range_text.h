// SPDX-License-Identifier: Apache-2.0
// How a range of a checkpoint is shown: its kind, and where it comes from.
#pragma once

#include <string>

#include "tiers/manifest.h"
#include "tools/cli/text.h"

namespace gpusnap {

inline constexpr uint8_t kSavedAllocation = 0, kSavedArray = 4, kSavedPhysical = 5;

const char* name_of_kind(const SavedRange& range);  // "allocation", "global", ...
std::string show_origin(const SavedRange& range);   // "00ab... #3", "name (module 1)", ...
// The same as keys of the object that is open. `by_program`: Manifest::by_program().
void add_origin(Json& json, const SavedRange& range, bool by_program);

}  // namespace gpusnap
