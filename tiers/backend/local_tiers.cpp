#include "tiers/backend/local_tiers.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "tiers/backend/backend.h"
#include "tiers/backend/block_log.h"
#include "tiers/backend/folders.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/device.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

uint64_t free_bytes(const std::string& folder) {
  struct statvfs about {};
  return ::statvfs(folder.c_str(), &about) == 0 ? uint64_t{about.f_bavail} * about.f_frsize : 0;
}

Result<Calibration> calibrated(FileSystem& files, const std::string& folder) {
  const Result<DeviceIdentity> device = identify_device(folder);
  if (!device.ok()) return device.status();
  return load_calibration(files, calibration_folder(folder), device.value(), std::time(nullptr),
                          kMostCalibrationAge_s);
}

ThroughputModel uncalibrated() {
  const ThroughputSample sample{1, kUncalibratedBytesPerSecond};
  return ThroughputModel::fit({&sample, 1}).value();
}

// `unlisted` becomes why it could not be listed, unless it is not there.
std::vector<std::string> folders_in(FileSystem& files, const std::string& folder,
                                    Status& unlisted) {
  std::vector<std::string> found;
  const auto entries = files.entries(folder);
  if (!entries.ok()) {
    if (entries.status().code() != Code::kNotFound) unlisted = entries.status();
    return found;
  }
  for (const FolderEntry& entry : entries.value()) {
    if (entry.is_folder) found.push_back(folder + "/" + entry.name);
  }
  return found;
}

std::vector<std::string> folders_in(FileSystem& files, const std::string& folder) {
  Status unlisted;
  return folders_in(files, folder, unlisted);
}

bool is_lock(const FolderEntry& entry) {
  return entry.name == "lock" && !entry.is_folder;
}

// In all of a user's folders there; spills do not count, they are few.
uint64_t bytes_of_chunks(FileSystem& files, const std::string& root) {
  uint64_t bytes = 0;
  std::vector<std::string> folders = folders_in(files, root);
  for (int level = 0; level < 3; ++level) {
    std::vector<std::string> below;
    for (const std::string& folder : folders) {
      const std::vector<std::string> inner = folders_in(files, folder);
      below.insert(below.end(), inner.begin(), inner.end());
    }
    folders = std::move(below);
  }
  for (const std::string& folder : folders) {
    const auto entries = files.entries(folder);
    if (!entries.ok()) continue;
    for (const FolderEntry& entry : entries.value()) {
      if (parse_chunk_name(entry.name)) bytes += entry.size;
    }
  }
  return bytes;
}

constexpr const char* kSpills = "/spills";

std::string spill_prefix(const std::string& journal) {
  return store_key(journal) + "-";
}

bool is_spill(const FolderEntry& entry) {
  return !entry.is_folder && entry.name.ends_with(".spill");
}

bool is_thread_of_a_program(const std::string& backend) {
  return backend.substr(backend.rfind('/') + 1).starts_with("thread-");
}

}  // namespace

std::string store_key(const std::string& store) {
  char key[17];
  std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(checksum(store)));
  return key;
}

uint64_t unused_on(FileSystem& files, const SsdFolder& folder) {
  // Somebody else may use the device, too.
  if (folder.capacity == 0) return free_bytes(folder.path) / 10 * 9;
  const uint64_t used = bytes_of_chunks(files, user_folder(folder.path));
  return folder.capacity - std::min(folder.capacity, used);
}

// Numbers begin with the time: an earlier backend of the same name has used others.
LocalTiers::LocalTiers(FileSystem& files)
    : files_(files),
      next_spill_(
          static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())),
      cache_(files) {}

std::unique_ptr<LocalTiers> LocalTiers::open(FileSystem& files,
                                             const std::vector<SsdFolder>& folders,
                                             const std::string& backend, PlacementPolicy policy,
                                             uint64_t chunk_bytes,
                                             const std::function<void(const std::string&)>& warn) {
  std::unique_ptr<LocalTiers> tiers(new LocalTiers(files));
  for (const SsdFolder& folder : folders) tiers->add(folder, backend, policy, chunk_bytes, warn);
  return tiers;
}

