// SPDX-License-Identifier: Apache-2.0
// The tiers' interface: where snapshots go. Slots of staging memory (staging/pool.h), the store
// with its checkpoints (store.h, manifest.h), the replay journal's files (journal.h), one seam to
// the file system (file_system.h), one way to report failure (status.h). Knows nothing of programs
// or CUDA.
#pragma once

#include "tiers/file_system.h"
#include "tiers/journal.h"
#include "tiers/manifest.h"
#include "tiers/staging/pool.h"
#include "tiers/status.h"
#include "tiers/store.h"
