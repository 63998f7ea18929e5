// SPDX-License-Identifier: Apache-2.0
// The findings of `gpusnap doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/services/settings.h"
#include "tiers/manifest.h"

namespace gpusnap {

enum class Verdict : uint8_t { kOk, kDoubtful, kBad };
const char* name_of(Verdict verdict);  // "ok", "doubtful", "bad"

struct Finding {
  std::string check;
  Verdict verdict = Verdict::kOk;
  std::string what;    // was found
  std::string advice;  // empty: nothing to do
};

struct DoctorQuestion {
  std::string simcuda;  // folder of the software GPU; empty: the machine's own driver
  std::string program;  // that is to be run; empty: none in particular
  std::string store;    // empty: as the settings say
};

// In the order in which a run needs what is checked.
std::vector<Finding> examine_machine(const DoctorQuestion& question);

// Lines of at most 80 columns.
std::string findings_as_text(const std::vector<Finding>& findings);
std::string findings_as_json(const std::vector<Finding>& findings);

}  // namespace gpusnap
