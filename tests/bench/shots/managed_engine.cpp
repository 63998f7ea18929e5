// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/managed_engine.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gpusnap::shots {

namespace {

constexpr uint64_t kUnhinted = std::numeric_limits<uint64_t>::max();

}  // namespace

ManagedEngine::ManagedEngine(Clock& clock, Node& node, unsigned gpu, const Options& options)
    : clock_(clock),
      node_(node),
      gpu_(gpu),
      options_(options),
      device_(options.device_cache / kBlock),
      host_(options.host_cache / kBlock, options.pinning) {}

void ManagedEngine::write(Version version, uint64_t bytes, Done done) {
  const size_t blocks = blocks_of(bytes);
  if (blocks > std::min(device_.capacity(), host_.capacity())) return done(false);
  if (!checkpoints_.try_emplace(version, Checkpoint{.bytes = bytes, .blocks = blocks}).second) {
    fault_ = "managed memory has the version already";
  }
  done_ = std::move(done);
  writing_ = version;
  lacking_ = blocks;
  plan();
}

void ManagedEngine::restore(Version version, Done done) {
  if (!checkpoints_.contains(version)) return done(false);
  done_ = std::move(done);
  restoring_ = version;
  plan();
}

void ManagedEngine::when_flushed(Clock::Event then) {
  flushed_ = std::move(then);
  plan();
}

void ManagedEngine::hint(Version version) {
  ranks_[version] = hinted_;
  hints_[hinted_++] = version;
  plan();
}

void ManagedEngine::start_prefetching() {
  prefetches_ = true;
  plan();
}

bool ManagedEngine::is_on_device(Version version) const {
  const Checkpoint& checkpoint = checkpoints_.at(version);
  return !checkpoint.is_consumed && device_.resident(version) == checkpoint.blocks;
}

uint64_t ManagedEngine::peak(size_t cache) const {
  return (cache == 0 ? device_.peak() : host_.peak()) * kBlock;
}

void ManagedEngine::plan() {
  wants_room_ = wants_pages_ = false;
  plan_write();
  plan_restore();
  plan_migration_in();
  plan_migration_out();
  plan_read();
  plan_store();
  if (flushed_ && std::ranges::all_of(checkpoints_, &Checkpoint::is_stored, &Entry::second)) {
    std::exchange(flushed_, {})();
  }
}

void ManagedEngine::plan_write() {
  if (!writing_ || is_copying_) return;
  const Version version = *writing_;
  const size_t blocks = std::min(lacking_, device_.free());
  if (blocks != 0) {
    device_.reserve(blocks);
    device_.add({version, blocks});
    lacking_ -= blocks;
  }
  wants_room_ = lacking_ != 0;
  if (wants_room_) return;
  is_copying_ = true;
  node_.move(gpu_, Medium::kApplication, Medium::kDevice, checkpoints_.at(version).bytes,
             [this, version] {
               checkpoints_.at(version).is_written = true;
               writing_.reset();
               is_copying_ = false;
               plan();
               std::exchange(done_, {})(true);
             });
}

void ManagedEngine::plan_restore() {
  if (!restoring_ || is_copying_) return;
  const Version version = *restoring_;
  const Checkpoint& checkpoint = checkpoints_.at(version);
  if (device_.resident(version) != checkpoint.blocks) return;
  is_copying_ = true;
  node_.move(gpu_, Medium::kDevice, Medium::kApplication, checkpoint.bytes,
             [this, version] { consume(version); });
}

void ManagedEngine::consume(Version version) {
  Checkpoint& checkpoint = checkpoints_.at(version);
  checkpoint.is_consumed = true;
  if (std::exchange(checkpoint.is_claimed, false)) claimed_ -= checkpoint.blocks;
  if (const auto ranked = ranks_.find(version); ranked != ranks_.end()) {
    hints_.erase(ranked->second);
    ranks_.erase(ranked);
  }
  if (options_.moves_consumed || !need_not_be_kept(checkpoint)) {
    device_.prefer_host(version);
  } else {
    while (device_.resident(version) != 0) {
      device_.release(device_.take(version, checkpoint.blocks).blocks);
    }
    drop(checkpoint);
  }
  restoring_.reset();
  is_copying_ = false;
  plan();
  std::exchange(done_, {})(true);
}

