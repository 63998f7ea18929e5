#include "tools/cli/job_look.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "tiers/daemon/start.h"
#include "tools/cli/control_client.h"
#include "tools/cli/processes.h"

namespace gpusnap {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kOfPatience = 5;  // so much of what one has with a store is for reading hosts
// Most ranks of a job that are shown though nothing is known about them.
constexpr uint32_t kMostRanks = 1 << 16;

std::string own_host() {
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  return host;
}

RankStatus described(const StartedProcess& process, RankState state, std::string note) {
  RankStatus rank;
  rank.state = state;
  rank.pid = process.pid;
  rank.note = std::move(note);
  rank.status.job = process.job;
  rank.status.store = process.store;
  rank.status.host = own_host();
  rank.status.rank = process.ranks.rank;
  rank.status.ranks = process.ranks.ranks;
  return rank;
}

RankStatus described(StatusAnswer answer) {
  if (!answer.status) {
    const StartedProcess unknown{.pid = answer.pid, .job = "?"};
    return described(describe_process(answer.pid).value_or(unknown), RankState::kSilent,
                     std::move(answer.problem));
  }
  RankStatus rank;
  rank.pid = answer.pid;
  rank.status = std::move(*answer.status);
  // It becomes part of a path, and is shown.
  rank.status.job = sanitise_job(rank.status.job);
  rank.status.store = plain_folder(rank.status.store);
  return rank;
}

bool is_same_rank(const ProcessStatus& one, const ProcessStatus& other) {
  return one.job == other.job && one.store == other.store && one.rank == other.rank;
}

// Returns the processes with a session, and those that are on the way to one. A shell around a rank
// has the rank's environment, too: if a rank has several processes, the one with a session counts,
// else the last.
std::vector<RankStatus> all_processes(std::chrono::nanoseconds patience) {
  const std::vector<int> listeners = own_listeners();
  std::vector<RankStatus> found;
  for (StatusAnswer& answer : ask_for_status(listeners, patience)) {
    found.push_back(described(std::move(answer)));
  }
  const size_t told = found.size();
  for (const int pid : own_processes()) {
    if (std::ranges::find(listeners, pid) != listeners.end()) continue;
    const auto process = describe_process(pid);
    if (!process || !process->is_named) continue;
    RankStatus rank = described(*process, RankState::kNotStarted,
                                "has not used CUDA yet, or takes no checkpoints");
    const auto same = std::ranges::find_if(
        found, [&](const RankStatus& each) { return is_same_rank(each.status, rank.status); });
    if (same == found.end()) {
      found.push_back(std::move(rank));
    } else if (same - found.begin() >= static_cast<std::ptrdiff_t>(told) && same->pid < pid) {
      *same = std::move(rank);
    }
  }
  return found;
}

BackendStatus look_at_area(const std::string& name, std::set<std::string> stores,
                           InFlight* in_flight) {
  BackendStatus backend;
  backend.area = name;
  const auto memory = StagingMemory::attach(name);
  if (!memory.ok()) return backend;
  InFlight now = look_at(*memory.value());
  for (const InFlight::Part& part : now.parts) stores.insert(plain_folder(part.text.store));
  if (in_flight != nullptr) *in_flight = std::move(now);
  PoolHeader& header = memory.value()->header();
  const std::span<SlotEntry> slots = memory.value()->slots();
  const auto used = std::ranges::count_if(
      slots, [](const SlotEntry& slot) { return slot.word.load().state != SlotState::kFree; });
  backend.staging_used = static_cast<uint64_t>(used) * header.slot_bytes;
  backend.staging_bytes = slots.size() * header.slot_bytes;
  if (!memory.value()->is_served()) return backend;
  backend.pid = static_cast<int>(header.server.load());
  if (const auto report = header.report.look()) take_report(*report, stores, backend);
  return backend;
}

// How safe what is on its way has become since it has left the device.
Level level_of(const InFlight& in_flight, const ProcessStatus& status) {
  for (const InFlight::Part& part : in_flight.parts) {
    const bool is_it = sanitise_job(part.text.job) == status.job &&
                       plain_folder(part.text.store) == status.store &&
                       part.text.epoch == status.saving && part.text.rank == status.rank;
    if (is_it && part.held) return Level::kSsd;
    if (is_it && part.sealed) return Level::kMemory;
  }
  return Level::kNone;
}

void add_backends(JobStatus& job) {
  std::map<std::string, InFlight> areas;
  for (const RankStatus& rank : job.processes) {
    if (rank.state != RankState::kTold) continue;
    const auto [area, is_new] = areas.try_emplace(rank.status.area);
    if (!is_new) continue;
    job.backends.push_back(area->first.empty()
                               ? BackendStatus()
                               : look_at_area(area->first, {job.store}, &area->second));
  }
  for (RankStatus& rank : job.processes) {
    const auto area = areas.find(rank.status.area);
    if (rank.status.saving != 0 && area != areas.end()) {
      rank.level = level_of(area->second, rank.status);
    }
  }
}

std::vector<uint32_t> ranks_not_here(const JobStatus& job) {
  std::set<uint32_t> here;
  for (const RankStatus& rank : job.processes) here.insert(rank.status.rank);
  std::vector<uint32_t> others;
  for (uint32_t rank = 0; rank < std::min(job.ranks, kMostRanks); ++rank) {
    if (!here.contains(rank)) others.push_back(rank);
  }
  return others;
}

void add_ranks_not_here(const JobInStore& in_store, JobStatus& job) {
  for (const uint32_t number : ranks_not_here(job)) {
    RankStatus rank;
    rank.state = RankState::kNotHere;
    rank.status.rank = number;
    if (const auto found = in_store.ranks.find(number); found != in_store.ranks.end()) {
      rank.status.host = found->second.host;
      rank.status.epoch = found->second.epoch;
      rank.status.cut_unix_ns = found->second.time_unix_ns;
    }
    job.processes.push_back(std::move(rank));
  }
}

bool is_same_folder(const std::string& one, const std::string& other) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  if (plain_folder(one, here) == plain_folder(other, here)) return true;
  return std::filesystem::equivalent(one, other, error) && !error;
}

}  // namespace

