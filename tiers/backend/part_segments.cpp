// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_segments.h"

#include <utility>

namespace gpusnap {

PartSegments::PartSegments(FileSystem& files, Setting setting, PartProgress& progress)
    : files_(files), setting_(std::move(setting)), progress_(progress) {}

Status PartSegments::start(uint32_t first_segment) {
  first_segment_ = first_segment;
  auto writer = start_writer(first_segment, setting_.options.workers);
  if (!writer.ok()) return writer.status();
  {
    const MutexLock lock(mutex_);
    writer_ = std::move(writer.value());
  }
  return progress_.status();  // abandon() may have come before there was a writer
}

// Chunks have their own workers and writes, so that they never wait for the store. The blocks of a
// chunk that fails go to segments in a range of numbers of their own.
Status PartSegments::start_for_chunks() {
  if (writers().size() > 1) return {};
  constexpr uint32_t kApart = 1U << 20;
  // Inside a program the number of threads is limited.
  const uint32_t workers = setting_.spawn ? 1 : setting_.options.workers;
  auto writer = start_writer(first_segment_ + kApart, workers);
  if (!writer.ok()) return writer.status();
  {
    const MutexLock lock(mutex_);
    for_chunks_ = std::move(writer.value());
  }
  return progress_.status();
}

SegmentStore& PartSegments::writer_for(const std::shared_ptr<PlacedFile>& chunk) {
  const MutexLock lock(mutex_);
  return chunk != nullptr && for_chunks_ ? *for_chunks_ : *writer_;
}

Status PartSegments::sync() {
  for (SegmentStore* const writer : writers()) {
    if (Status synced = writer->sync(); !synced.ok()) return synced;
  }
  return {};
}

void PartSegments::abandon() {
  for (SegmentStore* const writer : writers()) writer->abandon();
}

Status PartSegments::finish() {
  Status all;
  for (SegmentStore* const writer : writers()) {
    if (Status stored = writer->finish(); all.ok()) all = std::move(stored);
  }
  return all;
}

Result<SegmentStore::Place> PartSegments::take(uint64_t bytes) {
  return writers().front()->take(bytes);
}

void PartSegments::close() {
  writer_.reset();
  for_chunks_.reset();
}

std::vector<SegmentStore*> PartSegments::writers() const {
  const MutexLock lock(mutex_);
  std::vector<SegmentStore*> all;
  if (writer_) all.push_back(writer_.get());
  if (for_chunks_) all.push_back(for_chunks_.get());
  return all;
}

Result<std::unique_ptr<SegmentStore>> PartSegments::start_writer(uint32_t first_segment,
                                                                 uint32_t workers) {
  SegmentStore::Options options = setting_.options;
  options.workers = workers;
  options.first_segment = first_segment;
  options.on_failure = [this](const Status& why) { progress_.end(why); };
  return SegmentStore::start(files_, setting_.folder, setting_.identity, options,
                             *setting_.compression, setting_.spawn);
}

}  // namespace gpusnap