// From the host to the device.
void ManagedEngine::plan_migration_in() {
  if (moves_in_) return;
  const std::optional<Version> next = next_in();
  if (!next) return;
  const Version version = *next;
  Checkpoint& checkpoint = checkpoints_.at(version);
  const size_t blocks = std::min({checkpoint.on_host, device_.free(), options_.batch});
  wants_room_ |= checkpoint.on_host != 0 && blocks == 0;
  if (blocks == 0) return;
  moves_in_ = true;
  device_.reserve(blocks);
  checkpoint.on_host -= blocks;
  checkpoint.source = std::max(checkpoint.source, Medium::kHost);
  node_.migrate(gpu_, Medium::kHost, Medium::kDevice,
                checkpoint.is_claimed ? Migration::kPrefetch : Migration::kFaults,
                bytes_of(checkpoint, blocks), [this, version, blocks] {
                  device_.add({version, blocks});
                  moves_in_ = false;
                  plan();
                });
}

std::optional<Version> ManagedEngine::next_in() {
  if (restoring_ && !is_copying_) {
    Checkpoint& checkpoint = checkpoints_.at(*restoring_);
    if (prefetches_ && ranks_.contains(*restoring_)) claim(*restoring_, checkpoint);
    if (device_.resident(*restoring_) != checkpoint.blocks) return restoring_;
  }
  return prefetches_ ? next_hinted_in() : std::nullopt;
}

std::optional<Version> ManagedEngine::next_hinted_in() {
  for (const auto& [rank, version] : hints_) {
    const auto found = checkpoints_.find(version);
    if (found == checkpoints_.end() || !found->second.is_written) return std::nullopt;
    Checkpoint& checkpoint = found->second;
    const bool has_room = claimed_ + checkpoint.blocks <= device_.capacity();
    if (!checkpoint.is_claimed && !has_room) return std::nullopt;
    claim(version, checkpoint);
    if (device_.resident(version) != checkpoint.blocks) return version;
  }
  return std::nullopt;
}

void ManagedEngine::claim(Version version, Checkpoint& checkpoint) {
  if (std::exchange(checkpoint.is_claimed, true)) return;
  claimed_ += checkpoint.blocks;
  device_.touch(version);
}

// From the device to the host: flushes, and evictions by the driver.
void ManagedEngine::plan_migration_out() {
  if (moves_out_) return;
  const std::optional<Version> next = next_out();
  if (!next) return;
  const Version version = *next;
  Checkpoint& checkpoint = checkpoints_.at(version);
  int64_t mapped_ns = 0;
  if (!checkpoint.has_pages) {
    wants_pages_ = !make_host_room(checkpoint.blocks, 0);
    if (wants_pages_) return;
    mapped_ns = host_.reserve(checkpoint.blocks);
    checkpoint.has_pages = true;
  }
  moves_out_ = true;
  if (std::exchange(checkpoint.is_claimed, false)) claimed_ -= checkpoint.blocks;
  const size_t blocks = device_.take(version, options_.batch).blocks;
  at(mapped_ns, [this, version, blocks] {
    node_.migrate(gpu_, Medium::kDevice, Medium::kHost, Migration::kPrefetch,
                  bytes_of(checkpoints_.at(version), blocks), [this, version, blocks] {
                    device_.release(blocks);
                    checkpoints_.at(version).on_host += blocks;
                    moves_out_ = false;
                    arrived_on_host(version);
                    plan();
                  });
  });
}

std::optional<Version> ManagedEngine::next_out() const {
  if (const auto advised = device_.next_advised()) return advised;
  const auto is_flushed_next = [this](const Entry& entry) {
    return !entry.second.is_stored && !is_kept(entry.first) && device_.resident(entry.first) != 0;
  };
  if (const auto flushed = last(is_flushed_next, options_.flushes_by_hints)) return flushed;
  if (!wants_room_) return std::nullopt;
  const auto oldest = device_.next_oldest([this](Version version) { return is_kept(version); });
  if (oldest || !restoring_) return oldest;
  // Only prefetches are left, and none of them is what the application waits for.
  return device_.next_oldest([this](Version version) { return version == restoring_; });
}

// From the drives to the host.
void ManagedEngine::plan_read() {
  if (reads_) return;
  const std::optional<Version> next = next_read();
  if (!next) return;
  const Version version = *next;
  Checkpoint& checkpoint = checkpoints_.at(version);
  if (!make_host_room(checkpoint.blocks, restoring_ == version ? 0 : rank(version) + 1)) return;
  reads_ = checkpoint.has_pages = true;
  at(host_.reserve(checkpoint.blocks), [this, version] {
    node_.move(gpu_, Medium::kDrives, Medium::kHost, checkpoints_.at(version).bytes,
               [this, version] {
                 Checkpoint& read = checkpoints_.at(version);
                 read.on_host = read.blocks;
                 read.source = Medium::kDrives;
                 reads_ = false;
                 plan();
               });
  });
}

