// The output of `gpusnap status`: jobs, their ranks, the backends that they use; as text and as
// JSON.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "interpose/services/control.h"
#include "tools/cli/node.h"

namespace gpusnap {

enum class RankState : uint8_t {
  kTold,        // as the process says itself: ProcessStatus::doing
  kSilent,      // it has not answered
  kNotStarted,  // the library is in it, and has no session
  kNotHere,     // no process of this node: what is known is what the store has
};

struct RankStatus {
  RankState state = RankState::kTold;
  int pid = 0;                 // 0: none here
  ProcessStatus status;        // as far as it is known
  std::string note;            // kSilent: why
  Level level = Level::kNone;  // of the checkpoint on its way
};
// "recording", "does not answer" and so on.
std::string state_of(const RankStatus& rank);

struct TierStatus {
  std::string tier;    // "memory", "ssd", "durable"
  std::string folder;  // of an SSD; of stores, those that are known to be written to
  uint64_t writers = 0;
  uint64_t waiting = 0;   // chunks that have to be flushed from there; durable: from all tiers
  uint64_t flushing = 0;  // chunks that are just being flushed from there; durable: none
  uint64_t capacity = 0;  // chunks; 0: it has no bound
};

struct BackendStatus {
  std::string area;  // name; empty: within the programs
  int pid = 0;       // 0: it does not run
  uint64_t staging_used = 0;
  uint64_t staging_bytes = 0;
  uint64_t chunk_bytes = 0;
  uint64_t checkpoints = 0;  // on their way
  uint64_t journals = 0;
  uint64_t unplaced = 0;   // chunks that wait for a place
  uint64_t committed = 0;  // since it began
  uint64_t failed = 0;
  uint64_t flushes = 0;                 // chunks that may be flushed at the same time
  uint64_t flush_bytes_per_second = 0;  // 0: not known yet
  std::vector<TierStatus> tiers;        // none: it has told nothing yet
};

// Takes over the backend's report of itself, and the stores that it is known to write to. The
// report comes from memory that others can write to, too.
void take_report(const BackendReport& report, const std::set<std::string>& stores,
                 BackendStatus& backend);

struct JobStatus {
  std::string job;
  std::string store;  // folder
  uint32_t ranks = 1;
  std::string problem;    // why the store is not looked into; one line
  uint64_t complete = 0;  // the newest epoch that the store has of all ranks; 0: none
  int64_t complete_unix_ns = 0;
  // The ranks that are not as far in the store as others, and how far they are.
  struct Behind {
    uint32_t rank = 0;
    uint64_t epoch = 0;  // 0: none
  };
  std::vector<Behind> behind;
  std::vector<RankStatus> processes;  // by rank
  std::vector<BackendStatus> backends;
};

// `node`: backends that are shown though no job uses them. `now_unix_ns`: what ages count from.
std::string as_text(const std::vector<JobStatus>& jobs, const std::vector<BackendStatus>& node,
                    int64_t now_unix_ns);
std::string as_json(const std::vector<JobStatus>& jobs);

}  // namespace gpusnap
