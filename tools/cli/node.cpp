#include "tools/cli/node.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "interpose/services/log.h"
#include "tiers/daemon/leftovers.h"
#include "tiers/daemon/pending_part.h"
#include "tiers/daemon/start.h"
#include "tools/cli/level_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(10);
constexpr auto kLookAtServer = std::chrono::milliseconds(200);
constexpr auto kAsk = std::chrono::milliseconds(100);
constexpr auto kToServe = std::chrono::seconds(20);

std::string area_of(const Settings& settings) {
  return StagingMemory::name_for(node_name(settings.node));
}

BackendProgram backend_program() {
  return {find_backend(), backend_environment(environ)};
}

bool is_of(const std::string& job, const std::string& other) {
  return job.empty() || sanitise_job(job) == sanitise_job(other);
}

std::string id_of(const CheckpointText& text) {
  return text.job + "@" + std::to_string(text.epoch);
}

// Whether it is in the store, or a later one was complete before it came there.
bool is_superseded(StagingMemory& memory, const CheckpointText& part) {
  return (part.in_memory && newest_in_flight(memory, part.store, part.job, true) > part.epoch) ||
         is_in_store(posix_file_system(), part);
}

// The parts, journals and leftovers that are waited for.
class Awaited {
 public:
  // `kept`: also parts that stay in memory while their programs run.
  Awaited(StagingMemory* memory, const Settings& settings, const std::string& job, bool kept) {
    for (CheckpointText& text : leftovers_on(posix_file_system(), settings.tiers.ssd)) {
      if (is_of(job, text.job)) leftovers_.push_back(std::move(text));
    }
    if (memory == nullptr) return;
    InFlight now = look_at(*memory);
    for (InFlight::Part& part : now.parts) {
      const bool counts = kept || !part.kept || !part.is_running;
      if (counts && is_of(job, part.text.job)) parts_.push_back(std::move(part));
    }
    // That of a program that runs ends with the program alone.
    for (InFlight::Journal& journal : now.journals) {
      if (journal.grows) continue;
      const std::string folder = journal.text.file.substr(0, journal.text.file.rfind('/'));
      if (is_of(job, folder.substr(folder.rfind('/') + 1))) journals_.push_back(std::move(journal));
    }
  }

  bool empty() const { return parts_.empty() && journals_.empty() && leftovers_.empty(); }
  std::string first() const {
    if (!leftovers_.empty()) return id_of(leftovers_.front());
    return parts_.empty() ? "journal " + journals_.front().text.file : id_of(parts_.front().text);
  }

  // Lets go what has come to its end. The first that failed.
  Status look(StagingMemory* memory) {
    Status failed;
    std::erase_if(leftovers_, [](const CheckpointText& text) {
      return is_in_store(posix_file_system(), text);
    });
    if (memory == nullptr) return failed;
    std::erase_if(parts_, [&](const InFlight::Part& part) {
      std::string why;
      const Fate fate = fate_of(*memory, part.stream, why);
      const bool lost = fate == Fate::kGone && part.sealed && !is_superseded(*memory, part.text);
      if (failed.ok() && (fate == Fate::kFailed || lost)) {
        failed = {Code::kIo,
                  id_of(part.text) + " did not become durable" + (why.empty() ? "" : ": " + why)};
      }
      return fate != Fate::kPending;
    });
    std::erase_if(journals_, [&](const InFlight::Journal& journal) {
      std::string why;
      return fate_of(*memory, journal.stream, why) != Fate::kPending;
    });
    return failed;
  }

 private:
  std::vector<InFlight::Part> parts_;
  std::vector<InFlight::Journal> journals_;
  std::vector<CheckpointText> leftovers_;
};

