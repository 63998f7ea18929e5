// SPDX-License-Identifier: Apache-2.0
// Functions that every device has: programs declare and call them, and do not define them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/simcuda/machine/warp.h"

namespace simcuda {

enum class BuiltIn : uint8_t { kAssertFail, kPrint, kMalloc, kFree };

// None: no device has a function of that name.
std::optional<BuiltIn> built_in_named(std::string_view name);

struct BuiltInFault {
  Fault::Kind kind = Fault::Kind::kNone;
  std::string reason;
};

// Does the call for all lanes of the group, one after the other. kNone: it has been done.
BuiltInFault run_built_in(Warp& warp, const Group& group, const CallSite& site, BuiltIn which);

}  // namespace simcuda
