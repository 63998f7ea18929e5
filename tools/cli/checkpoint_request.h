// SPDX-License-Identifier: Apache-2.0
//
// Has a running process take a checkpoint, and waits for it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "interpose/services/control.h"
#include "tiers/store.h"

namespace gpusnap {

// A checkpoint that is durable, with the parts of all ranks.
struct TakenCheckpoint {
  std::string id;
  uint64_t bytes = 0;
  uint64_t stall_ns = 0;
  size_t ranks = 1;
};

// Sends the request (kCheckpointRequest, kStopRequest) to a process, and waits until the checkpoint
// is durable, for at most `longest`. Shows on a terminal that it waits. A failure's message is one
// line.
Result<TakenCheckpoint> take_checkpoint_of(int pid, std::string_view request,
                                           std::chrono::nanoseconds longest);
// "wave@12: 64.0 MiB of 4 ranks, program held 1.5 ms"
std::string show(const TakenCheckpoint& taken);

}  // namespace gpusnap