// A checkpoint that the store has not heard of.
LevelledCheckpoint known_only_here(const std::string& job, uint64_t epoch, Level level) {
  LevelledCheckpoint added;
  added.level = level;
  added.info.job = job;
  added.info.epoch = epoch;
  added.info.id = job + "@" + std::to_string(epoch);
  added.info.reason = "on its way to the store";
  added.info.time_unix_ns = std::time(nullptr) * int64_t{1'000'000'000};
  return added;
}

LevelledCheckpoint lost_by_store(const LevelCopies& copies) {
  LevelledCheckpoint added = known_only_here(copies.job, copies.epoch, Level::kNodes);
  added.info.reason = "not in the store; 'gpusnap restore' puts it back";
  added.info.time_unix_ns = copies.cut_unix_ns;
  added.info.bytes = copies.memory_bytes;
  return added;
}

// Whether the store has another run's part of that rank and epoch, which keeps its place.
bool is_taken(const CheckpointInfo& stored, uint32_t rank, const std::string& run) {
  const auto own = std::ranges::find(stored.ranks, rank, &Manifest::rank);
  return own != stored.ranks.end() && own->run != run;
}

}  // namespace

Result<std::unique_ptr<StagingMemory>> node_area(const Settings& settings) {
  return StagingMemory::attach(area_of(settings));
}

void tend_leftovers(const Settings& settings) {
  const auto memory = node_area(settings);
  if (memory.ok() && memory.value()->is_served()) return;
  if (!StagingMemory::exists(area_of(settings)) &&
      leftovers_on(posix_file_system(), settings.tiers.ssd).empty()) {
    return;
  }
  const Status started = start_backend(backend_program());
  if (!started.ok()) log(LogLevel::kWarn, started.message());
}

Status wait_until_durable(const Settings& settings, const std::string& job,
                          std::chrono::nanoseconds longest, const IsEnough& is_enough) {
  auto memory = node_area(settings);
  if (!memory.ok() && memory.status().code() != Code::kNotFound) return memory.status();
  // Where nothing is left to wait for, the memory itself still is to go, also what was never ready.
  if (memory.ok() ? !memory.value()->is_served() : StagingMemory::exists(area_of(settings))) {
    Status started = start_backend(backend_program());
    if (!started.ok()) return started;
  }
  const SteadyClock::time_point begun = SteadyClock::now();
  SteadyClock::time_point looked = begun - kLookAtServer;
  SteadyClock::time_point asked = begun - kAsk;
  Awaited awaited(memory.ok() ? memory.value().get() : nullptr, settings, job,
                  static_cast<bool>(is_enough));
  Status failed;
  while (!awaited.empty()) {
    const SteadyClock::time_point now = SteadyClock::now();
    const Status one = awaited.look(memory.ok() ? memory.value().get() : nullptr);
    if (failed.ok()) failed = one;
    if (awaited.empty()) break;
    if (is_enough && memory.ok() && now - asked >= kAsk) {
      if (is_enough(*memory.value())) return {};
      asked = SteadyClock::now();
    }
    if (now - looked >= kLookAtServer && (!memory.ok() || !memory.value()->is_served())) {
      auto again = reach_backend(area_of(settings), backend_program(), kToServe);
      if (!again.ok()) return again.status();
      memory = std::move(again);
    }
    if (now - looked >= kLookAtServer) looked = now;
    if (now - begun >= longest) {
      return {Code::kBusy, awaited.first() +
                               " is not durable yet; wait longer, or see that its "
                               "store can be written"};
    }
    std::this_thread::sleep_for(kLook);
  }
  return failed;
}