std::optional<Version> ManagedEngine::next_read() const {
  if (restoring_ && is_only_stored(*restoring_, checkpoints_.at(*restoring_))) return restoring_;
  if (!prefetches_) return std::nullopt;
  for (const auto& [rank, version] : hints_) {
    const auto found = checkpoints_.find(version);
    if (found != checkpoints_.end() && is_only_stored(version, found->second)) return version;
  }
  return std::nullopt;
}

// From the host to the drives. Puts flushes off while a read runs, unless somebody waits for them.
void ManagedEngine::plan_store() {
  if (stores_ || (reads_ && !wants_pages_ && !flushed_)) return;
  const auto is_next = [this](const Entry& entry) {
    const Checkpoint& checkpoint = entry.second;
    return checkpoint.on_host == checkpoint.blocks && !need_not_be_kept(checkpoint);
  };
  const std::optional<Version> next = last(is_next, options_.flushes_by_hints);
  if (!next) return;
  const Version version = *next;
  stores_ = checkpoints_.at(version).is_storing = true;
  node_.move(gpu_, Medium::kHost, Medium::kDrives, checkpoints_.at(version).bytes, [this, version] {
    checkpoints_.at(version).is_stored = true;
    stores_ = checkpoints_.at(version).is_storing = false;
    arrived_on_host(version);
    plan();
  });
}

// A checkpoint that was read and need not be kept makes room at once.
void ManagedEngine::arrived_on_host(Version version) {
  Checkpoint& checkpoint = checkpoints_.at(version);
  if (!checkpoint.is_consumed || !need_not_be_kept(checkpoint) || checkpoint.is_storing) return;
  if (checkpoint.on_host == checkpoint.blocks) drop(checkpoint);
}

void ManagedEngine::drop(Checkpoint& checkpoint) {
  if (std::exchange(checkpoint.has_pages, false)) host_.release(checkpoint.blocks);
  checkpoint.on_host = 0;
}

bool ManagedEngine::make_host_room(size_t blocks, uint64_t least_rank) {
  const auto may_go = [this, least_rank](const Entry& entry) {
    const auto& [version, checkpoint] = entry;
    return need_not_be_kept(checkpoint) && !checkpoint.is_storing && !is_kept(version) &&
           checkpoint.on_host == checkpoint.blocks && rank(version) >= least_rank;
  };
  while (host_.free() < blocks) {
    const std::optional<Version> gone = last(may_go);
    if (!gone) return false;
    drop(checkpoints_.at(*gone));
  }
  return true;
}

void ManagedEngine::at(int64_t when_ns, Clock::Event event) {
  if (when_ns <= clock_.now_ns()) return event();
  clock_.at(when_ns, std::move(event));
}

std::optional<Version> ManagedEngine::last(const std::function<bool(const Entry&)>& may_go,
                                           bool by_hints) const {
  std::optional<Version> found;
  for (const Entry& entry : checkpoints_) {
    if (!may_go(entry)) continue;
    if (!found || (by_hints && rank(entry.first) > rank(*found))) found = entry.first;
  }
  return found;
}

uint64_t ManagedEngine::rank(Version version) const {
  const auto found = ranks_.find(version);
  return found == ranks_.end() ? kUnhinted : found->second;
}

bool ManagedEngine::is_kept(Version version) const {
  const Checkpoint& checkpoint = checkpoints_.at(version);
  return checkpoint.is_claimed || !checkpoint.is_written || restoring_ == version;
}

// The last tier holds it, or nobody will ask for it again.
bool ManagedEngine::need_not_be_kept(const Checkpoint& checkpoint) const {
  return checkpoint.is_stored || (checkpoint.is_consumed && options_.discards_consumed);
}

bool ManagedEngine::is_only_stored(Version version, const Checkpoint& checkpoint) const {
  return checkpoint.is_stored && !checkpoint.has_pages && device_.resident(version) == 0;
}

uint64_t ManagedEngine::bytes_of(const Checkpoint& checkpoint, size_t blocks) {
  return checkpoint.bytes * blocks / checkpoint.blocks;
}

}  // namespace gpusnap::shots
