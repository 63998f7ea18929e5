// SPDX-License-Identifier: Apache-2.0
//
// Numbers as users write them; sizes and times are in settings.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpusnap {

// Digits alone.
bool parse_count(std::string_view text, uint64_t& count);

}  // namespace gpusnap