namespace {

// The ranks' manifests, by rank: those in the store, and those of what is on its way. Not all are
// there where a rank's part cannot be restored from this node yet.
std::vector<Manifest> known_ranks(const Settings& settings, const CheckpointInfo* stored,
                                  const std::vector<InFlight::Part>& parts, StagingMemory& memory) {
  std::map<uint32_t, Manifest> ranks;
  for (const InFlight::Part& part : parts) {
    const PendingPlaces places{&memory, area_file(area_of(settings)), settings.tiers.ssd};
    auto manifest = read_pending(posix_file_system(), places, part);
    if (manifest.ok()) ranks[part.text.rank] = std::move(manifest.value());
  }
  if (stored != nullptr) {
    for (const Manifest& manifest : stored->ranks) ranks[manifest.rank] = manifest;
  }
  std::vector<Manifest> known;
  known.reserve(ranks.size());
  for (auto& [rank, manifest] : ranks) known.push_back(std::move(manifest));
  return known;
}

// Whether they are all ranks of one cut of a whole program, of which the store has the ancestors.
bool can_be_restored(const std::vector<Manifest>& ranks,
                     const std::vector<CheckpointInfo>& listed) {
  if (ranks.empty() || ranks.size() != ranks.front().ranks) return false;
  return std::ranges::all_of(ranks, [&](const Manifest& manifest) {
    const auto parent = std::ranges::find(listed, manifest.parent, &CheckpointInfo::epoch);
    const bool has_parent = manifest.parent == 0 ||
                            (parent != listed.end() && parent->state == CheckpointState::kComplete);
    return has_parent && !manifest.by_program() && manifest.ranks == ranks.size() &&
           is_of_same_run(manifest, ranks.front());
  });
}

}  // namespace

namespace {

// Whether that epoch is to be restored from this node.
enum class Use : uint8_t {
  kYes,
  kWait,    // the store has it, or will have it
  kIgnore,  // ranks are missing, which nobody brings any more
};

// `parts`: of that epoch.
Use use_of(const Settings& settings, const std::vector<CheckpointInfo>& listed, uint64_t epoch,
           const std::vector<InFlight::Part>& parts, StagingMemory& memory,
           CheckpointInfo& pending) {
  const CheckpointInfo* stored = nullptr;
  for (const CheckpointInfo& info : listed) {
    const bool complete = info.state == CheckpointState::kComplete;
    if (info.epoch > epoch && complete) return Use::kWait;
    if (info.epoch == epoch && (complete || info.state == CheckpointState::kDamaged)) {
      return Use::kWait;
    }
    if (info.epoch == epoch) stored = &info;
  }
  pending.ranks = known_ranks(settings, stored, parts, memory);
  if (can_be_restored(pending.ranks, listed)) return Use::kYes;
  std::set<uint32_t> ranks;
  for (const InFlight::Part& part : parts) ranks.insert(part.text.rank);
  for (const Manifest& manifest : pending.ranks) ranks.insert(manifest.rank);
  const bool lacks_some = !pending.ranks.empty() && ranks.size() < pending.ranks.front().ranks;
  return lacks_some ? Use::kIgnore : Use::kWait;
}

// Newest first; each with its sealed parts.
std::map<uint64_t, std::vector<InFlight::Part>, std::greater<>> sealed_epochs(
    const Store& store, const std::string& job, StagingMemory& memory) {
  std::map<uint64_t, std::vector<InFlight::Part>, std::greater<>> epochs;
  for (InFlight::Part& part : look_at(memory).parts) {
    const bool is_its = part.sealed && is_of(job, part.text.job) && !job.empty();
    if (is_its && is_same_store(part.text.store, store.folder())) {
      epochs[part.text.epoch].push_back(std::move(part));
    }
  }
  return epochs;
}

}  // namespace

