// SPDX-License-Identifier: Apache-2.0
// The levels of one node, as gpusnapd runs them: serves its shards to the others, and protects the
// parts that its backend commits.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tiers/backend/protection.h"
#include "tiers/levels/node_set.h"
#include "tiers/levels/notes.h"
#include "tiers/levels/shard_server.h"
#include "tiers/mutex.h"

namespace gpusnap::levels {

// One thread protects, repairs and removes, one part after the other; its traffic passes one bound.
class LevelService final : public Protection {
 public:
  struct Options {
    LevelSettings settings;  // without problem_of()
    std::string ssd;         // the folder of GPUSNAP_SSD for shards
    // How often parts of this node are looked for that have lost shards. Sooner after a failure.
    std::chrono::nanoseconds look_every = std::chrono::seconds(10);
    // One line for the user: what goes wrong, and what has happened. Any thread.
    std::function<void(const std::string&)> warn;
    std::function<void(const std::string&)> tell;
  };
  // `files` outlives it. kNotFound where this node is none of the peers.
  static Result<std::unique_ptr<LevelService>> start(FileSystem& files, Options options);
  ~LevelService() override;  // what is left to do is noted, for the next one
  LevelService(const LevelService&) = delete;
  LevelService& operator=(const LevelService&) = delete;

  void committed(const CheckpointText& part) override;
  void settled(const CheckpointText& part) override;
  bool is_busy() const override;

 private:
  using Clock = std::chrono::steady_clock;

  LevelService(FileSystem& files, Options options);
  Status start();
  void run();
  void work_on(const CheckpointText& part);
  void look_after_all();
  Status see_to(const CheckpointText& part, const Catalogue& catalogue);
  void repair_without_note(const PartCopies& copies);
  Status protect_part(const CheckpointText& part);
  void sweep(const CheckpointText& part);
  void report(const std::string& what, const Status& status);
  std::vector<uint32_t> group() const;
  Catalogue look(const std::string& store, const std::string& job) const;
  bool is_stopping() const;
  bool is_due(const CheckpointText& part) const;

  FileSystem& files_;
  const Options options_;
  RateLimit limit_;
  Notes notes_;
  std::unique_ptr<NodeSet> nodes_;
  uint32_t own_ = 0;
  std::unique_ptr<ShardServer> server_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<CheckpointText> fresh_ GUARDED_BY(mutex_);  // that were not tried yet
  bool working_ GUARDED_BY(mutex_) = false;              // on one of these
  bool stopping_ GUARDED_BY(mutex_) = false;

  // The thread's own.
  std::map<std::string, std::string> told_;  // failures, by what they are about
  std::set<PartId> changed_parts_;           // whose files may not be those that are on the nodes
  std::chrono::nanoseconds pause_{0};        // until it looks after all again
  std::thread thread_;
};

}  // namespace gpusnap::levels
