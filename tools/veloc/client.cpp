// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/client.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <semaphore>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/clock.h"
#include "tiers/names.h"

namespace gpusnap::veloc {

namespace {

Status bad_name() {
  return {Code::kInvalid,
          "a checkpoint's name has letters, digits, '.', '_' and '-', not first a '.', and at most "
          "128 of them"};
}

Status wrong_order(const std::string& what) {
  return {Code::kInvalid, what};
}

Status write_and_wait(BulkFile& file, uint64_t offset, std::span<const std::byte> bytes) {
  std::binary_semaphore is_done(0);
  Status written;
  file.write(offset, bytes, [&](const Status& status) {
    written = status;
    is_done.release();
  });
  is_done.acquire();
  return written;
}

}  // namespace

// ---- Beginning and end

Result<std::unique_ptr<Client>> Client::create(const Config& config, std::unique_ptr<Ranks> ranks,
                                               const Surroundings& surroundings) {
  std::unique_ptr<Client> client(new Client(config, std::move(ranks), surroundings));
  if (Status agreed = client->agree_on_run(); !agreed.ok()) return agreed;
  Archive::Options options;
  options.scratch = config.scratch;
  options.persistent = config.persistent;
  options.max_versions = config.max_versions;
  options.compression = config.compression;
  options.owner = {client->ranks_->rank(), client->ranks_->ranks()};
  client->archive_ = std::make_unique<Archive>(surroundings.files, surroundings.clock, options);
  if (Status started = client->archive_->start(); !started.ok()) return started;
  return client;
}

Client::~Client() = default;

// Rank 0 draws it: not by a call that a replay repeats, since what a restored program writes after
// the cut is not what the killed one wrote there.
Status Client::agree_on_run() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> numbers = {kNone};
  if (ranks_->rank() == 0) {
    const Result<int64_t> drawn = surroundings_.draw();
    if (!drawn.ok()) return drawn.status();
    numbers[0] = drawn.value();
  }
  if (Status agreed = ranks_->least(numbers); !agreed.ok()) return agreed;
  run_ = numbers[0];
  return {};
}

Status Client::start_engine() {
  if (engine_ != nullptr) return {};
  memory_ = surroundings_.memory();
  if (surroundings_.same_as_recorded && memory_->has_device()) {
    Result<std::unique_ptr<Staging>> staging = Staging::create(std::move(memory_));
    if (!staging.ok()) return staging.status();
    staging_ = std::move(staging.value());
    memory_ = host_memory();
  }
  Result<std::unique_ptr<Caches>> caches = Caches::create(config_, *memory_);
  if (!caches.ok()) return caches.status();
  Result<std::unique_ptr<Mover>> mover =
      Mover::create(files(), *memory_, caches.value()->areas(), *archive_);
  if (!mover.ok()) return mover.status();
  history::Planner::Options options;
  options.caches = caches.value()->options();
  options.discard_consumed = config_.discard_consumed;
  auto engine = std::make_unique<Engine>(
      options, surroundings_.clock,
      [mover = mover.value().get()](const Transfer& transfer) { return mover->move(transfer); });
  if (Status started = engine->start(); !started.ok()) return started;
  caches_ = std::move(caches.value());
  mover_ = std::move(mover.value());
  engine_ = std::move(engine);
  for (const Name& name : early_hints_) engine_->hint(known_.at(name).version);
  early_hints_.clear();
  return {};
}

Status Client::finish(bool drain) {
  if (phase_) return wrong_order("a checkpoint or restart was begun and has not ended");
  if (!drain && engine_ != nullptr) engine_->discard_consumed();
  return wait_until_durable();
}

// ---- Names

// Folders have the names of checkpoints: two names may not become one.
bool Client::is_usable(const std::string& name) const {
  return !name.empty() && is_job_folder(stored_name(name));
}

void Client::use_name(const std::string& name) {
  last_name_ = name;
  for (const int version : std::exchange(nameless_hints_, {})) (void)hint(name, version);
}

Result<Name> Client::name_of(const std::optional<std::string>& name, int version) {
  if (version < 0) return Status(Code::kInvalid, "versions are numbers from 0");
  if (name && !is_usable(*name)) return bad_name();
  if (!name && last_name_.empty()) {
    return Status(Code::kInvalid, "no name of a checkpoint was used yet");
  }
  if (name) use_name(*name);
  return Name{stored_name(last_name_), static_cast<uint64_t>(version)};
}

