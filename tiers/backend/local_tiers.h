// The local tiers behind the cache: their folders, how fast they are, and what backends that are
// gone have left there.
//
//   <ssd>/gpusnap/<uid>/<backend>/lock                          held by the backend of that name
//   <ssd>/gpusnap/<uid>/<backend>/<store>/<job>/e<epoch>/r<rank>-<run>-<n>.chunk, .blocks
//   <ssd>/gpusnap/<uid>/<backend>/spills/<journal>-<n>.spill    (journal_spill.h)
//
// Folders go with the last that is in them; the backend's own when it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/backend/chunk_cache.h"
#include "tiers/backend/message.h"
#include "tiers/file_system.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/device.h"
#include "tiers/placement/flush_record.h"
#include "tiers/placement/placement.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/status.h"

namespace gpusnap {

// The key of a store's folder among a backend's.
std::string store_key(const std::string& store);

// Bytes that may still be used on a local device: what is free there, as far as the user lets it be
// used.
uint64_t unused_on(FileSystem& files, const SsdFolder& folder);

class LocalTiers {
 public:
  // Opens the tiers that can be used. Warns about the others, and about missing calibrations if
  // they matter.
  static std::unique_ptr<LocalTiers> open(FileSystem& files, const std::vector<SsdFolder>& folders,
                                          const std::string& backend, PlacementPolicy policy,
                                          uint64_t chunk_bytes,
                                          const std::function<void(const std::string&)>& warn);
  LocalTiers(const LocalTiers&) = delete;
  LocalTiers& operator=(const LocalTiers&) = delete;
  ~LocalTiers();

  // In the order given.
  const std::vector<LocalTier>& tiers() const { return tiers_; }
  // Bytes a second that one writer copies within memory, where a calibration says so.
  std::optional<double> memory_bytes_per_second() const { return memory_bytes_per_second_; }
  // How an earlier backend flushed; nothing where that is not known.
  const std::optional<FlushRecord>& earlier_flushes() const { return earlier_flushes_; }
  // For the next one: beside a calibration, where there is one. `flushes`: that were best at the
  // same time; 0: what an earlier one has found stays. Any thread; kBusy while another one does it.
  Status keep_flushes(double bytes_per_second, uint32_t flushes);
  // Returns the folders for the part's chunks, one for each tier.
  std::vector<std::string> folders_for(const CheckpointText& part) const;

  // Copies of what is in stores, on all tiers. Thread-safe.
  ChunkCache& cache() { return cache_; }

  using Time = std::chrono::steady_clock::time_point;
  // Returns the index in tiers() of the tier that the path is on.
  std::optional<size_t> tier_of(const std::string& path) const;
  // The tier has failed, and is not to be used for some time. Whether a user should be told: once.
  bool fail(size_t tier, Time now);
  // Returns the failed tiers that are to be tried again now.
  std::vector<size_t> recovered(Time now);

  // A part that a backend which is gone has left.
  struct Leftover {
    uint32_t rank = 0;
    std::string run;
    std::vector<std::string> folders;    // of its chunks, that of its log first
    std::optional<CheckpointText> text;  // where it has a log that can be read
    bool sealed = false;                 // it is whole, and can be brought to its end
    bool committed = false;              // it was
    // Not ok: what it is cannot be told now, but perhaps another time, or by a later gpusnap.
    Status readable;
    struct Copy {
      std::string path;
      uint64_t bytes = 0;
      int64_t modified_unix_ns = 0;
    };
    std::vector<Copy> copies;  // chunks that were moved to the store
  };
  // Leftovers of all backends that do not run, and of an earlier one of this name. Their locks are
  // held for as long as the LocalTiers lives.
  struct LeftBehind {
    std::vector<Leftover> parts;
    Status unlisted;  // why a folder that may hold more could not be listed; ok: all were
  };
  LeftBehind leftovers();
  // Keeps the leftover's copies where its manifest is in the store, or was and cannot be looked
  // for.
  bool keep_copies(const Leftover& leftover);
  // Removes its chunks and its log.
  void remove(const Leftover& leftover);

  // Spills of a journal's file, which is absolute: a path for a new one, and those that earlier
  // backends of this name have left. Any thread.
  std::string new_spill(size_t tier, const std::string& journal);
  Result<std::vector<std::string>> spills_of(const std::string& journal) const;
  // Removes those of other journals, and those of programs that are gone and were their own
  // backends.
  void remove_spills_but_of(const std::vector<std::string>& journals);

 private:
  struct Locked {
    std::string folder;
    std::unique_ptr<FileLock> lock;
  };

  explicit LocalTiers(FileSystem& files);
  Status make_own(const std::string& folder);
  bool holds(const std::string& backend) const;
  void take_calibration(const SsdFolder& folder, const Calibration& calibration);
  bool take(const std::string& backend);
  void remove_empty_below(const std::string& backend);
  void look_into(const std::string& backend, LeftBehind& found) const;
  void look_at_epoch(const std::string& backend, const std::string& folder,
                     LeftBehind& found) const;
  std::vector<std::string> same_elsewhere(const std::string& backend,
                                          const std::string& folder) const;
  bool add(const SsdFolder& folder, const std::string& backend, PlacementPolicy policy,
           uint64_t chunk_bytes, const std::function<void(const std::string&)>& warn);

  FileSystem& files_;
  std::atomic<uint64_t> next_spill_;
  std::vector<std::string> roots_;     // user_folder() of each
  std::vector<std::string> backends_;  // this one's folder in each
  std::vector<LocalTier> tiers_;
  std::optional<double> memory_bytes_per_second_;
  std::optional<FlushRecord> earlier_flushes_;
  // Where that is kept: the first device that is calibrated.
  std::string calibration_folder_;
  DeviceIdentity calibrated_;
  std::vector<std::optional<Time>> retry_at_;
  std::vector<bool> told_;
  std::vector<Locked> locks_;
  ChunkCache cache_;
};

}  // namespace gpusnap
