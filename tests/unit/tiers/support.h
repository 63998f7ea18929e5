// A small job that takes checkpoints of made-up memory and can tell whether they come back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "local_backend.h"
#include "tiers/prune.h"
#include "tiers/tiers.h"

namespace gpusnap::test {

// The bytes of a range of memory at an epoch: they look random, and nothing else has them.
inline std::vector<std::byte> memory_at(uint64_t epoch, size_t range, size_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t state = epoch * 0x9e3779b97f4a7c15 + range * 0xbf58476d1ce4e5b9 + 1;
  for (std::byte& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state);
  }
  return bytes;
}

inline bool contains(const std::vector<uint64_t>& epochs, uint64_t epoch) {
  return std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
}

struct Job {
  std::string name = "demo";
  std::string run = "abc123";
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<size_t> ranges = {10000, 1, 64 << 10, 777};
  uint64_t segment_bytes = 32 << 10;
  uint64_t job_run = 0;
  int64_t later_ns = 0;  // its cuts, than those of a job without it
};

inline Manifest manifest_of(const Job& job, uint64_t epoch) {
  Manifest manifest;
  manifest.job = job.name;
  manifest.epoch = epoch;
  manifest.rank = job.rank;
  manifest.ranks = job.ranks;
  manifest.run = job.run;
  manifest.job_run = job.job_run;
  manifest.host = "host";
  manifest.library_version = "0";
  manifest.cut_unix_ns = static_cast<int64_t>(1'000'000'000 * epoch) + job.later_ns;
  manifest.stall_ns = 5;
  manifest.zone_bytes = 65536;
  manifest.calls = 100 * epoch;
  manifest.launches = 10 * epoch;
  manifest.meanwhile = {6, 5, 4, 3, 2, epoch};
  manifest.waits = {1, 2, epoch};
  manifest.program = {"/bin/solver",
                      3,
                      4,
                      {"solver", "", "a b\n"},
                      "/tmp",
                      "GPU",
                      13000,
                      {{"GPU", 1 << 30, 9, 0}},
                      2,
                      {{"/lib/libm.so.6", "0a1b"}, {"/lib/libplain.so", ""}},
                      {{"/data/big.cfg", 12, 34, 56, true}, {"/data/mesh", 78, 90, 0, false}}};
  for (size_t i = 0; i < job.ranges.size(); ++i) {
    SavedRange range;
    range.kind = i == 3 ? 1 : 0;
    range.address = 0x10000 * (i + 1);
    range.size = job.ranges[i];
    range.call_site = 7 * i;
    range.ordinal = static_cast<uint32_t>(i);
    range.name = i == 3 ? "counter" : "";
    manifest.ranges.push_back(range);
  }
  return manifest;
}

inline std::string journal_name(const Job& job) {
  return job.run + "-r" + std::to_string(job.rank) + ".journal";
}

inline std::unique_ptr<JournalWriter> open_journal(LocalBackend& backend, const Job& job) {
  return backend.open_journal(job.name, journal_name(job));
}

inline std::vector<std::byte> journal_bytes(uint64_t epoch) {
  return memory_at(epoch, 99, 1300);
}

// A slot that is one piece.
inline void write_slot(CheckpointWriter& writer, uint32_t range, uint64_t offset, Slot* slot) {
  const Piece piece{range, offset, slot->used};
  writer.write({&piece, 1}, slot);
}

// As who snapshots gets one: after those who wait.
inline Slot* next_slot(StagingPool& pool) {
  for (;;) {
    const auto slot = pool.acquire(std::chrono::nanoseconds(0));
    if (slot.ok()) return slot.value();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Takes one checkpoint from the cut to the commit; slots are smaller than ranges. With a parent it
// is an increment in which all has changed.
inline Status take_checkpoint(LocalBackend& backend, const Job& job, uint64_t epoch,
                              JournalWriter* journal, uint64_t parent = 0) {
  Manifest manifest = manifest_of(job, epoch);
  if (parent != 0) {
    manifest.parent = parent;
    manifest.chain = 1;
    for (SavedRange& range : manifest.ranges) range.fresh = true;
  }
  if (journal != nullptr) {
    journal->append(journal_bytes(epoch), 4);
    manifest.journal.push_back(journal->seal());
  }
  StagingPool& pool = backend.pool();
  auto writer = backend.begin(job.name, epoch, job.rank, job.run, job.segment_bytes);
  if (!writer.ok()) return writer.status();
  for (size_t range = 0; range < job.ranges.size(); ++range) {
    const auto bytes = memory_at(epoch, range, job.ranges[range]);
    for (size_t at = 0; at < bytes.size(); at += pool.slot_bytes()) {
      Slot* const slot = next_slot(pool);
      slot->used = std::min(pool.slot_bytes(), bytes.size() - at);
      std::memcpy(slot->data, bytes.data() + at, slot->used);
      write_slot(*writer.value(), static_cast<uint32_t>(range), at, slot);
    }
  }
  writer.value()->finish(std::move(manifest), journal);
  return writer.value()->wait();
}

// As the backend prunes a job after a commit. `own`: the newest complete checkpoint is the live
// run's.
inline Status prune_folder(FileSystem& files, const std::string& job_folder, uint32_t keep,
                           bool own = true) {
  PruneRequest request;
  request.job_folder = job_folder;
  request.job_folder_name = job_folder.substr(job_folder.rfind('/') + 1);
  request.keep = keep;
  request.is_of_this_run = [own](uint64_t) { return own; };
  return prune_job(files, request);
}

// Ok where every range of every rank comes back as it was.
inline Status restore(Store& store, const CheckpointInfo& info, const std::vector<size_t>& ranges) {
  for (const Manifest& manifest : info.ranks) {
    std::vector<std::vector<std::byte>> memory;
    for (const size_t size : ranges) memory.emplace_back(size);
    for (const Extent& extent : manifest.extents) {
      const auto to = std::span(memory.at(extent.range)).subspan(extent.offset, extent.size);
      if (Status read = store.read(info, manifest, extent, to); !read.ok()) return read;
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (memory[i] != memory_at(info.epoch, i, ranges[i])) {
        return {Code::kDamaged, "range " + std::to_string(i) + " has other bytes"};
      }
    }
  }
  return {};
}

// Expects a message that is fit for a user: one line that names its subject.
inline void expect_message(const Status& status, const std::string& part) {
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

}  // namespace gpusnap::test
