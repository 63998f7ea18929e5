// SPDX-License-Identifier: Apache-2.0
// The levels of one node, run by gpusnapd: serves the node's shards to other nodes, and protects
// the parts that its backend commits.
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

// One thread protects, repairs and removes, one part after the other. One limit bounds its traffic.
class LevelService final : public Protection {
 public:
  struct Options {
    LevelSettings settings;  // without problem_of()
    std::string ssd;         // the folder of GPUSNAP_SSD for shards
    // Time between two searches for parts of this node that have lost shards. Less after a failure.
    std::chrono::nanoseconds look_every = std::chrono::seconds(10);
    // Called with one line for the user, about a problem and about progress. Any thread.
    std::function<void(const std::string&)> warn;
    std::function<void(const std::string&)> tell;
  };
  // `files` outlives it. Returns kNotFound if this node is none of the peers.
  static Result<std::unique_ptr<LevelService>> start(FileSystem& files, Options options);
  ~LevelService() override;  // unprotected parts stay noted, for the next service
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
  std::deque<CheckpointText> fresh_ GUARDED_BY(mutex_);  // parts that were not tried yet
  bool working_ GUARDED_BY(mutex_) = false;              // on such a part
  bool stopping_ GUARDED_BY(mutex_) = false;

  // Used by the thread alone.
  std::map<std::string, std::string> told_;  // reported failures, by part
  std::set<PartId> changed_parts_;           // whose files may differ from the coded ones
  std::chrono::nanoseconds pause_{0};        // until the next search
  std::thread thread_;
};

}  // namespace gpusnap::levels
