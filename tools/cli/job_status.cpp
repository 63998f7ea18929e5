#include "tools/cli/job_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/cli/interval_text.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr int64_t kSecond = 1'000'000'000;

std::string age_of(int64_t time_unix_ns, int64_t now_unix_ns) {
  return show_age((now_unix_ns - time_unix_ns) / kSecond);
}

std::string show_rate(uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? "-" : show_bytes(bytes_per_second) + "/s";
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : printable(text);
}

std::string count_of(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Shows the checkpoint on its way.
std::string show_saving(const RankStatus& rank) {
  const ProcessStatus& status = rank.status;
  if (status.saving == 0) return "-";
  if (rank.level != Level::kNone) {
    return fmt::format("{}: {} {} {}", status.saving, show_bytes(status.bytes),
                       rank.level == Level::kMemory ? "in" : "on", name_of(rank.level));
  }
  return fmt::format("{}: {} of {}", status.saving, show_bytes(status.saved_bytes),
                     show_bytes(status.bytes));
}

std::string show_due(const ProcessStatus& status) {
  switch (status.due) {
    case Due::kNot:
      break;
    case Due::kTime:
      return "in " + show_age(static_cast<int64_t>(status.due_in_ns / kSecond));
    case Due::kCall:
    case Due::kRanks:
      if (status.saving != 0) return fmt::format("due: waits for the end of {}", status.saving);
      return status.due == Due::kCall ? "due: waits for a CUDA call"
                                      : "due: waits for a collective of all ranks";
  }
  return "-";
}

const std::string& note_of(const RankStatus& rank) {
  return rank.state == RankState::kTold ? rank.status.why : rank.note;
}

// Shows what the next checkpoint waits for, or why none is to be expected.
std::string show_next(const RankStatus& rank) {
  const std::string& note = note_of(rank);
  return note.empty() ? show_due(rank.status) : printable(note);
}

std::string as_table(const JobStatus& job, int64_t now) {
  Rows rows = {{"RANK", "PID", "HOST", "STATE", "LAST", "AGE", "STALL", "SAVING", "NEXT"}};
  for (const RankStatus& rank : job.processes) {
    const ProcessStatus& status = rank.status;
    const bool any = status.epoch != 0;
    rows.push_back({std::to_string(status.rank), rank.pid == 0 ? "-" : std::to_string(rank.pid),
                    or_dash(status.host), state_of(rank), any ? std::to_string(status.epoch) : "-",
                    any ? age_of(status.cut_unix_ns, now) : "-",
                    any && rank.pid != 0 ? show_nanoseconds(status.stall_ns) : "-",
                    show_saving(rank), show_next(rank)});
  }
  return table(rows, "rrllrrrll");
}

std::string show_behind(const JobStatus& job) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(job.behind.size(), kMost); ++i) {
    const auto [rank, epoch] = job.behind[i];
    text += fmt::format("{}rank {} ({})", i == 0 ? "; behind: " : ", ", rank,
                        epoch == 0 ? "none" : fmt::format("{}@{}", job.job, epoch));
  }
  if (job.behind.size() > kMost) text += fmt::format(" and {} more", job.behind.size() - kMost);
  return text;
}

std::string as_text(const JobStatus& job, int64_t now) {
  std::string text = fmt::format("job {} in {}: {}, ", printable(job.job), or_dash(job.store),
                                 count_of(job.ranks, "rank"));
  if (!job.problem.empty()) {
    text += printable(job.problem);
  } else if (job.complete == 0) {
    text += "no complete checkpoint yet";
  } else {
    text += fmt::format("newest complete {}@{} ({})", job.job, job.complete,
                        age_of(job.complete_unix_ns, now));
  }
  return text + show_behind(job) + "\n" + as_table(job, now);
}

std::string as_text(const BackendStatus& backend) {
  if (backend.area.empty()) return "backend: within the programs (GPUSNAP_BACKEND=thread)\n";
  if (backend.pid == 0) return "backend: gpusnapd does not run\n";
  std::string text = fmt::format(
      "backend: gpusnapd {}, {} of {} of staging memory in use, {} and {} on their way\n",
      backend.pid, show_bytes(backend.staging_used), show_bytes(backend.staging_bytes),
      count_of(backend.checkpoints, "checkpoint"), count_of(backend.journals, "journal"));
  if (backend.tiers.empty()) return text;
  text += fmt::format(
      "flushes: {} at a time, {} (moving average); chunks of {}, of which {} wait for a place\n",
      backend.flushes, show_rate(backend.flush_bytes_per_second), show_bytes(backend.chunk_bytes),
      backend.unplaced);
  Rows rows = {{"TIER", "WRITERS", "WAITING", "FLUSHING", "ROOM", "FOLDER"}};
  for (const TierStatus& tier : backend.tiers) {
    const bool is_last = tier.capacity == 0;
    rows.push_back({tier.tier, std::to_string(tier.writers), std::to_string(tier.waiting),
                    is_last ? "-" : std::to_string(tier.flushing),
                    is_last ? "-" : std::to_string(tier.capacity), or_dash(tier.folder)});
  }
  return text + table(rows, "lrrrrl");
}

