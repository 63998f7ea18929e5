// This node's backend as the tool sees it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interpose/services/settings.h"
#include "tiers/daemon/in_flight.h"
#include "tiers/staging/memory.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// The node's staging area. kNotFound where there is none: nothing is in memory.
Result<std::unique_ptr<StagingMemory>> node_area(const Settings& settings);

// Starts a backend where something was left to do and nobody does it. Says what goes wrong in a
// line; whoever calls goes on.
void tend_leftovers(const Settings& settings);

// Waits until all that programs of this node had handed over when this was called, or were about to
// hand over, is durable. `job`: of that one alone, as the user calls it; empty: of all. Starts a
// backend where none serves. kBusy where it is not so within `longest`, kIo where it cannot become
// so; the message says of which checkpoint.
// `is_enough`: asked now and then, by what is in the node's area; ends the wait where it says so.
// Empty: all of it is waited for.
using IsEnough = std::function<bool(StagingMemory& memory)>;
Status wait_until_durable(const Settings& settings, const std::string& job,
                          std::chrono::nanoseconds longest, const IsEnough& is_enough = {});

// Bytes on this node's own devices that each job of the store has there.
std::map<std::string, uint64_t> space_on_node(const Settings& settings, const Store& store);

// How safe a checkpoint is, from the least.
enum class Level { kNone, kMemory, kSsd, kNodes, kDurable };
const char* name_of(Level level);  // "-", "memory", "ssd", "nodes", "durable"

struct LevelledCheckpoint {
  CheckpointInfo info;
  Level level = Level::kNone;
  // Its copies on nodes (GPUSNAP_LEVELS): "rs:4+2", where as many nodes may be lost as
  // that says; "rs:4+2 incomplete", where it can be put back and fewer may; else empty.
  std::string protection;
  bool restorable = false;  // complete, or from what is on its way on this node
};
// Its state, how far it is where it is not complete, and why: "partial (ssd): ...".
std::string show_state(const LevelledCheckpoint& checkpoint);

// The newest checkpoint of that job that this node has handed over, or the one that is meant, as
// far as a restore has to know it before it is in the store. Nothing where a restore has to wait:
// there is none, the store has a newer one, or part of it cannot be restored from this node yet.
// One that lacks ranks which nobody brings any more is passed over.
std::optional<CheckpointInfo> find_pending(const Settings& settings, Store& store,
                                           const std::string& job, StagingMemory& memory,
                                           std::optional<uint64_t> only = std::nullopt);

// Whether a restore of the job, of that epoch or the newest, has nothing to wait for: all that the
// area has of it stays there, and is not what is meant.
bool is_all_kept(Store& store, const std::string& job, StagingMemory& memory,
                 std::optional<uint64_t> only);

// With what is on its way to that store and is sealed, and what nodes have that the store has lost:
// checkpoints of which the store knows nothing are added as partial ones. The order is as it was:
// newest first.
std::vector<LevelledCheckpoint> with_levels(const Settings& settings, Store& store,
                                            const std::string& job,
                                            std::vector<CheckpointInfo> listed);

}  // namespace gpusnap
