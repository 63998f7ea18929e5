// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/snapshot_run.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/mutation.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/zone_copies.h"
#include "tiers/checksum.h"

namespace gpusnap {

namespace {
constexpr uint64_t kFineZone = 4096;  // of i-fg
}  // namespace

SnapshotRun::SnapshotRun(const Driver& used, const Settings& given, StagingPool& staging,
                         DirectStorage* storage)
    : driver(used),
      settings(given),
      pool(staging),
      direct(storage),
      zone_bytes(given.organisation.fine ? kFineZone : given.zone),
      dirty_from_calls(given.dirty_from_calls) {}

void SnapshotRun::begin() {
  std::lock_guard lock(mutex_);
  status_ = {};
}

void SnapshotRun::start(CheckpointWriter& writer, bool forced) {
  writer_ = &writer;
  forced_ = forced;
  waiting_.store(false, std::memory_order_relaxed);
  saved_bytes_.store(0, std::memory_order_relaxed);
  direct_bytes_.store(0, std::memory_order_relaxed);
}

Status SnapshotRun::status() {
  std::lock_guard lock(mutex_);
  return status_;
}

CUresult SnapshotRun::copy_to_slot(const Transfer& transfer, Slot* slot, uint64_t place,
                                   CUstream stream) {
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : transfer.pieces) {
    const uint64_t from = zones.ranges()[piece.range].address + piece.offset;
    copies.push_back({reinterpret_cast<uint64_t>(slot->data + place + piece.place), from,
                      piece.size, piece.range});
  }
  return copy_zones(driver, CopyTo::kHost, std::move(copies), stream);
}

// A copy that ended by an error has arrived, too; nothing of the snapshot can be used then.
bool SnapshotRun::arrived(void* event) {
  if (event == nullptr) return true;
  const CUresult result = driver.cuEventQuery(static_cast<CUevent>(event));
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result != CUDA_SUCCESS) fail(driver_status(driver, "copying device memory", result));
  return true;
}

CheckpointWriter::Check SnapshotRun::check_of(std::span<const Piece> pieces) const {
  if (dirty_from_calls || mutated(Mutation::kSkipHashCompare)) return {};
  // The fingerprints at the cut, in the order in which the zones lie in the slot.
  std::vector<std::pair<uint64_t, uint64_t>> expected;  // bytes, fingerprint
  for (const Piece& piece : pieces) {
    const TrackedRange& range = zones.ranges()[piece.range];
    for (uint64_t done = 0; done < piece.size;) {
      const uint64_t size = std::min(zone_bytes, piece.size - done);
      expected.emplace_back(size, range.at_cut[(piece.offset + done) / zone_bytes]);
      done += size;
    }
  }
  return [expected = std::move(expected)](std::span<const std::byte> bytes) {
    for (const auto& [size, at_cut] : expected) {
      if (fingerprint(bytes.first(size)) != at_cut) {
        return Status(Code::kTorn,
                      "the program wrote to memory that its calls did not tell of "
                      "before it was saved");
      }
      bytes = bytes.subspan(size);
    }
    return Status();
  };
}

void SnapshotRun::fail(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = why;
  }
  zones.drop();
}

Status SnapshotRun::too_late(const char* why) const {
  return {Code::kBusy, std::string(why) + ", within " +
                           std::to_string(settings.max_stall / std::chrono::milliseconds(1)) +
                           " ms (GPUSNAP_MAX_STALL; larger GPUSNAP_HOST_CACHE and "
                           "GPUSNAP_DEVICE_CACHE help)"};
}

}  // namespace gpusnap
