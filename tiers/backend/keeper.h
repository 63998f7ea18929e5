// SPDX-License-Identifier: Apache-2.0
//
// Parts of checkpoints that stay in the staging area. Such a part is whole when all of its slots
// are there and its journal is durable; it is dropped when a later checkpoint is complete
// (kept_parts.h), and handed out to go to the store when its program has gone, when memory is
// short, or when the backend ends. Where memory is short and no part is whole, one that is being
// filled goes.
//
// Used by one thread. All that it knows is in the area, so another backend can go on from there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tiers/backend/background.h"
#include "tiers/backend/kept_parts.h"
#include "tiers/backend/message.h"
#include "tiers/spawn.h"
#include "tiers/staging/memory.h"
#include "tiers/staging/server.h"
#include "tiers/status.h"

namespace gpusnap {

class Keeper {
 public:
  // A part that is to go to the store.
  struct Leaving {
    uint32_t stream = 0;
    CheckpointText text;
    std::vector<StagingServer::Arrival> slots;  // all of it that is there
    bool is_whole = false;                      // or else the rest of it arrives at its user
  };
  struct Actions {
    // Waits until the leading slots of the journal are durable. By a thread of the keeper's.
    std::function<Status(const ManifestText::Journal& journal,
                         const std::function<bool()>& gave_up)>
        make_journal_durable;
    // Takes the part over. Where it cannot the part stays.
    std::function<Status(const Leaving& part)> send;
    // Makes `then` be called by the keeper's user. Any thread.
    std::function<void(std::function<void()> then)> post;
    // A part that nobody asks for has failed.
    std::function<void(const Status& why)> warn;
  };
  // `server` and `memory` outlive it. `keeps`: how long parts of a program that has gone stay.
  Keeper(StagingServer& server, StagingMemory& memory, Spawn spawn, std::chrono::nanoseconds keeps,
         Actions actions)
      : server_(server),
        memory_(memory),
        keeps_(keeps),
        actions_(std::move(actions)),
        background_(std::move(spawn)) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() { leave(); }

  // A stream whose part stays in memory; `job`: its folder in the store. The next four are of such
  // streams.
  void open(uint32_t stream, const std::string& job, const CheckpointText& text);
  bool has(uint32_t stream) const { return parts_.contains(stream); }
  void arrived(const StagingServer::Arrival& arrival);
  void seal(uint32_t stream);
  void give_up(uint32_t stream, const Status& why);

  // Any checkpoint of that job begins: drops what its text says is not needed.
  void begins(const std::string& job, const CheckpointText& text);
  // That part has been committed. Likewise.
  void committed(const std::string& job, const CheckpointText& text);
  // Now and then: sends a part whose program has been gone for long, or any part where no slot has
  // been free for a while and no part `is_sent` yet, or where the backend `ends`. One at a time.
  void tend(KeptParts::Time now, bool is_full, bool is_sent, bool ends);

  // Whether it waits for that journal, or does not know yet.
  bool needs(const ManifestText::Journal& journal) const;
  bool is_filling() const;  // a program hands over a part
  bool is_empty() const { return parts_.empty(); }
  // All stays as it is, for another backend.
  void leave();

 private:
  struct Part {
    uint32_t life = 0;
    CheckpointText text;
    std::map<uint64_t, uint32_t> slots;  // by sequence
    bool is_sealed = false;
    bool is_whole = false;
    bool is_left = false;   // whole, and its client does not give it up any more
    bool is_alone = false;  // its job has one rank
    std::optional<ManifestText::Journal> journal;
    std::shared_ptr<std::atomic<bool>> gave_up = std::make_shared<std::atomic<bool>>(false);

    std::string name() const;
  };

  Part* find(uint32_t stream, uint32_t life);
  Status look_at(uint32_t stream, Part& part) const;
  void end_superseded();
  void settled(uint32_t stream, uint32_t life, const Status& status);
  void send(uint32_t stream);
  void send_filling();
  Status hand_out(uint32_t stream, bool is_whole);
  void checked(uint32_t stream, uint32_t life, const Status& status);
  // `work` is done by a thread of the keeper's; then `then` is called by its user.
  using Then = void (Keeper::*)(uint32_t stream, uint32_t life, const Status& status);
  Status work_on(uint32_t stream, std::function<Status(const Part& part)> work, Then then);
  void end(uint32_t stream, const Status& outcome);
  void drop(uint32_t stream, const Status& outcome);

  StagingServer& server_;
  StagingMemory& memory_;
  const std::chrono::nanoseconds keeps_;
  const Actions actions_;
  std::map<uint32_t, Part> parts_;
  KeptParts kept_;
  std::optional<KeptParts::Time> full_since_;  // no slot has been free
  std::optional<uint32_t> leaving_;            // its slots are being looked at
  Background background_;                      // last: uses what is above
};

}  // namespace gpusnap