bool LocalTiers::add(const SsdFolder& folder, const std::string& backend, PlacementPolicy policy,
                     uint64_t chunk_bytes, const std::function<void(const std::string&)>& warn) {
  const std::string root = user_folder(folder.path);
  const std::string own = root + "/" + backend;
  if (const Status usable = make_own(own); !usable.ok()) {
    warn("cannot use the local tier " + folder.path + ": " + usable.message());
    return false;
  }
  // Somebody else may use the device, too. Copies that are there make room.
  const uint64_t bytes = folder.capacity != 0
                             ? folder.capacity
                             : (free_bytes(own) + bytes_of_chunks(files_, root)) / 10 * 9;
  if (bytes < chunk_bytes) {
    warn("cannot use the local tier " + folder.path + ": it has no room for a chunk");
    return false;
  }
  const auto measured = calibrated(files_, folder.path);
  if (!measured.ok() && policy == PlacementPolicy::kHybridOpt) {
    warn("how fast " + folder.path + " is has to be guessed: " + measured.status().message());
  }
  if (measured.ok()) take_calibration(folder, measured.value());
  const ThroughputModel model =
      measured.ok() ? ThroughputModel::fit(measured->samples).value() : uncalibrated();
  tiers_.push_back({folder.path, bytes / chunk_bytes, model});
  roots_.push_back(root);
  backends_.push_back(own);
  retry_at_.emplace_back();
  told_.push_back(false);
  cache_.add_tier(root, bytes, chunk_bytes + kSegmentHeaderBytes);
  return true;
}

void LocalTiers::take_calibration(const SsdFolder& folder, const Calibration& calibration) {
  if (!calibration_folder_.empty()) return;
  calibration_folder_ = calibration_folder(folder.path);
  calibrated_ = calibration.device;
  memory_bytes_per_second_ = calibration.memory_bytes_per_second;
  const auto kept = load_flush_record(files_, calibration_folder_, calibrated_, std::time(nullptr),
                                      kMostCalibrationAge_s);
  // A record that cannot be used is as if it were not there: the first flushes tell.
  if (kept.ok()) earlier_flushes_ = kept.value();
}

Status LocalTiers::keep_flushes(double bytes_per_second, uint32_t flushes) {
  if (calibration_folder_.empty() || !(bytes_per_second >= 1)) return {};
  if (flushes == 0 && earlier_flushes_) flushes = earlier_flushes_->flushes;
  return save_flush_record(
      files_, calibration_folder_,
      {calibrated_, std::time(nullptr), std::round(bytes_per_second), flushes});
}

// One that served under this name before may still be about to let go of it.
Status LocalTiers::make_own(const std::string& folder) {
  constexpr auto kLongest = std::chrono::seconds(3);
  constexpr auto kBetweenTries = std::chrono::milliseconds(10);
  const std::string path = folder + "/lock";
  const auto begun = std::chrono::steady_clock::now();
  const auto try_lock = [&] {
    return in_folder_of(files_, path, [&] { return files_.lock(path); });
  };
  auto lock = try_lock();
  while (lock.status().code() == Code::kBusy &&
         std::chrono::steady_clock::now() - begun < kLongest) {
    std::this_thread::sleep_for(kBetweenTries);
    lock = try_lock();
  }
  if (lock.ok()) locks_.push_back({folder, std::move(lock.value())});
  return lock.status();
}

// Backends' folders in which nothing is left.
LocalTiers::~LocalTiers() {
  constexpr int kLevels = 2;  // the backend's and the user's
  for (Locked& locked : locks_) {
    const auto entries = files_.entries(locked.folder);
    if (!entries.ok() || !std::ranges::all_of(entries.value(), is_lock)) continue;
    (void)files_.remove(locked.folder + "/lock");
    locked.lock.reset();
    remove_empty_folders(files_, locked.folder, kLevels);
  }
}

std::optional<size_t> LocalTiers::tier_of(const std::string& path) const {
  for (size_t i = 0; i < roots_.size(); ++i) {
    if (path.starts_with(roots_[i] + "/")) return i;
  }
  return std::nullopt;
}

bool LocalTiers::fail(size_t tier, Time now) {
  constexpr auto kRetry = std::chrono::seconds(30);
  retry_at_[tier] = now + kRetry;
  const bool told = told_[tier];
  told_[tier] = true;
  return !told;
}

