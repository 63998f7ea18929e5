// SPDX-License-Identifier: Apache-2.0
//
// A machine file: the inputs of a machine in a small part of TOML.
//
//   name = "rack 7"     # comments
//   nodes = 16
//   [link]
//   gpu = 25.0
//   node = 100
//
// Values are numbers and, for the name, a string.
#pragma once

#include <string_view>

#include "tiers/plan/machine.h"
#include "tiers/status.h"

namespace gpusnap::plan {

// The order of the keys does not matter. Reads are as fast as writes where the file does not say.
// kInvalid, with one line that names the line of the file: no such part of TOML, what set_input
// refuses, a key that is there twice. kInvalid, too, where a required key is missing.
Result<Machine> parse_machine(std::string_view text);

}  // namespace gpusnap::plan
