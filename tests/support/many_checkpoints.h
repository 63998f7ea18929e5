// SPDX-License-Identifier: Apache-2.0
//
// A store with as many checkpoints as a test wants, made without a backend: what is looked at is
// how it is listed and pruned.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/names.h"
#include "tiers/segment.h"
#include "tiers/status.h"

namespace gpusnap::test {

inline Status write_file(FileSystem& files, const std::string& path,
                         std::span<const std::byte> bytes) {
  const Result<std::unique_ptr<WritableFile>> file = files.create(path);
  return file.ok() ? file.value()->append(bytes) : file.status();
}

// `count` full checkpoints of one rank in `store`/demo, each with a segment and a journal of a run
// of its own.
inline Status make_checkpoints(FileSystem& files, const std::string& store, uint64_t count) {
  const std::string job = store + "/demo";
  const std::vector<std::byte> segment(kSegmentHeaderBytes + 4096), journal(64);
  for (uint64_t epoch = 1; epoch <= count; ++epoch) {
    Manifest manifest;
    manifest.job = "demo";
    manifest.epoch = epoch;
    manifest.run = "run" + std::to_string(epoch);
    manifest.cut_unix_ns = static_cast<int64_t>(epoch * 1'000'000'000);
    manifest.zone_bytes = 65536;
    SavedRange range;
    range.address = 65536;
    range.size = 4096;
    manifest.ranges.push_back(range);
    Extent extent;
    extent.size = 4096;
    extent.segment_offset = kSegmentHeaderBytes;
    manifest.extents.push_back(extent);
    manifest.segments.push_back({segment_name({0, manifest.run, 0}), segment.size()});
    manifest.journal.push_back({manifest.run + "-r0.journal", journal.size(), 64, 1});
    const std::string folder = job + "/" + epoch_folder(epoch);
    Status done = files.make_folder(folder);
    if (done.ok()) done = write_file(files, job + "/" + manifest.journal[0].file, journal);
    if (done.ok()) done = write_file(files, folder + "/" + manifest.segments[0].file, segment);
    if (done.ok()) done = write_file(files, folder + "/" + manifest_name(0), encode(manifest));
    if (!done.ok()) return done;
  }
  return {};
}

}  // namespace gpusnap::test
