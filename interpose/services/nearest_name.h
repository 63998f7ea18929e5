// SPDX-License-Identifier: Apache-2.0
// The name that was meant by one that does not exist.
#pragma once

#include <span>
#include <string_view>

namespace gpusnap {

// The one of `names` that `name` is most like; empty where none is like it.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace gpusnap
