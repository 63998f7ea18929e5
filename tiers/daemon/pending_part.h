// SPDX-License-Identifier: Apache-2.0
//
// Finds what a restart needs of a part that was handed over and is not in its store yet:
// all of it is in the staging area, in chunks on local devices, and in segments. Found from outside
// and without the server, which may be at work on it, stopped, or dead.
//
// A slot is released only after the block log tells where its bytes are by then. So the slots are
// looked at first and the logs afterwards: a slot of the part is in the one, or in the other.
// Nothing tells which bytes of memory are right but the memory itself: the checksums are those of
// what lies there. They tell whether it is still there when it is read.
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

// Where a part may lie, besides its store.
struct PendingPlaces {
  StagingMemory* memory = nullptr;  // outlives what uses it
  std::string area;                 // the path of the file whose memory that is
  std::vector<SsdFolder> ssd;
};

// The path of the area of that name (StagingMemory::name_for).
std::string area_file(const std::string& area);
// Whether they are the same store's.
bool is_same_store(const std::string& one, const std::string& other);

// The job's sealed parts of an epoch, as look_at() has them. `job`: as the user calls it, or its
// folder's name.
std::vector<InFlight::Part> pending_parts(StagingMemory& memory, const std::string& store,
                                          const std::string& job, uint64_t epoch);
// The newest epoch of which the area has a part of that job; 0: there is none. `sealed`: of sealed
// parts alone.
uint64_t newest_in_flight(StagingMemory& memory, const std::string& store, const std::string& job,
                          bool sealed);
// The first epoch of that job after all that the store has and all that is on its way there from
// the area. A part that is committed meanwhile counts, too.
Result<uint64_t> free_epoch(StagingMemory& memory, Store& store, const std::string& job);

// The part's manifest as its program handed it over, but for the parent's checksum: it has no
// extents and no segments. Ok only if the part can be located now, if its parent and all before it
// can be read, and if its journal is durable up to the cut. kNotFound: it is not in the area any
// more, kBusy: it cannot be restored yet, or never.
Result<Manifest> read_pending(FileSystem& files, const PendingPlaces& places,
                              const InFlight::Part& part);

// Where all of it lies now. Reads all bytes of needed slots, once. kNotFound and kBusy as above.
Result<LocatedPart> locate_pending(FileSystem& files, const PendingPlaces& places,
                                   const InFlight::Part& part, const IsNeeded& is_needed);

}  // namespace gpusnap