// A version that was only hinted keeps its number, or it would not be found in the queue of hints.
Client::Known& Client::known(const Name& name) {
  const auto [found, is_new] = known_.try_emplace(name);
  if (is_new) found->second.version = ++newest_version_;
  return found->second;
}

// ---- Memory

void Client::protect(int id, void* memory, uint64_t bytes) {
  if (bytes == 0) {
    protected_.erase(id);
  } else {
    protected_[id] = {static_cast<std::byte*>(memory), bytes};
  }
}

Status Client::unprotect(int id) {
  if (protected_.erase(id) != 0) return {};
  return {Code::kNotFound, "nothing is protected under " + std::to_string(id)};
}

Result<Client::Chosen> Client::choose(const Selection& selection) const {
  for (const int id : selection.ids) {
    if (!protected_.contains(id)) {
      return Status(Code::kNotFound, "nothing is protected under " + std::to_string(id));
    }
  }
  Chosen chosen;
  for (const auto& [id, region] : protected_) {
    if (!selection.has(id)) continue;
    chosen.layout.add({.id = id, .bytes = region.bytes});
    if (staging_ != nullptr && staging_->is_on_device(region.memory)) {
      chosen.staged.push_back(staging_->stage(id, region.memory, region.bytes));
      chosen.places.push_back({chosen.staged.back().host, false});
    } else {
      chosen.places.push_back({region.memory, memory_->is_on_device(region.memory)});
    }
  }
  return chosen;
}

Result<Client::Chosen> Client::choose_to_save(const Selection& selection) const {
  Result<Chosen> chosen = choose(selection);
  if (!chosen.ok() || staging_ == nullptr) return chosen;
  if (Status copied = staging_->copy_to_host(chosen->staged); !copied.ok()) return copied;
  return chosen;
}

// A checkpoint of host memory has no business in the device's cache.
int Client::fastest_of(const std::vector<MemoryPlace>& places) const {
  const bool is_on_device =
      std::ranges::any_of(places, [](const MemoryPlace& place) { return place.is_on_device; });
  return caches_->areas().front().is_on_device && !is_on_device ? 1 : 0;
}

// ---- Writing

Status Client::checkpoint(const std::string& name, int version) {
  if (Status begun = begin_checkpoint(name, version); !begun.ok()) return begun;
  const Phase phase = *std::exchange(phase_, std::nullopt);
  const Result<Chosen> chosen = choose_to_save({});
  if (!chosen.ok()) return chosen.status();
  return write(phase, chosen.value());
}

Status Client::begin_checkpoint(const std::string& name, int version) {
  if (phase_) return wrong_order("the last checkpoint or restart has not ended");
  const Result<Name> named = name_of(name, version);
  if (!named.ok()) return named.status();
  if (known(named.value()).is_written) {
    return {Code::kInvalid, "this run has written it already: a version is written once"};
  }
  if (Status started = start_engine(); !started.ok()) return started;
  // A replay makes the writes from before the cut again: these are of the run that was recorded.
  char run[17];
  std::snprintf(run, sizeof run, "%016" PRIx64, same_as_recorded(run_));
  phase_ = Phase{.name = named.value(), .id = {run, ++writes_}};
  return {};
}

// One that an earlier run left gives way to it.
Version Client::number_to_write(const Name& name) {
  Known& entry = known(name);
  if (entry.what) entry = {.version = ++newest_version_};
  return entry.version;
}

Status Client::write(const Phase& phase, const Chosen& chosen) {
  const Version version = number_to_write(phase.name);
  const Archive::Written what = {chosen.layout, phase.id};
  mover_->describe(version, {phase.name, what, phase.files});
  mover_->set_program_memory(chosen.places);
  Status written = engine_->write(version, chosen.layout.bytes(), fastest_of(chosen.places));
  if (!written.ok()) {
    known_.erase(phase.name);
    return written;
  }
  known_[phase.name] = {version, what, true};
  return config_.is_synchronous ? wait_until_durable() : Status();
}

Status Client::save(const Selection& selection) {
  if (!phase_ || phase_->is_restart) return wrong_order("no checkpoint was begun");
  if (!phase_->layout.regions().empty()) return wrong_order("its memory was saved already");
  const Result<Chosen> chosen = choose_to_save(selection);
  if (!chosen.ok()) return chosen.status();
  phase_->layout = chosen->layout;
  const Version version = number_to_write(phase_->name);
  mover_->describe(version, {phase_->name, {chosen->layout, phase_->id}, {}});
  mover_->set_program_memory(chosen->places);
  const uint64_t bytes = chosen->layout.bytes();
  if (engine_->write_held(version, bytes, fastest_of(chosen->places)).ok()) {
    phase_->held = version;
    return {};
  }
  known_.erase(phase_->name);
  return keep(chosen.value());
}

