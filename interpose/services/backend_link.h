// The way of this process to the backend: the staging area, itself as one of the area's clients,
// and another backend where the one that served the area has ended. The backend is one of this
// process (GPUSNAP_BACKEND=thread), or the node's, gpusnapd, which is started where there is none.
#pragma once

#include <memory>

#include "interpose/services/settings.h"
#include "tiers/backend/backend.h"
#include "tiers/spawn.h"
#include "tiers/staging/client.h"
#include "tiers/staging/memory.h"
#include "tiers/staging/pool.h"
#include "tiers/staging/server_watch.h"
#include "tiers/status.h"

namespace gpusnap {

// Threads of a backend in this process that look after checkpoints and journals, and one that
// touches staging memory; those that compress and those that move bytes come besides.
inline constexpr int kBackendThreads = 2 + Backend::kThreads;

// Where an area is mapped in this process: apart from all that the program maps. Null: anywhere.
AddressSpace* area_addresses();

// Thread-safe. Never destroyed: what has been handed over goes on as long as the process lives.
class BackendLink {
 public:
  ~BackendLink();
  // `spawn` makes threads for as long as the process lives. Where the node's backend cannot be had
  // there is one of this process, and a line that says so.
  static Result<std::unique_ptr<BackendLink>> open(const Settings& settings, const Spawn& spawn);

  // Slots that have been handed over become durable even if this process ends.
  bool outlives_process() const { return backend_ == nullptr; }
  StagingMemory& memory() { return *memory_; }
  StagingPool& pool() { return *pool_; }

 private:
  BackendLink() = default;
  Status reach(const Settings& settings);
  Status serve(const Settings& settings, const Spawn& spawn);
  Status join(ServerWatch::Revive revive);

  std::unique_ptr<StagingMemory> memory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<StagingClient> client_;
  std::unique_ptr<ServerWatch> watch_;
  std::unique_ptr<StagingPool> pool_;
};

}  // namespace gpusnap
