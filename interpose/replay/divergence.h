// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gpusnap {

// The calling thread does not repeat the recording: ends the process, by name. `call`: the number
// of the entry.
[[noreturn]] void end_diverged(uint64_t call, const std::string& expected, const std::string& got);

}  // namespace gpusnap
