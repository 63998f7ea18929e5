// SPDX-License-Identifier: Apache-2.0
//
// Brings the device memory of a checkpoint back: finds where each saved range is in this process,
// and fills it with what the store, or a copy nearer than that, has of it.
//
// One thread at a time, but for what says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "interpose/model/device_model.h"
#include "interpose/process/restored_rank.h"
#include "interpose/process/run.h"
#include "interpose/snapshot/device_drain.h"
#include "tiers/backend/restore_reader.h"

namespace gpusnap {

class CheckpointLoader {
 public:
  // They outlive it.
  CheckpointLoader(DeviceModel& model, Run& run, const RestoredRank& restored, DeviceDrain& device)
      : model_(model), run_(run), restored_(restored), device_(device) {}
  CheckpointLoader(const CheckpointLoader&) = delete;
  CheckpointLoader& operator=(const CheckpointLoader&) = delete;

  // A replay has begun: what load() will need is read from now on.
  void read_ahead(const CheckpointInfo& checkpoint, uint32_t rank);
  // There will be no load(). Another thread may load meanwhile.
  void stop_reading();
  // Puts the saved device memory back; every range is there, at its recorded address. Gives the
  // address of each.
  Status load(const CheckpointInfo& checkpoint, const Manifest& manifest,
              std::vector<uint64_t>& addresses);
  // The same into a program that is no replay of the checkpoint's: allocations are those made at
  // the same places in it, wherever they lie.
  Status reload(const CheckpointInfo& checkpoint, const Manifest& manifest);

 private:
  // Where an allocation of the checkpoint is in this process; 0: nowhere.
  using Find = std::function<uint64_t(const SavedRange& saved)>;
  struct LoadedRanges {
    std::vector<uint64_t> addresses;       // in this process
    std::vector<const SavedRange*> moved;  // that had another one, and may be pointed to
  };
  uint64_t find_variable(const SavedRange& saved) const;
  Status find_addresses(std::span<const SavedRange> ranges, const Find& find, LoadedRanges& loaded);
  Status put_back(const CheckpointInfo& checkpoint, const Manifest& manifest, const Find& find,
                  std::vector<uint64_t>& addresses);
  Status load_pieces(std::span<const ReadPiece> pieces, const LoadedRanges& loaded,
                     std::span<const std::byte> bytes);
  std::unique_ptr<RestoreReader> make_reader(const CheckpointInfo& checkpoint, uint32_t rank);
  std::unique_ptr<RestoreReader> take_reader();

  DeviceModel& model_;
  Run& run_;
  const RestoredRank& restored_;
  DeviceDrain& device_;
  std::mutex mutex_;                       // of what follows
  std::unique_ptr<RestoreReader> reader_;  // of the checkpoint whose replay is on its way
};

}  // namespace gpusnap
