// SPDX-License-Identifier: Apache-2.0
//
// Finds what a restart needs of a part that was handed over and is not in its store yet. Its bytes
// are in the staging area, in chunks on local devices, and in segments. The server is not asked: it
// may be working on the part, stopped, or dead.
//
// A slot is released only after the block log says where its bytes are. Therefore the slots are
// read first and the logs after them: each slot of the part is in one of the two. For bytes in
// memory, the checksums are those of the bytes found there. They tell whether the same bytes are
// still there when they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tiers/backend/located_part.h"
#include "tiers/daemon/in_flight.h"
#include "tiers/file_system.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/staging/memory.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// The places besides its store where a part may lie.
struct PendingPlaces {
  StagingMemory* memory = nullptr;  // not owned
  std::string area;                 // the path of the file of that memory
  std::vector<SsdFolder> ssd;
};

// Returns the path of the area of that name (StagingMemory::name_for).
std::string area_file(const std::string& area);
// Returns whether both paths are of the same store.
bool is_same_store(const std::string& one, const std::string& other);

// Returns the job's sealed parts of an epoch; see look_at(). `job`: its name or its folder's name.
std::vector<InFlight::Part> pending_parts(StagingMemory& memory, const std::string& store,
                                          const std::string& job, uint64_t epoch);
// Returns the newest epoch of that job of which the area has a part; 0: there is none. `sealed`:
// only sealed parts count.
uint64_t newest_in_flight(StagingMemory& memory, const std::string& store, const std::string& job,
                          bool sealed);
// Returns the first epoch of that job after all epochs in the store and in the area, including
// parts that are committed meanwhile.
Result<uint64_t> free_epoch(StagingMemory& memory, Store& store, const std::string& job);

// Returns the part's manifest as its program handed it over, except for the parent's checksum: it
// has no extents and no segments. Succeeds only if the part can be located now, its ancestors can
// be read, and its journal is durable up to the cut. Returns kNotFound if the part is not in the
// area any more, kBusy if it cannot be restored, now or ever.
Result<Manifest> read_pending(FileSystem& files, const PendingPlaces& places,
                              const InFlight::Part& part);

// Locates all bytes of the part. Reads all bytes of needed slots once. kNotFound and kBusy as
// above.
Result<LocatedPart> locate_pending(FileSystem& files, const PendingPlaces& places,
                                   const InFlight::Part& part, const IsNeeded& is_needed);

}  // namespace gpusnap
