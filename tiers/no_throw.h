// SPDX-License-Identifier: Apache-2.0
// The tiers report by Status. The one exception that their functions meet is that of memory running
// out; here it becomes a Status like any other.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "tiers/status.h"

namespace gpusnap {

// Runs `work`, which returns a Status or a Result. `what` says what was being done: "list
// checkpoints".
template <class Work>
auto no_throw(const char* what, Work&& work) noexcept -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::exception& error) {
    return Status(Code::kIo, "cannot " + std::string(what) + ": " + error.what());
  }
}

}  // namespace gpusnap