void add_json(const RankStatus& rank, Json& json) {
  const ProcessStatus& status = rank.status;
  json.begin_object();
  json.key("rank").value(uint64_t{status.rank});
  json.key("pid").value(static_cast<int64_t>(rank.pid));
  json.key("host").value(status.host);
  json.key("state").value(state_of(rank));
  json.key("reason").value(note_of(rank));
  json.key("epoch").value(status.epoch);
  json.key("time").value(status.epoch == 0 ? "" : show_iso_time(status.cut_unix_ns));
  json.key("stall_ms").value(static_cast<double>(status.stall_ns) / 1e6);
  const Level level = status.epoch == 0       ? Level::kNone
                      : status.in_memory != 0 ? Level::kMemory
                                              : Level::kDurable;
  json.key("level").value(name_of(level));
  json.key("saving_epoch").value(status.saving);
  json.key("saving_bytes").value(status.bytes);
  json.key("saved_bytes").value(status.saved_bytes);
  json.key("saving_level").value(name_of(rank.level));
  json.key("due").value(name_of(status.due));
  json.key("due_in_s").value(static_cast<double>(status.due_in_ns) / 1e9);
  json.key("auto");
  add_interval(json, status.interval);
  json.end_object();
}

void add_json(const TierStatus& tier, Json& json) {
  json.begin_object();
  json.key("tier").value(tier.tier);
  json.key("folder").value(tier.folder);
  json.key("writers").value(tier.writers);
  json.key("waiting").value(tier.waiting);
  json.key("flushing").value(tier.flushing);
  json.key("capacity").value(tier.capacity);
  json.end_object();
}

void add_json(const BackendStatus& backend, Json& json) {
  json.begin_object();
  json.key("backend").value(backend.area.empty() ? "thread" : "process");
  json.key("pid").value(static_cast<int64_t>(backend.pid));
  json.key("staging_used").value(backend.staging_used);
  json.key("staging_bytes").value(backend.staging_bytes);
  json.key("chunk_bytes").value(backend.chunk_bytes);
  json.key("checkpoints").value(backend.checkpoints);
  json.key("journals").value(backend.journals);
  json.key("unplaced").value(backend.unplaced);
  json.key("committed").value(backend.committed);
  json.key("failed").value(backend.failed);
  json.key("flushes").value(backend.flushes);
  json.key("flush_bytes_per_s").value(backend.flush_bytes_per_second);
  json.key("tiers").begin_array();
  for (const TierStatus& tier : backend.tiers) add_json(tier, json);
  json.end_array().end_object();
}

void add_json(const JobStatus& job, Json& json) {
  json.begin_object();
  json.key("job").value(job.job);
  json.key("store").value(job.store);
  json.key("ranks").value(uint64_t{job.ranks});
  json.key("problem").value(job.problem);
  json.key("complete_epoch").value(job.complete);
  json.key("complete_time").value(job.complete == 0 ? "" : show_iso_time(job.complete_unix_ns));
  json.key("behind").begin_array();
  for (const auto& [rank, epoch] : job.behind) {
    json.begin_object().key("rank").value(uint64_t{rank}).key("epoch").value(epoch).end_object();
  }
  json.end_array().key("processes").begin_array();
  for (const RankStatus& rank : job.processes) add_json(rank, json);
  json.end_array().key("backends").begin_array();
  for (const BackendStatus& backend : job.backends) add_json(backend, json);
  json.end_array().end_object();
}

}  // namespace

std::string state_of(const RankStatus& rank) {
  switch (rank.state) {
    case RankState::kTold:
      return name_of(rank.status.doing);
    case RankState::kSilent:
      return "does not answer";
    case RankState::kNotStarted:
      return "not started";
    case RankState::kNotHere:
      break;
  }
  return "not here";
}

void take_report(const BackendReport& report, const std::set<std::string>& stores,
                 BackendStatus& backend) {
  backend.chunk_bytes = report.chunk_bytes;
  backend.checkpoints = report.checkpoints;
  backend.journals = report.journals;
  backend.unplaced = report.waiting;
  backend.committed = report.committed;
  backend.failed = report.failed;
  backend.flushes = report.flushes;
  backend.flush_bytes_per_second = report.flush_bytes_per_second;
  TierStatus durable;
  durable.tier = "durable";
  for (const std::string& store : stores) {
    durable.folder += (durable.folder.empty() ? "" : ", ") + store;
  }
  for (size_t i = 0; i < std::min<size_t>(report.tiers, kMostTiersTold); ++i) {
    const TierReport& told = report.tier[i];
    const std::string folder(told.folder, strnlen(told.folder, kTierText));
    backend.tiers.push_back({i == 0 ? "memory" : "ssd", folder, told.writing, told.waiting,
                             told.flushing, told.capacity});
    durable.writers += told.flushing;
    durable.waiting += told.waiting;
  }
  backend.tiers.push_back(std::move(durable));
}

std::string as_text(const std::vector<JobStatus>& jobs, const std::vector<BackendStatus>& node,
                    int64_t now_unix_ns) {
  std::string text;
  const auto append = [&text](const std::string& part) {
    text += (text.empty() ? "" : "\n") + part;
  };
  std::vector<BackendStatus> backends;
  const auto add = [&backends](const BackendStatus& backend) {
    const bool known = std::ranges::any_of(
        backends, [&](const BackendStatus& each) { return each.area == backend.area; });
    if (!known) backends.push_back(backend);
  };
  for (const JobStatus& job : jobs) {
    append(as_text(job, now_unix_ns));
    for (const BackendStatus& backend : job.backends) add(backend);
  }
  for (const BackendStatus& backend : node) add(backend);
  for (const BackendStatus& backend : backends) append(as_text(backend));
  return text;
}

std::string as_json(const std::vector<JobStatus>& jobs) {
  Json json;
  json.begin_array();
  for (const JobStatus& job : jobs) add_json(job, json);
  return json.end_array().text() + "\n";
}

}  // namespace gpusnap