// No cache has room: the program may change its memory, and the checkpoint may still be given up.
Status Client::keep(const Chosen& chosen) {
  phase_->kept.resize(chosen.layout.bytes());
  Result<std::unique_ptr<Copier>> copier = memory_->copier();
  if (!copier.ok()) return copier.status();
  Status copied = copier.value()->follow_program();
  for (size_t i = 0; i < chosen.places.size() && copied.ok(); ++i) {
    std::byte* const to = phase_->kept.data() + chosen.layout.offset(i);
    copied = copier.value()->copy(to, chosen.places[i].memory, chosen.layout.regions()[i].bytes);
    phase_->kept_places.push_back({to, false});
  }
  const Status finished = copier.value()->finish();
  return copied.ok() ? finished : copied;
}

Status Client::end_checkpoint(bool success) {
  if (!phase_ || phase_->is_restart) return wrong_order("no checkpoint was begun");
  Phase phase = *std::exchange(phase_, std::nullopt);
  Status added = success ? add_files(phase) : Status();
  if (!success || !added.ok()) {
    if (phase.held) engine_->give_up(*phase.held);
    known_.erase(phase.name);
    for (const auto& [name, path] : phase.files) (void)files().remove(path);
    return added;
  }
  if (!phase.held) return write(phase, {phase.layout, phase.kept_places, {}});
  const Archive::Written what = {phase.layout, phase.id};
  mover_->describe(*phase.held, {phase.name, what, phase.files});
  known_[phase.name] = {*phase.held, what, true};
  engine_->release(*phase.held);
  return config_.is_synchronous ? wait_until_durable() : Status();
}

// The program must have written all files that it had routed.
Status Client::add_files(Phase& phase) const {
  for (const auto& [name, path] : phase.files) {
    const Result<std::unique_ptr<ReadableFile>> file = files().open(path);
    if (!file.ok()) return file.status();
    phase.layout.add({.file = name, .bytes = file.value()->size()});
    phase.kept_places.push_back({});
  }
  return {};
}

Status Client::wait_until_durable() {
  Status flushed = engine_ != nullptr ? engine_->wait_until_flushed() : Status();
  Status drained = archive_->wait_until_drained();
  return flushed.ok() ? drained : flushed;
}

bool Client::is_durable() const {
  const bool is_flushed = engine_ == nullptr || engine_->is_flushed();
  return same_as_recorded(static_cast<int64_t>(is_flushed && archive_->is_drained())) != 0;
}

// ---- Reading

std::optional<uint64_t> Client::newest_before(const std::string& name, uint64_t bound) const {
  std::optional<uint64_t> newest;
  for (const uint64_t version : archive_->versions(name)) {
    if (version < bound) newest = std::max(newest.value_or(0), version);
  }
  for (const auto& [known, entry] : known_) {
    if (known.text == name && entry.is_written && known.version < bound) {
      newest = std::max(newest.value_or(0), known.version);
    }
  }
  return newest;
}

// Which run's part this rank has; none if it cannot be used.
std::optional<int64_t> Client::run_number(const Name& name) const {
  const auto entry = known_.find(name);
  if (entry != known_.end() && entry->second.is_written) {
    return static_cast<int64_t>(checksum(entry->second.what->id.run) >> 1);
  }
  const Result<Archive::Written> found = archive_->find(name);
  if (!found.ok()) return std::nullopt;
  return static_cast<int64_t>(checksum(found->id.run) >> 1);
}

Result<uint64_t> Client::newest(const std::string& program_name, int before) {
  if (!is_usable(program_name)) return bad_name();
  const std::string name = stored_name(program_name);
  uint64_t bound = before > 0 ? static_cast<uint64_t>(before) : uint64_t{1} << 31;
  while (true) {
    const std::optional<uint64_t> own = newest_before(name, bound);
    std::vector<int64_t> least = {same_as_recorded(own ? static_cast<int64_t>(*own) : -1)};
    if (Status agreed = ranks_->least(least); !agreed.ok()) return agreed;
    if (least[0] < 0) {
      return Status(Code::kNotFound, "there is none that every rank has in " + config_.persistent);
    }
    bound = static_cast<uint64_t>(least[0]);
    // All ranks have it, and of the same run.
    const int64_t run = same_as_recorded(run_number({name, bound}).value_or(-1));
    std::vector<int64_t> runs = {run, -run};
    if (Status agreed = ranks_->least(runs); !agreed.ok()) return agreed;
    if (runs[0] >= 0 && runs[0] == -runs[1]) return bound;
  }
}

