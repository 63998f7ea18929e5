// SPDX-License-Identifier: Apache-2.0
// The tiers report failures by Status. The only exceptions that their functions meet say that
// memory has run out. no_throw() turns them into a Status.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "tiers/status.h"

namespace gpusnap {

// Runs `work`, which returns a Status or a Result. `what` names the action in the message: "list
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