bool JobLook::is_wanted(const std::string& job, const std::string& store) const {
  return (wanted_.job.empty() || sanitise_job(wanted_.job) == job) &&
         (wanted_.store.empty() || is_same_folder(wanted_.store, store));
}

std::vector<JobStatus> JobLook::running_jobs() const {
  std::map<std::pair<std::string, std::string>, JobStatus> jobs;
  for (RankStatus& rank : all_processes(wanted_.patience)) {
    const ProcessStatus& status = rank.status;
    if (!is_wanted(status.job, status.store)) continue;
    JobStatus& job = jobs[{status.job, status.store}];
    job.job = status.job;
    job.store = status.store;
    job.ranks = std::max(job.ranks, status.ranks);
    job.processes.push_back(std::move(rank));
  }
  std::vector<JobStatus> found;
  for (auto& [name, job] : jobs) found.push_back(std::move(job));
  return found;
}

std::optional<Result<JobInStore>> JobLook::look_into_store(const JobStatus& job) {
  if (const auto late = late_.find(job.store); late != late_.end()) {
    if (late->second.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
    late_.erase(late);
  }
  // On a thread that may outlive us: a store that is gone can hold whoever looks at it for ever.
  std::packaged_task<Result<JobInStore>()> task([folder = job.store + "/" + job.job,
                                                 ranks = job.ranks, others = ranks_not_here(job),
                                                 reading = wanted_.patience / kOfPatience] {
    FileSystem& files = posix_file_system();
    Result<JobInStore> found = look_into_job(files, folder, ranks);
    const auto until = SteadyClock::now() + reading;
    const auto goes_on = [until] { return SteadyClock::now() < until; };
    if (found.ok()) read_hosts(files, folder, others, goes_on, found.value());
    return found;
  });
  std::future<Result<JobInStore>> found = task.get_future();
  std::thread(std::move(task)).detach();
  if (found.wait_for(wanted_.patience) == std::future_status::ready) return found.get();
  late_.emplace(job.store, std::move(found));
  return {};
}

void JobLook::add_from_store(JobStatus& job) {
  const auto looked = job.store.empty() ? std::nullopt : look_into_store(job);
  JobInStore in_store;
  if (!looked) {
    job.problem = "the store does not answer";
  } else if (looked->ok()) {
    in_store = looked->value();
  } else if (looked->status().code() != Code::kNotFound) {
    job.problem = looked->status().message();
  }
  job.complete = in_store.complete;
  job.complete_unix_ns = in_store.complete_unix_ns;
  for (const uint32_t rank : in_store.behind(std::min(job.ranks, kMostRanks))) {
    const auto found = in_store.ranks.find(rank);
    job.behind.push_back({rank, found == in_store.ranks.end() ? 0 : found->second.epoch});
  }
  add_ranks_not_here(in_store, job);
}

std::vector<JobStatus> JobLook::jobs() {
  std::vector<JobStatus> jobs = running_jobs();
  for (JobStatus& job : jobs) {
    add_backends(job);
    add_from_store(job);
    std::ranges::stable_sort(job.processes, [](const RankStatus& one, const RankStatus& other) {
      return std::pair(one.status.rank, one.pid) < std::pair(other.status.rank, other.pid);
    });
  }
  return jobs;
}

BackendStatus JobLook::backend_of_node() {
  const Settings settings = parse_settings(environ).settings;
  return look_at_area(StagingMemory::name_for(node_name(settings.node)), {}, nullptr);
}

}  // namespace gpusnap
