// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/checkpoint_loader.h"

#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "interpose/services/ranks.h"
#include "interpose/services/text.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/load_progress.h"
#include "interpose/snapshot/slot_buffers.h"

namespace gpusnap {

uint64_t CheckpointLoader::find_variable(const SavedRange& saved) const {
  return model_.modules.find_global(saved.module, saved.name, saved.size,
                                    model_.contexts.with_number(saved.ordinal));
}

namespace {
// Our copies of arrays, and where we have mapped physical memory, are nobody else's business.
bool may_be_pointed_to(const SavedRange& saved) {
  return saved.kind != static_cast<uint8_t>(MemoryKind::kArray) &&
         saved.kind != static_cast<uint8_t>(MemoryKind::kPhysical);
}

std::string text_of(const SavedRange& saved) {
  if (saved.kind == static_cast<uint8_t>(MemoryKind::kArray)) {
    return "array number " + std::to_string(saved.ordinal);
  }
  if (saved.kind == static_cast<uint8_t>(MemoryKind::kPhysical)) {
    return "memory number " + std::to_string(saved.module) + " of cuMemCreate";
  }
  return saved.name.empty() ? "device memory " + range_text(saved.address, saved.size)
                            : "the variable " + saved.name;
}
}  // namespace

// Where each saved range is in this process, and which are at another address.
Status CheckpointLoader::find_addresses(std::span<const SavedRange> ranges, const Find& find,
                                        LoadedRanges& loaded) {
  for (const SavedRange& saved : ranges) {
    const bool variable = saved.kind == static_cast<uint8_t>(MemoryKind::kGlobal);
    const bool array = saved.kind == static_cast<uint8_t>(MemoryKind::kArray);
    const uint64_t address = variable ? find_variable(saved)
                             : array  ? model_.arrays.copy_of(saved.ordinal, saved.size)
                                      : find(saved);
    if (address == 0) {
      return {Code::kUnsupported,
              text_of(saved) + " of the checkpoint is not there in this process"};
    }
    if (address != saved.address && may_be_pointed_to(saved)) loaded.moved.push_back(&saved);
    loaded.addresses.push_back(address);
  }
  return {};
}

namespace {
// Refuses bytes of device memory of which a word points into one of the ranges.
Status expect_no_pointer(std::span<const std::byte> bytes,
                         const std::vector<const SavedRange*>& ranges) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    for (const SavedRange* range : ranges) {
      if (word - range->address >= range->size) continue;
      const std::string what =
          range->name.empty() ? "device memory" : "the variable " + range->name;
      return {Code::kUnsupported, what + " was at " + hex_text(range->address) +
                                      " and is elsewhere in this process, but device memory " +
                                      "holds its old address"};
    }
  }
  return {};
}
}  // namespace

Status CheckpointLoader::load(const CheckpointInfo& checkpoint, const Manifest& manifest,
                              std::vector<uint64_t>& addresses) {
  const auto repeated = [this](const SavedRange& saved) {
    if (saved.kind == static_cast<uint8_t>(MemoryKind::kPhysical)) {
      const PhysicalMemory* memory = model_.physical.numbered(saved.module);
      return memory != nullptr && memory->size == saved.size ? memory->address : 0;
    }
    const MemoryRange* range = model_.memory.at(saved.address);
    const bool is_it =
        range != nullptr && range->size == saved.size && range->kind == MemoryKind::kDevice;
    return is_it ? saved.address : 0;
  };
  return put_back(checkpoint, manifest, repeated, addresses);
}

Status CheckpointLoader::reload(const CheckpointInfo& checkpoint, const Manifest& manifest) {
  const auto known = model_.memory.by_identity();
  const auto alike = [&](const SavedRange& saved) {
    const auto found = known.find({saved.call_site, saved.ordinal});
    return found != known.end() && found->second->size == saved.size ? found->second->address : 0;
  };
  std::vector<uint64_t> addresses;
  return put_back(checkpoint, manifest, alike, addresses);
}