// Makes one that an earlier run left known to the engine.
Result<Client::Known*> Client::find(const Name& name) {
  Known& entry = known(name);
  if (entry.what) return &entry;
  Result<Archive::Written> found = archive_->find(name);
  // In a replay the program has to get what it got when it was recorded.
  const auto number =
      found.ok() ? static_cast<int64_t>((checksum(found->id.run) + found->id.number) | 1) : 0;
  const int64_t recorded = same_as_recorded(number);
  if (recorded == 0 && found.ok()) return Status(Code::kNotFound, "there was no " + name.id());
  if (!found.ok()) return found.status();
  if (recorded != number) {
    return Status(Code::kDamaged, name.id() + " was written again since the program read it");
  }
  entry.what = std::move(found.value());
  mover_->describe(entry.version, {name, *entry.what, {}});
  std::vector<MemoryPlace> places;
  for (const auto& [id, region] : protected_) {
    places.push_back({region.memory, memory_->is_on_device(region.memory)});
  }
  engine_->adopt(entry.version, entry.what->layout.bytes(), fastest_of(places));
  return &entry;
}

Status Client::restart(const std::optional<std::string>& name, int version) {
  if (Status begun = begin_restart(name, version); !begun.ok()) return begun;
  Status restored = restore({}, false);
  phase_.reset();
  return restored;
}

Status Client::begin_restart(const std::optional<std::string>& name, int version) {
  if (phase_) return wrong_order("the last checkpoint or restart has not ended");
  const Result<Name> named = name_of(name, version);
  if (!named.ok()) return named.status();
  if (Status started = start_prefetching(); !started.ok()) return started;
  if (const Result<Known*> found = find(named.value()); !found.ok()) return found.status();
  phase_ = Phase{.is_restart = true, .name = named.value()};
  return {};
}

Status Client::recover(const Selection& selection) {
  if (!phase_ || !phase_->is_restart) return wrong_order("no restart was begun");
  return restore(selection, true);
}

Status Client::restore(const Selection& selection, bool is_part) {
  const Known& entry = known(phase_->name);
  const Layout& layout = entry.what->layout;
  Result<Chosen> chosen = choose(selection);
  if (!chosen.ok()) return chosen.status();
  std::vector<MemoryPlace> places(layout.regions().size());
  for (size_t i = 0; i < chosen->places.size(); ++i) {
    const Region& region = chosen->layout.regions()[i];
    const std::optional<size_t> saved = layout.find(region.id);
    if (!saved) return {Code::kNotFound, "it has nothing under " + std::to_string(region.id)};
    if (layout.regions()[*saved].bytes > region.bytes) {
      return {Code::kInvalid, "it has " + std::to_string(layout.regions()[*saved].bytes) +
                                  " bytes under " + std::to_string(region.id) + ", and only " +
                                  std::to_string(region.bytes) + " are protected"};
    }
    places[*saved] = chosen->places[i];
    for (Staging::Staged& staged : chosen->staged) {
      if (staged.host == chosen->places[i].memory) staged.bytes = layout.regions()[*saved].bytes;
    }
  }
  mover_->set_program_memory(std::move(places));
  if (is_part) phase_->recovered = entry.version;
  Status restored = engine_->restore(entry.version, is_part);
  if (!restored.ok() || staging_ == nullptr) return restored;
  return staging_->copy_to_device(chosen->staged);
}

Status Client::end_restart(bool success) {
  if (!phase_ || !phase_->is_restart) return wrong_order("no restart was begun");
  if (phase_->recovered) engine_->end_restore(*phase_->recovered, success);
  for (const auto& [name, path] : phase_->files) (void)files().remove(path);
  phase_.reset();
  return {};
}

Result<uint64_t> Client::size_of(int id) const {
  if (!phase_ || !phase_->is_restart) return wrong_order("no restart was begun");
  const Layout& layout = known_.at(phase_->name).what->layout;
  const std::optional<size_t> region = layout.find(id);
  if (!region) return Status(Code::kNotFound, "it has nothing under " + std::to_string(id));
  return layout.regions()[*region].bytes;
}