std::vector<size_t> LocalTiers::recovered(Time now) {
  std::vector<size_t> found;
  for (size_t i = 0; i < retry_at_.size(); ++i) {
    if (!retry_at_[i] || *retry_at_[i] > now) continue;
    retry_at_[i].reset();
    found.push_back(i);
  }
  return found;
}

std::vector<std::string> LocalTiers::folders_for(const CheckpointText& part) const {
  std::vector<std::string> folders;
  for (const std::string& backend : backends_) {
    folders.push_back(backend + "/" + store_key(part.store) + "/" + sanitise_job(part.job) + "/" +
                      epoch_folder(part.epoch));
  }
  return folders;
}

LocalTiers::LeftBehind LocalTiers::leftovers() {
  LeftBehind found;
  for (const std::string& root : roots_) {
    for (const std::string& backend : folders_in(files_, root, found.unlisted)) {
      if (holds(backend) || take(backend)) {
        look_into(backend, found);
        remove_empty_below(backend);
      } else {
        // Without a lock, because its process was killed before it had made one or after it had
        // removed it. Does nothing to a folder that holds anything.
        (void)files_.remove_folder(backend);
      }
    }
  }
  return found;
}

bool LocalTiers::holds(const std::string& backend) const {
  return std::ranges::find(locks_, backend, &Locked::folder) != locks_.end();
}

// Whether it is the folder of a backend that does not run.
bool LocalTiers::take(const std::string& backend) {
  const auto entries = files_.entries(backend);
  if (!entries.ok() || std::ranges::none_of(entries.value(), is_lock)) return false;
  auto lock = files_.lock(backend + "/lock");
  if (lock.ok()) locks_.push_back({backend, std::move(lock.value())});
  return lock.ok();
}

void LocalTiers::look_into(const std::string& backend, LeftBehind& found) const {
  for (const std::string& store : folders_in(files_, backend, found.unlisted)) {
    for (const std::string& job : folders_in(files_, store, found.unlisted)) {
      for (const std::string& epoch : folders_in(files_, job, found.unlisted)) {
        if (parse_epoch_folder(epoch.substr(epoch.rfind('/') + 1))) {
          look_at_epoch(backend, epoch, found);
        }
      }
    }
  }
}

// A process that was killed between two steps can leave folders without files. One that is about to
// make a file makes the folder again (in_folder_of).
void LocalTiers::remove_empty_below(const std::string& backend) {
  for (const std::string& store : folders_in(files_, backend)) {
    for (const std::string& job : folders_in(files_, store)) {
      for (const std::string& epoch : folders_in(files_, job)) (void)files_.remove_folder(epoch);
      (void)files_.remove_folder(job);
    }
    (void)files_.remove_folder(store);
  }
}

// The folder of the same epoch on the other devices.
std::vector<std::string> LocalTiers::same_elsewhere(const std::string& backend,
                                                    const std::string& folder) const {
  const std::string name = backend.substr(backend.rfind('/'));
  std::vector<std::string> folders;
  for (const std::string& root : roots_) {
    const std::string other = root + name + folder.substr(backend.size());
    if (other != folder) folders.push_back(other);
  }
  return folders;
}

