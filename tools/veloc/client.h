// SPDX-License-Identifier: Apache-2.0
//
// Implements VeloC's calls: protected memory, the phases of a checkpoint and of a restart, names
// and versions. Knows nothing of C.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/veloc/archive.h"
#include "tools/veloc/caches.h"
#include "tools/veloc/config.h"
#include "tools/veloc/engine.h"
#include "tools/veloc/memory.h"
#include "tools/veloc/mover.h"
#include "tools/veloc/staging.h"

namespace gpusnap::veloc {

// The processes of the job.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;
  // Behind the names of checkpoints, so that several jobs of one process each can share a folder.
  virtual std::string suffix() const = 0;
  // Collective: replaces each number by its least over the processes.
  virtual Status least(std::vector<int64_t>& numbers) = 0;
};

// Which of the protected regions are meant.
struct Selection {
  enum class Mode : uint8_t { kAll, kSome, kRest };
  Mode mode = Mode::kAll;
  std::set<int> ids;
  bool has(int id) const { return mode == Mode::kAll || (mode == Mode::kSome) == ids.contains(id); }
};

// Used by one thread. Messages of failures are for users.
class Client {
 public:
  // The objects that it works with; they outlive it.
  struct Surroundings {
    FileSystem& files;
    Clock& clock;
    // The memory that the calling thread's device has.
    std::function<std::unique_ptr<Memory>()> memory;
    // A random number, at least 0, that no other start of a process draws, nor a replay.
    std::function<Result<int64_t>()> draw;
    // Set if the program is checkpointed as a whole, too: what it found out, or in a replay what it
    // had found out there.
    std::function<int64_t(int64_t found)> same_as_recorded;
  };
  // Collective.
  static Result<std::unique_ptr<Client>> create(const Config& config, std::unique_ptr<Ranks> ranks,
                                                const Surroundings& surroundings);
  ~Client();
  // `drain`: as VELOC_Finalize().
  Status finish(bool drain);

  void protect(int id, void* memory, uint64_t bytes);
  Status unprotect(int id);
  void unprotect_all() { protected_.clear(); }

  // In one step.
  Status checkpoint(const std::string& name, int version);
  // In three.
  Status begin_checkpoint(const std::string& name, int version);
  Status save(const Selection& selection);
  Status end_checkpoint(bool success);
  Status wait_until_durable();
  bool is_durable() const;

  // The newest version that all ranks have, before that one if it is above 0. Collective.
  Result<uint64_t> newest(const std::string& name, int before);
  Status restart(const std::optional<std::string>& name, int version);
  Status begin_restart(const std::optional<std::string>& name, int version);
  Status recover(const Selection& selection);
  Status end_restart(bool success);
  // Bytes of a region of the restart's checkpoint, or of any.
  Result<uint64_t> size_of(int id) const;
  Result<uint64_t> size_of(const std::optional<std::string>& name, int version, int id);

  Result<std::string> route_file(const std::string& original);

  // Without a name: of the one that was used last, or will be used first.
  Status hint(const std::optional<std::string>& name, int version);
  Status start_prefetching();

 private:
  struct Protected {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
  };
  // A checkpoint that the engine knows.
  struct Known {
    Version version = 0;
    std::optional<Archive::Written> what;  // none: it was only hinted
    bool is_written = false;               // by this run
  };
  // From begin to end of a checkpoint or restart.
  struct Phase {
    bool is_restart = false;
    std::optional<Version> recovered;  // by a restart: in parts
    Name name;
    WriteId id;                                // of a checkpoint
    Layout layout;                             // of a checkpoint: what was saved so far
    std::optional<Version> held;               // its memory is in a cache
    std::vector<std::byte> kept;               // its memory, if no cache had room
    std::vector<MemoryPlace> kept_places;      // in that
    std::map<std::string, std::string> files;  // routed: paths by names
  };
  // Protected memory, in the order of its numbers.
  struct Chosen {
    Layout layout;
    std::vector<MemoryPlace> places;
    std::vector<Staging::Staged> staged;
  };

  Client(const Config& config, std::unique_ptr<Ranks> ranks, const Surroundings& surroundings)
      : config_(config), ranks_(std::move(ranks)), surroundings_(surroundings) {}
  FileSystem& files() const { return surroundings_.files; }
  int64_t same_as_recorded(int64_t found) const {
    return surroundings_.same_as_recorded ? surroundings_.same_as_recorded(found) : found;
  }
  Status agree_on_run();
  Status start_engine();

  Status restore(const Selection& selection, bool is_part);
  Result<Name> name_of(const std::optional<std::string>& name, int version);
  bool is_usable(const std::string& name) const;
  void use_name(const std::string& name);
  std::string stored_name(const std::string& name) const { return name + ranks_->suffix(); }
  Known& known(const Name& name);
  Version number_to_write(const Name& name);
  Result<Known*> find(const Name& name);

  Result<Chosen> choose(const Selection& selection) const;
  Result<Chosen> choose_to_save(const Selection& selection) const;
  int fastest_of(const std::vector<MemoryPlace>& places) const;
  Status write(const Phase& phase, const Chosen& chosen);
  Status keep(const Chosen& chosen);
  Status add_files(Phase& phase) const;
  void remove_left(const std::string& folder, const std::string& prefix) const;
  Status extract(const std::string& original, const std::string& path);
  std::optional<uint64_t> newest_before(const std::string& name, uint64_t bound) const;
  std::optional<int64_t> run_number(const Name& name) const;

  const Config config_;
  const std::unique_ptr<Ranks> ranks_;
  const Surroundings surroundings_;
  int64_t run_ = 0;      // of this process and the other ranks; no two starts have the same
  uint64_t writes_ = 0;  // that were begun
  std::map<int, Protected> protected_;
  std::map<Name, Known> known_;
  Version newest_version_ = 0;
  std::string last_name_;
  std::vector<int> nameless_hints_;  // until a name is used
  std::vector<Name> early_hints_;    // until the engine is there
  bool is_prefetching_ = false;
  std::set<std::string> routed_folders_;  // that this run has used
  std::optional<Phase> phase_;

  // In the order in which they need each other; made at the first call that needs them, when the
  // program has its device.
  std::unique_ptr<Archive> archive_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Staging> staging_;  // null: the program is not checkpointed as a whole
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<Mover> mover_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace gpusnap::veloc