Status CheckpointLoader::put_back(const CheckpointInfo& checkpoint, const Manifest& manifest,
                                  const Find& find, std::vector<uint64_t>& addresses) {
  // Events that the replay made again may be on their way still.
  Status status = device_.drain();
  if (status.ok()) status = model_.modules.find_globals(model_.contexts.by_number(), model_.memory);
  if (status.ok()) status = model_.arrays.make_copies();
  if (status.ok()) status = model_.give_physical_contexts();
  if (!status.ok()) return status;
  std::unique_ptr<RestoreReader> reader = take_reader();
  if (reader == nullptr) reader = make_reader(checkpoint, manifest.rank);
  const Result<const Contents*> contents = reader->open();
  if (!contents.ok()) return contents.status();
  LoadedRanges loaded;
  status = find_addresses(contents.value()->chain.front().ranges, find, loaded);
  if (!status.ok()) return status;
  LoadProgress progress(manifest.bytes(), *reader);
  status =
      reader->read_all([&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) progress.add(piece.size);
        return load_pieces(pieces, loaded, bytes);
      });
  addresses = std::move(loaded.addresses);
  return status.ok() ? device_.copy_arrays(Arrays::Direction::kFromCopies) : status;
}

std::unique_ptr<RestoreReader> CheckpointLoader::make_reader(const CheckpointInfo& checkpoint,
                                                             uint32_t rank) {
  RestoreReader::Request request;
  request.checkpoint = checkpoint;
  request.rank = rank;
  request.ssd = run_.settings.tiers.ssd;
  request.shares = ranks_on_node(environ);
  request.run = run_.name;
  if (restored_.is_pending) {
    StagingMemory* const memory =
        run_.backend->outlives_process() ? &run_.backend->memory() : nullptr;
    request.locate = locate_rank(run_.settings, memory, *run_.store, checkpoint, rank);
  }
  request.spawn = [this](std::function<void()> body) {
    return run_.workers.spawn(std::move(body));
  };
  return std::make_unique<RestoreReader>(posix_file_system(), *run_.store, std::move(request),
                                         std::make_unique<SlotBuffers>(run_.backend->pool()));
}

void CheckpointLoader::read_ahead(const CheckpointInfo& checkpoint, uint32_t rank) {
  auto reader = make_reader(checkpoint, rank);
  reader->begin();
  const std::lock_guard lock(mutex_);
  reader_ = std::move(reader);
}

void CheckpointLoader::stop_reading() {
  const std::lock_guard lock(mutex_);
  if (reader_ != nullptr) reader_->stop();
}

std::unique_ptr<RestoreReader> CheckpointLoader::take_reader() {
  const std::lock_guard lock(mutex_);
  return std::move(reader_);
}

// `pieces`: of `bytes`, all of one range. A range at another address in this process may be loaded
// there, unless some word of device memory still points to the old place.
Status CheckpointLoader::load_pieces(std::span<const ReadPiece> pieces, const LoadedRanges& loaded,
                                     std::span<const std::byte> bytes) {
  for (const ReadPiece& piece : pieces) {
    if (loaded.moved.empty()) break;
    Status status = expect_no_pointer(bytes.subspan(piece.at, piece.size), loaded.moved);
    if (!status.ok()) return status;
  }
  const uint64_t address = loaded.addresses[pieces.front().range];
  const Driver& driver = model_.driver;
  const MemoryRange* range = model_.memory.find(address);
  CurrentContext current(driver, reinterpret_cast<CUcontext>(range->context));
  CUresult result = CUDA_SUCCESS;
  for (const ReadPiece& piece : pieces) {
    if (result != CUDA_SUCCESS) break;
    result = driver.cuMemcpyHtoDAsync_v2(address + piece.offset, bytes.data() + piece.at,
                                         piece.size, device_.stream());
  }
  // Also after a failure: the slot is read until then.
  const CUresult done = driver.cuStreamSynchronize(device_.stream());
  return driver_status(driver, ("loading " + range_text(address, range->size)).c_str(),
                       result == CUDA_SUCCESS ? done : result);
}

}  // namespace gpusnap
