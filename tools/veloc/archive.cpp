// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/archive.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tiers/part_reader.h"
#include "tiers/prune.h"
#include "tools/veloc/bounce_buffers.h"

namespace gpusnap::veloc {

namespace {

// Plain host memory; the reader's own buffers, and those that are being written.
constexpr uint32_t kBuffers = 4;

Result<Archive::Written> written_as(const Manifest& manifest) {
  Result<Layout> layout = layout_of(manifest);
  if (!layout.ok()) return layout.status();
  return Archive::Written{std::move(layout.value()), id_of(manifest)};
}

}  // namespace

Archive::Archive(FileSystem& files, Clock& clock, Options options)
    : files_(files),
      options_(std::move(options)),
      compression_(options_.compression, clock),
      persistent_(
          std::make_unique<PartFolder>(files, options_.persistent, options_.owner, compression_)) {
  if (options_.scratch.empty()) return;
  scratch_ = std::make_unique<PartFolder>(files, options_.scratch, options_.owner, compression_);
}

Status Archive::start() {
  if (scratch_ == nullptr) return {};
  Result<Join> started = start_thread({}, "history", [this] { run(); });
  if (!started.ok()) return started.status();
  thread_ = std::move(started.value());
  return {};
}

Archive::~Archive() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_) thread_();
}

// ---- Writing

Status Archive::write(const Name& name, const Written& what,
                      const std::function<Status(PartWriter&)>& fill) {
  if (Status claimed = claim(name.text); !claimed.ok()) return claimed;
  if (has(*persistent_, name, what)) return {};
  const auto is_on_scratch = [&] {
    return has(*scratch_, name, what) || write_to(*scratch_, name, what, fill).ok();
  };
  if (scratch_ != nullptr && is_on_scratch()) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(name);
    changed_.notify_all();
    return {};
  }
  if (Status written = write_to(*persistent_, name, what, fill); !written.ok()) return written;
  return prune(name);
}

// A program that is replayed makes the writes from before the cut again, with the same bytes.
bool Archive::has(const PartFolder& folder, const Name& name, const Written& what) {
  const Result<Manifest> manifest = folder.find(name);
  return manifest.ok() && id_of(manifest.value()) == what.id;
}

Status Archive::write_to(PartFolder& folder, const Name& name, const Written& what,
                         const std::function<Status(PartWriter&)>& fill) {
  Result<std::unique_ptr<PartWriter>> writer = folder.begin(name, what.id);
  if (!writer.ok()) return writer.status();
  if (Status filled = fill(*writer.value()); !filled.ok()) return filled;
  return writer.value()->commit(what.layout);
}

// Two runs that write the same versions would destroy each other's.
Status Archive::claim(const std::string& name) {
  if (options_.owner.rank != 0) return {};
  const std::lock_guard lock(mutex_);
  if (locks_.contains(name)) return {};
  const std::string folder = options_.persistent + "/" + sanitise_job(name);
  if (Status made = files_.make_folder(folder); !made.ok()) return made;
  Result<std::unique_ptr<FileLock>> lock_of_name = files_.lock(folder + "/lock");
  if (lock_of_name.status().code() == Code::kBusy) {
    return {Code::kBusy, "another run writes checkpoints of that name to " + folder +
                             ": wait for its end, or use another persistent folder"};
  }
  if (!lock_of_name.ok()) return lock_of_name.status();
  locks_[name] = std::move(lock_of_name.value());
  return {};
}

// ---- To the persistent folder

void Archive::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    const Name name = queue_.front();
    lock.unlock();
    Status copied = copy_to_persistent(name);
    if (copied.ok()) copied = prune(name);
    lock.lock();
    if (failure_.ok()) failure_ = std::move(copied);
    queue_.pop_front();
    changed_.notify_all();
  }
}

Status Archive::copy_to_persistent(const Name& name) {
  const Result<Manifest> manifest = scratch_->find(name);
  if (!manifest.ok()) return manifest.status();
  const Result<Written> what = written_as(manifest.value());
  if (!what.ok()) return what.status();
  const std::unique_ptr<Memory> host = host_memory();
  Result<std::unique_ptr<BounceBuffers>> writing = BounceBuffers::create(*host);
  if (!writing.ok()) return writing.status();
  return write_to(*persistent_, name, what.value(), [&](PartWriter& writer) {
    PlainReadBuffers reading(kBuffers);
    return scratch_->read(name, manifest.value(), reading,
                          [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
                            for (const ReadPiece& piece : pieces) {
                              std::byte* const buffer = writing.value()->take_when_free();
                              std::memcpy(buffer, bytes.data() + piece.at, piece.size);
                              writer.add(
                                  {piece.range, piece.offset, piece.size}, {buffer, piece.size},
                                  [&to = *writing.value(), buffer] { to.give_back(buffer); });
                            }
                            return Status();
                          });
  });
}

// Rank 0 removes complete checkpoints for all ranks: another rank may not have the newest ones yet.
Status Archive::prune(const Name& name) {
  if (options_.max_versions == 0) return {};
  if (scratch_ != nullptr) {
    uint32_t kept = 0;
    for (const uint64_t version : scratch_->versions(name.text)) {
      const Name each = {name.text, version};
      if (!persistent_->find(each).ok() || kept++ < options_.max_versions) continue;
      if (Status removed = scratch_->remove(each); !removed.ok()) return removed;
    }
  }
  if (options_.owner.rank != 0) return {};
  PruneRequest request;
  request.job_folder = options_.persistent + "/" + sanitise_job(name.text);
  request.job_folder_name = sanitise_job(name.text);
  request.keep = options_.max_versions;
  return prune_job(files_, request);
}

bool Archive::is_drained() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

Status Archive::wait_until_drained() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
  return std::exchange(failure_, {});
}

// ---- Reading

// The faster one first.
std::vector<PartFolder*> Archive::folders() const {
  if (scratch_ == nullptr) return {persistent_.get()};
  return {scratch_.get(), persistent_.get()};
}

Status Archive::read(const Name& name, const Written& what, ReadBuffers& buffers,
                     const TakePieces& take) {
  Status failed(Code::kNotFound, name.id() + " is in no folder any more");
  for (PartFolder* folder : folders()) {
    const Result<Manifest> manifest = folder->find(name);
    if (manifest.status().code() == Code::kNotFound) continue;
    if (!manifest.ok()) {
      failed = manifest.status();
    } else if (id_of(manifest.value()) == what.id) {
      failed = folder->read(name, manifest.value(), buffers, take);
      if (failed.ok()) return failed;
    }
  }
  return failed;
}

Result<Archive::Written> Archive::find(const Name& name) const {
  const Result<Manifest> first = persistent_->find(name, 0);
  Status failed(Code::kNotFound, "there is no " + name.id() + " in " + options_.persistent);
  for (const PartFolder* folder : folders()) {
    const Result<Manifest> manifest = folder->find(name);
    if (manifest.status().code() == Code::kNotFound) continue;
    Result<Written> what = manifest.ok() ? written_as(manifest.value()) : manifest.status();
    if (!what.ok()) {
      failed = what.status();
    } else if (first.ok() && first->run != manifest->run) {
      failed = {Code::kDamaged, name.id() + " was written by different runs on different ranks"};
    } else {
      return what;
    }
  }
  return failed;
}

std::vector<uint64_t> Archive::versions(const std::string& name) const {
  std::set<uint64_t, std::greater<>> versions;
  for (const PartFolder* folder : folders()) {
    for (const uint64_t version : folder->versions(name)) versions.insert(version);
  }
  return {versions.begin(), versions.end()};
}

}  // namespace gpusnap::veloc
