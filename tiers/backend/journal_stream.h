// A journal's file, as the backend writes it: a stream of slots that say where in the file they
// belong. When a backend dies, another one writes the slots still in the pool to the same places.
#pragma once

#include <memory>
#include <string>

#include "tiers/journal.h"
#include "tiers/staging/pool.h"

namespace gpusnap {

// `file`: absolute, named as journal parts are. `pool` outlives it. Its slots are claimed when
// there is something to hand over, and not before: a journal that grows slowly keeps none from a
// checkpoint. At its end it waits until the backend has written all of it, or has gone.
Result<std::unique_ptr<JournalSink>> open_journal_stream(StagingPool& pool,
                                                         const std::string& file);

}  // namespace gpusnap
