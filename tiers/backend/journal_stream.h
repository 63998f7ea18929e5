// SPDX-License-Identifier: Apache-2.0
// Sends a journal's file to the backend: a stream of slots, each with its offset in the file. If a
// backend dies, the next one writes the slots that are still in the pool to the same offsets.
#pragma once

#include <memory>
#include <string>

#include "tiers/journal.h"
#include "tiers/staging/pool.h"

namespace gpusnap {

// `file`: absolute; its name is that of a journal part. `pool` outlives the sink. A slot is claimed
// only when there are bytes to hand over, so a journal that grows slowly keeps no slot from a
// checkpoint. The destructor waits until the backend has written all of the file, or has gone.
Result<std::unique_ptr<JournalSink>> open_journal_stream(StagingPool& pool,
                                                         const std::string& file);

}  // namespace gpusnap
