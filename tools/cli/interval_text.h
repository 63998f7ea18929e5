// SPDX-License-Identifier: Apache-2.0
// How an interval is shown that GPUSNAP_EVERY=auto has chosen.
#pragma once

#include <string>

#include "tiers/plan/interval_choice.h"
#include "tools/cli/text.h"

namespace gpusnap {

// An object with interval_s, stall_s, latency_s, mtbf_s, measurements, store_every, the
// memory_stall_s, memory_latency_s and memory_measurements of checkpoints that stayed in memory,
// and failures; null: none was chosen.
void add_interval(Json& json, const plan::ChosenInterval& interval);
// One line without its end. One was chosen.
std::string show_interval(const plan::ChosenInterval& interval);

}  // namespace gpusnap