// Logs lie on the first tier that there was; chunks without one hold nothing.
void LocalTiers::look_at_epoch(const std::string& backend, const std::string& folder,
                               LeftBehind& found) const {
  using Part = std::pair<uint32_t, std::string>;
  std::vector<std::string> folders{folder};
  for (const std::string& other : same_elsewhere(backend, folder)) folders.push_back(other);
  struct Log {
    BlockLog log;
    Status readable;
  };
  std::map<Part, Log> logs;
  std::set<Part> without;                                     // whose chunks are here
  std::set<Part> with;                                        // whose log is elsewhere
  std::map<Part, std::map<uint32_t, Leftover::Copy>> chunks;  // by number
  Status unlisted;                                            // may hold the log of any of them
  for (const std::string& there : folders) {
    const auto entries = files_.entries(there);
    if (!entries.ok()) {
      if (entries.status().code() != Code::kNotFound) unlisted = entries.status();
      continue;
    }
    for (const FolderEntry& entry : entries.value()) {
      const std::string path = there + "/" + entry.name;
      if (entry.is_folder) continue;
      if (const auto log = parse_block_log_name(entry.name)) {
        const Part part{log->rank, log->run};
        if (there != folder) {
          with.insert(part);
        } else if (Status read = read_block_log(files_, path, logs[part].log); !read.ok()) {
          logs[part] = {{}, std::move(read)};
        }
      } else if (const auto chunk = parse_chunk_name(entry.name)) {
        const Part part{chunk->rank, chunk->run};
        if (there == folder) without.insert(part);
        chunks[part][chunk->number] = {path, entry.size, entry.modified_unix_ns};
      }
    }
  }
  for (const auto& [part, read] : logs) {
    const BlockLog& log = read.log;
    Leftover leftover{part.first, part.second, folders, {}, false, log.committed, {}, {}};
    auto text = parse_checkpoint(log.text);
    const Status& readable = read.readable.ok() ? text.status() : read.readable;
    const bool is_lost = readable.code() == Code::kDamaged || readable.code() == Code::kInvalid ||
                         readable.code() == Code::kNotFound;
    if (!is_lost) leftover.readable = readable;
    if (text.ok()) leftover.text = std::move(text.value());
    leftover.sealed = leftover.text && log.sealed;
    for (const MovedChunk& moved : log.moved) {
      const auto copy = chunks[part].find(moved.chunk);
      if (copy != chunks[part].end()) leftover.copies.push_back(copy->second);
    }
    found.parts.push_back(std::move(leftover));
  }
  for (const Part& part : without) {
    if (logs.count(part) + with.count(part) > 0) continue;
    found.parts.push_back({part.first, part.second, folders, {}, false, false, unlisted, {}});
  }
}

void LocalTiers::remove(const Leftover& leftover) {
  (void)remove_local_files(files_, leftover.folders, leftover.rank, leftover.run);
}

std::string LocalTiers::new_spill(size_t tier, const std::string& journal) {
  return backends_.at(tier) + kSpills + "/" + spill_prefix(journal) +
         std::to_string(next_spill_.fetch_add(1)) + ".spill";
}

Result<std::vector<std::string>> LocalTiers::spills_of(const std::string& journal) const {
  std::vector<std::string> found;
  for (const std::string& backend : backends_) {
    const auto entries = files_.entries(backend + kSpills);
    if (entries.status().code() == Code::kNotFound) continue;
    if (!entries.ok()) return entries.status();
    for (const FolderEntry& entry : entries.value()) {
      if (is_spill(entry) && entry.name.starts_with(spill_prefix(journal))) {
        found.push_back(backend + kSpills + "/" + entry.name);
      }
    }
  }
  return found;
}

void LocalTiers::remove_spills_but_of(const std::vector<std::string>& journals) {
  for (const Locked& locked : locks_) {
    const bool is_own = std::ranges::find(backends_, locked.folder) != backends_.end();
    // Another backend may follow one that was a process.
    if (!is_own && !is_thread_of_a_program(locked.folder)) continue;
    const std::string folder = locked.folder + kSpills;
    const auto entries = files_.entries(folder);
    if (!entries.ok()) continue;
    for (const FolderEntry& entry : entries.value()) {
      const bool is_kept = is_own && std::ranges::any_of(journals, [&](const std::string& journal) {
                             return entry.name.starts_with(spill_prefix(journal));
                           });
      if (is_spill(entry) && !is_kept) (void)files_.remove(folder + "/" + entry.name);
    }
    (void)files_.remove_folder(folder);
  }
}

bool LocalTiers::keep_copies(const Leftover& leftover) {
  if (!leftover.text || leftover.copies.empty()) return false;
  const CheckpointText& text = *leftover.text;
  const std::string job = sanitise_job(text.job);
  const std::string folder = text.store + "/" + job;
  const auto there = read_manifest(files_, folder, job, text.epoch, text.rank);
  const bool is_there = there.ok() ? there->manifest.run == text.run
                                   : leftover.committed && there.status().code() == Code::kIo;
  if (!is_there) return false;
  const ChunkOwner owner{folder, text.epoch, text.rank, text.run};
  for (const Leftover::Copy& copy : leftover.copies) {
    cache_.adopt(owner, leftover.folders, copy.path, copy.bytes);
  }
  return true;
}

}  // namespace gpusnap