Result<uint64_t> Client::size_of(const std::optional<std::string>& name, int version, int id) {
  const Result<Name> named = name_of(name, version);
  if (!named.ok()) return named.status();
  if (Status started = start_engine(); !started.ok()) return started;
  const Result<Known*> found = find(named.value());
  if (!found.ok()) return found.status();
  const std::optional<size_t> region = found.value()->what->layout.find(id);
  if (!region) return Status(Code::kNotFound, "it has nothing under " + std::to_string(id));
  return found.value()->what->layout.regions()[*region].bytes;
}

// ---- Files

// Removes what a killed run left, before this one makes any. A file that stays only takes room.
void Client::remove_left(const std::string& folder, const std::string& prefix) const {
  const Result<std::vector<FolderEntry>> entries = files().entries(folder);
  if (!entries.ok()) return;
  for (const FolderEntry& entry : entries.value()) {
    if (entry.name.starts_with(prefix)) (void)files().remove(folder + "/" + entry.name);
  }
}

Result<std::string> Client::route_file(const std::string& original) {
  if (!phase_) return wrong_order("neither a checkpoint nor a restart was begun");
  if (original.empty()) return Status(Code::kInvalid, "a file needs a name");
  if (const auto known = phase_->files.find(original); known != phase_->files.end()) {
    return known->second;
  }
  const std::string& base = config_.scratch.empty() ? config_.persistent : config_.scratch;
  const std::string folder = base + "/" + sanitise_job(phase_->name.text) + "/routed";
  if (Status made = files().make_folder(folder); !made.ok()) return made;
  const std::string own = "r" + std::to_string(ranks_->rank()) + "-v";
  if (routed_folders_.insert(folder).second) remove_left(folder, own);
  // The file that the program wrote may still be on its way when it is restored.
  std::string path = folder + "/" + own + std::to_string(phase_->name.version) +
                     (phase_->is_restart ? "-restored-" : "-written-") +
                     std::to_string(phase_->files.size()) + "-" + sanitise_job(original);
  // An attempt that failed may have left one.
  (void)files().remove(path);
  if (phase_->is_restart) {
    if (Status extracted = extract(original, path); !extracted.ok()) return extracted;
  }
  phase_->files[original] = path;
  return path;
}

// Writes the file of the restart's checkpoint to the path.
Status Client::extract(const std::string& original, const std::string& path) {
  const Archive::Written& what = *known(phase_->name).what;
  const std::optional<size_t> region = what.layout.find(original);
  if (!region) return {Code::kNotFound, "it has no file " + original};
  // Files are nowhere else until they are flushed.
  if (Status durable = wait_until_durable(); !durable.ok()) return durable;
  Result<std::unique_ptr<BulkFile>> file = files().create_bulk(path, 0);
  if (!file.ok()) return file.status();
  BulkFile& to = *file.value();
  Result<std::unique_ptr<BounceBuffers>> buffers = BounceBuffers::create(*memory_);
  if (!buffers.ok()) return buffers.status();
  Status read = archive_->read(
      phase_->name, what, *buffers.value(),
      [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) {
          if (piece.range != *region) continue;
          Status written = write_and_wait(to, piece.offset, bytes.subspan(piece.at, piece.size));
          if (!written.ok()) return written;
        }
        return Status();
      });
  return read.ok() ? to.sync() : read;
}

// ---- Foreknowledge

Status Client::hint(const std::optional<std::string>& name, int version) {
  if (!config_.uses_hints) return {};
  if (version < 0) return {Code::kInvalid, "versions are numbers from 0"};
  if (!name && last_name_.empty()) {
    nameless_hints_.push_back(version);
    return {};
  }
  if (name && !is_usable(*name)) return bad_name();
  const Name hinted = {stored_name(name.value_or(last_name_)), static_cast<uint64_t>(version)};
  const Known& entry = known(hinted);
  if (engine_ != nullptr) {
    engine_->hint(entry.version);
  } else {
    early_hints_.push_back(hinted);
  }
  if (is_prefetching_) (void)find(hinted);
  return {};
}

Status Client::start_prefetching() {
  if (Status started = start_engine(); !started.ok()) return started;
  if (std::exchange(is_prefetching_, true)) return {};
  // Hints of what is not there may become true, or stay wrong.
  std::vector<Name> names;
  for (const auto& [name, entry] : known_) {
    if (!entry.what) names.push_back(name);
  }
  for (const Name& name : names) (void)find(name);
  engine_->start_prefetching();
  return {};
}

}  // namespace gpusnap::veloc