// The newest of several is the one that was begun last: where a rank was killed before it had
// handed over its part, the one before it is still there.
std::optional<CheckpointInfo> find_pending(const Settings& settings, Store& store,
                                           const std::string& job, StagingMemory& memory,
                                           std::optional<uint64_t> only) {
  // First: a part that is not there any more has come to the store by then, or never will.
  const auto epochs = sealed_epochs(store, job, memory);
  if (epochs.empty()) return std::nullopt;
  const auto listed = store.list(job);
  if (!listed.ok()) return std::nullopt;
  for (const auto& [epoch, parts] : epochs) {
    if (only && *only != epoch) continue;
    CheckpointInfo pending;
    const Use use = use_of(settings, listed.value(), epoch, parts, memory, pending);
    if (use == Use::kIgnore) continue;
    if (use == Use::kWait) return std::nullopt;
    pending.job = sanitise_job(job);
    pending.epoch = epoch;
    pending.id = pending.job + "@" + std::to_string(epoch);
    pending.time_unix_ns = pending.ranks.front().cut_unix_ns;
    for (const Manifest& manifest : pending.ranks) pending.bytes += manifest.bytes();
    return pending;
  }
  return std::nullopt;
}

bool is_all_kept(Store& store, const std::string& job, StagingMemory& memory,
                 std::optional<uint64_t> only) {
  uint64_t newest = 0;
  for (const InFlight::Part& part : look_at(memory).parts) {
    const bool is_its = is_of(job, part.text.job) && is_same_store(part.text.store, store.folder());
    if (!is_its) continue;
    if (!part.kept || part.text.epoch == only) return false;
    newest = std::max(newest, part.text.epoch);
  }
  if (only) return true;
  const auto listed = store.list(job);
  return listed.ok() && std::ranges::any_of(listed.value(), [&](const CheckpointInfo& info) {
           return info.state == CheckpointState::kComplete && info.epoch >= newest;
         });
}

std::map<std::string, uint64_t> space_on_node(const Settings& settings, const Store& store) {
  return space_on(posix_file_system(), settings.tiers.ssd,
                  [&](const std::string& other) { return is_same_store(other, store.folder()); });
}

const char* name_of(Level level) {
  switch (level) {
    case Level::kNone:
      return "-";
    case Level::kMemory:
      return "memory";
    case Level::kSsd:
      return "ssd";
    case Level::kNodes:
      return "nodes";
    case Level::kDurable:
      break;
  }
  return "durable";
}

namespace {

// Adds what can be put back from other nodes: of each epoch the newest run's, or the one in the
// store.
void add_nodes(std::vector<LevelCopies> copies, std::vector<LevelledCheckpoint>& listed,
               std::vector<LevelledCheckpoint>& added) {
  std::map<std::pair<std::string, uint64_t>, LevelledCheckpoint*> known;
  for (LevelledCheckpoint& each : listed) known[{each.info.job, each.info.epoch}] = &each;
  for (LevelledCheckpoint& each : added) known[{each.info.job, each.info.epoch}] = &each;
  std::ranges::stable_sort(copies, std::greater(), &LevelCopies::cut_unix_ns);
  std::map<std::pair<std::string, uint64_t>, LevelledCheckpoint> only_there;
  for (const LevelCopies& found : copies) {
    if (!found.is_recoverable) continue;
    const std::pair id(found.job, found.epoch);
    const auto same = known.find(id);
    const auto taken = [&](const auto& part) {
      return is_taken(same->second->info, part.first, part.second);
    };
    if (same != known.end() && std::ranges::any_of(found.runs, taken)) continue;
    LevelledCheckpoint& checkpoint =
        same != known.end() ? *same->second
                            : only_there.emplace(id, lost_by_store(found)).first->second;
    if (!checkpoint.protection.empty()) continue;
    checkpoint.protection = name_of(found.scheme) + (found.is_whole ? "" : " incomplete");
    if (checkpoint.level != Level::kDurable) checkpoint.level = Level::kNodes;
  }
  for (auto& [id, checkpoint] : only_there) added.push_back(std::move(checkpoint));
}

}  // namespace

// A complete checkpoint is durable; the others say how far they are, and why they are not complete.
std::string show_state(const LevelledCheckpoint& checkpoint) {
  std::string state = name_of(checkpoint.info.state);
  if (checkpoint.level != Level::kNone && checkpoint.level != Level::kDurable) {
    state += fmt::format(" ({})", name_of(checkpoint.level));
  }
  if (!checkpoint.protection.empty()) state += ", " + checkpoint.protection;
  if (!checkpoint.info.reason.empty()) state += ": " + printable(checkpoint.info.reason);
  return state;
}

