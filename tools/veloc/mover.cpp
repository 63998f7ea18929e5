// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/mover.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gpusnap::veloc {

using history::kApplication;

namespace {

Status copy_bytes(Copier& copier, const MemoryPlace& to, const MemoryPlace& from, uint64_t bytes) {
  if (!to.is_on_device && !from.is_on_device) {
    std::memcpy(to.memory, from.memory, bytes);
    return {};
  }
  const std::byte* const host = to.is_on_device ? from.memory : to.memory;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t into_step = reinterpret_cast<uintptr_t>(host + done) % Mover::kPinStep;
    const uint64_t part = std::min(bytes - done, Mover::kPinStep - into_step);
    if (Status copied = copier.copy(to.memory + done, from.memory + done, part); !copied.ok()) {
      return copied;
    }
    done += part;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Mover>> Mover::create(FileSystem& files, Memory& memory,
                                             std::vector<Area> caches, Archive& archive) {
  std::unique_ptr<Mover> mover(new Mover(files, std::move(caches), archive));
  for (size_t i = 0; i < history::Planner::lanes(mover->caches_.size()); ++i) {
    Result<std::unique_ptr<Copier>> copier = memory.copier();
    if (!copier.ok()) return copier.status();
    Result<std::unique_ptr<BounceBuffers>> buffers = BounceBuffers::create(memory);
    if (!buffers.ok()) return buffers.status();
    mover->lanes_.push_back({std::move(copier.value()), std::move(buffers.value())});
  }
  return mover;
}

void Mover::describe(Version version, Checkpoint checkpoint) {
  const std::lock_guard lock(mutex_);
  checkpoints_[version] = std::make_shared<const Checkpoint>(std::move(checkpoint));
}

std::shared_ptr<const Mover::Checkpoint> Mover::checkpoint(Version version) const {
  const std::lock_guard lock(mutex_);
  return checkpoints_.at(version);
}

MemoryPlace Mover::place(int tier, uint64_t cache_offset, const Layout& layout,
                         size_t region) const {
  if (!layout.regions()[region].file.empty()) return {};
  if (tier == kApplication) return program_[region];
  const Area& area = caches_[static_cast<size_t>(tier)];
  return {area.memory + cache_offset + layout.offset(region), area.is_on_device};
}

Moved Mover::move(const Transfer& transfer) {
  Lane& lane = lanes_[transfer.lane];
  const std::shared_ptr<const Checkpoint> moving = checkpoint(transfer.version);
  if (transfer.from == kApplication || transfer.to == kApplication) {
    Status follows = lane.copier->follow_program();
    if (!follows.ok()) return {Outcome::kSourceFailed, std::move(follows)};
  }
  if (is_files(transfer.to)) return write_files(transfer, *moving, lane);
  if (is_files(transfer.from)) return read_files(transfer, *moving, lane);
  return copy(transfer, *moving, lane);
}

Moved Mover::copy(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane) {
  const Layout& layout = checkpoint.layout();
  Status copied;
  for (size_t i = 0; i < layout.regions().size() && copied.ok(); ++i) {
    const MemoryPlace to = place(transfer.to, transfer.to_offset, layout, i);
    const MemoryPlace from = place(transfer.from, transfer.from_offset, layout, i);
    if (to.memory == nullptr) continue;
    copied = copy_bytes(*lane.copier, to, from, layout.regions()[i].bytes);
  }
  const Status finished = lane.copier->finish();
  if (copied.ok()) copied = finished;
  return {copied.ok() ? Outcome::kDone : Outcome::kSourceFailed, std::move(copied)};
}

// ---- Files

Moved Mover::write_files(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane) {
  const auto& regions = checkpoint.layout().regions();
  Status source;
  Status written = archive_.write(checkpoint.name, checkpoint.what, [&](PartWriter& writer) {
    for (size_t i = 0; i < regions.size() && source.ok(); ++i) {
      const auto region = static_cast<uint32_t>(i);
      const MemoryPlace from = place(transfer.from, transfer.from_offset, checkpoint.layout(), i);
      source = regions[i].file.empty()
                   ? write_region(writer, region, regions[i].bytes, from, lane)
                   : write_file(writer, region, checkpoint.files.at(regions[i].file), lane);
    }
    return source;
  });
  if (!source.ok()) return {Outcome::kSourceFailed, std::move(source)};
  if (!written.ok()) return {Outcome::kTargetFailed, std::move(written)};
  for (const auto& [name, path] : checkpoint.files) (void)files_.remove(path);
  return {};
}

// Host memory is written from where it is; it stays until the transfer ends.
Status Mover::write_region(PartWriter& writer, uint32_t region, uint64_t bytes,
                           const MemoryPlace& from, Lane& lane) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min<uint64_t>(bytes - done, PartWriter::kMostBytes);
    const Piece piece = {region, done, part};
    if (from.is_on_device) {
      std::byte* const buffer = lane.buffers->take_when_free();
      Status copied = lane.copier->copy(buffer, from.memory + done, part);
      if (copied.ok()) copied = lane.copier->finish();
      if (!copied.ok()) {
        lane.buffers->give_back(buffer);
        return copied;
      }
      writer.add(piece, {buffer, part},
                 [&buffers = *lane.buffers, buffer] { buffers.give_back(buffer); });
    } else {
      writer.add(piece, {from.memory + done, part}, [] {});
    }
    done += part;
  }
  return {};
}

Status Mover::write_file(PartWriter& writer, uint32_t region, const std::string& path, Lane& lane) {
  const Result<std::unique_ptr<ReadableFile>> file = files_.open(path);
  if (!file.ok()) return file.status();
  const uint64_t bytes = file.value()->size();
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min<uint64_t>(bytes - done, PartWriter::kMostBytes);
    std::byte* const buffer = lane.buffers->take_when_free();
    if (Status read = file.value()->read(done, {buffer, part}); !read.ok()) {
      lane.buffers->give_back(buffer);
      return read;
    }
    writer.add({region, done, part}, {buffer, part},
               [&buffers = *lane.buffers, buffer] { buffers.give_back(buffer); });
    done += part;
  }
  return {};
}

Moved Mover::read_files(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane) {
  const Layout& layout = checkpoint.layout();
  Status read = archive_.read(
      checkpoint.name, checkpoint.what, *lane.buffers,
      [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) {
          MemoryPlace to = place(transfer.to, transfer.to_offset, layout, piece.range);
          if (to.memory == nullptr) continue;
          to.memory += piece.offset;
          const MemoryPlace from = {const_cast<std::byte*>(bytes.data()) + piece.at, false};
          if (Status copied = copy_bytes(*lane.copier, to, from, piece.size); !copied.ok()) {
            return copied;
          }
        }
        return lane.copier->finish();
      });
  return {read.ok() ? Outcome::kDone : Outcome::kSourceFailed, std::move(read)};
}

}  // namespace gpusnap::veloc
