// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpusnap {

// A call as messages name it: its function and the words and the name of its key.
std::string describe(uint16_t hook, const uint64_t* words, size_t count, std::string_view name);

}  // namespace gpusnap