std::vector<LevelledCheckpoint> with_levels(const Settings& settings, Store& store,
                                            const std::string& job,
                                            std::vector<CheckpointInfo> listed) {
  std::vector<LevelledCheckpoint> levelled;
  for (CheckpointInfo& info : listed) {
    const bool complete = info.state == CheckpointState::kComplete;
    levelled.push_back({std::move(info), complete ? Level::kDurable : Level::kNone, {}, complete});
  }
  std::vector<LevelledCheckpoint> added;
  // As many parts may be on the node as there are checkpoints.
  std::map<std::pair<std::string, uint64_t>, LevelledCheckpoint*> in_store;
  for (LevelledCheckpoint& each : levelled) in_store[{each.info.job, each.info.epoch}] = &each;
  std::map<std::pair<std::string, uint64_t>, Level> only_here;
  // As safe as the part that is safe the least; what the store has as a whole is durable, also
  // before its programs have been told.
  const auto add = [&](const CheckpointText& part, Level level) {
    const std::string name = sanitise_job(part.job);
    if (!is_same_store(part.store, store.folder()) || !is_of(job, name)) return;
    const auto stored = in_store.find({name, part.epoch});
    if (stored != in_store.end() && is_taken(stored->second->info, part.rank, part.run)) return;
    Level& known = stored != in_store.end()
                       ? stored->second->level
                       : only_here.try_emplace({name, part.epoch}, level).first->second;
    if (known == Level::kNone || (known != Level::kDurable && known > level)) known = level;
  };
  std::set<std::pair<std::string, uint64_t>> here, kept;
  std::map<std::pair<std::string, uint64_t>, CheckpointInfo> restorable;
  const std::vector<CheckpointText> on_ssd = leftovers_on(posix_file_system(), settings.tiers.ssd);
  for (const CheckpointText& part : on_ssd) add(part, Level::kSsd);
  if (const auto memory = node_area(settings); memory.ok()) {
    for (const InFlight::Part& part : look_at(*memory.value()).parts) {
      const bool also_on_ssd = std::ranges::find(on_ssd, part.text) != on_ssd.end();
      if (part.sealed && !also_on_ssd) add(part.text, Level::kMemory);
      if (!part.sealed || !is_of(job, part.text.job)) continue;
      const std::pair id(sanitise_job(part.text.job), part.text.epoch);
      here.insert(id);
      if (part.kept) kept.insert(id);
    }
    for (const auto& [name, epoch] : here) {
      auto found = find_pending(settings, store, name, *memory.value(), epoch);
      if (found) restorable.emplace(std::pair(name, epoch), std::move(*found));
    }
  }
  added.reserve(only_here.size());
  for (const auto& [which, level] : only_here) {
    added.push_back(known_only_here(which.first, which.second, level));
  }
  const auto mark = [&](LevelledCheckpoint& each) {
    const std::pair id(each.info.job, each.info.epoch);
    if (kept.contains(id)) each.info.reason = "stays in this node's memory";
    const auto found = restorable.find(id);
    if (found == restorable.end()) return;
    each.restorable = true;
    each.info.time_unix_ns = found->second.time_unix_ns;
  };
  std::ranges::for_each(levelled, mark);
  std::ranges::for_each(added, mark);
  add_nodes(copies_on_nodes(settings, store, job), levelled, added);
  std::ranges::stable_sort(added,
                           [](const LevelledCheckpoint& one, const LevelledCheckpoint& other) {
                             return one.info.epoch > other.info.epoch;
                           });
  std::ranges::move(levelled, std::back_inserter(added));
  return added;
}

}  // namespace gpusnap
