// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/trace_events.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tools/cli/text.h"

namespace gpusnap {
namespace {

// The threads of a rank in the trace.
constexpr uint64_t kRuns = 1, kHeld = 2, kFirstLane = 3;

// Slices of one thread must not overlap, and checkpoints on their way do: each takes the first lane
// that is free.
class Lanes {
 public:
  uint64_t take(int64_t begin, int64_t end) {
    auto free = std::ranges::find_if(ends_, [begin](int64_t last) { return last <= begin; });
    if (free == ends_.end()) free = ends_.insert(ends_.end(), 0);
    *free = end;
    return static_cast<uint64_t>(free - ends_.begin());
  }
  size_t count() const { return ends_.size(); }

 private:
  std::vector<int64_t> ends_;
};

class RankEvents {
 public:
  RankEvents(const JobTimes& job, uint64_t process, std::vector<TraceEvent>& events)
      : job_(job), process_(process), events_(events) {}

  void add(const RunTimes& run) {
    hosts_.insert(run.host);
    rank_ = run.rank;
    TraceEvent event = slice("run " + run.run, kRuns, run.first_unix_ns, run.last_unix_ns);
    event.texts = {{"run", run.run}, {"host", run.host}};
    events_.push_back(std::move(event));
  }

  void add(const PartTimes& part) {
    const std::string id = job_.job + "@" + std::to_string(part.epoch);
    TraceEvent held = slice("cut " + id, kHeld, part.held_from_unix_ns, part.held_to_unix_ns);
    held.numbers = {{"later waits of calls, ns", part.waits.calls_ns},
                    {"later waits of frees, ns", part.waits.frees_ns},
                    {"later waits of streams, ns", part.waits.streams_ns},
                    {"launches so far", part.launches}};
    events_.push_back(std::move(held));
    add_way(part, id);
    TraceEvent memory = slice("device memory, bytes", 0, part.cut_unix_ns, part.cut_unix_ns);
    memory.phase = 'C';
    memory.numbers = {{"saved", part.own_bytes}, {"as in ancestors", part.bytes - part.own_bytes}};
    events_.push_back(std::move(memory));
  }

  void add_names() {
    std::string name = job_.job + ", rank " + std::to_string(rank_);
    for (const std::string& host : hosts_) name += (host == *hosts_.begin() ? " on " : ", ") + host;
    add_name("process_name", 0, name);
    add_name("thread_name", kRuns, "runs");
    add_name("thread_name", kHeld, "program held");
    for (size_t lane = 0; lane < lanes_.count(); ++lane) {
      add_name("thread_name", kFirstLane + lane, "until durable");
    }
  }

 private:
  TraceEvent slice(std::string name, uint64_t thread, int64_t begin, int64_t end) const {
    TraceEvent event;
    event.name = std::move(name);
    event.process = process_;
    event.thread = thread;
    event.begin_unix_ns = begin;
    event.length_ns = std::max<int64_t>(0, end - begin);
    return event;
  }

  void add_way(const PartTimes& part, const std::string& id) {
    if (part.durable_unix_ns == 0) return;
    const uint64_t lane = lanes_.take(part.cut_unix_ns, part.durable_unix_ns);
    TraceEvent way = slice(id, kFirstLane + lane, part.cut_unix_ns, part.durable_unix_ns);
    way.numbers = {{"device memory, bytes", part.bytes},
                   {"saved, bytes", part.own_bytes},
                   {"stored, bytes", part.stored_bytes}};
    way.texts = {{"kind", part.parent == 0 ? "full" : "increment"}, {"run", part.run}};
    events_.push_back(std::move(way));
  }

  void add_name(const char* what, uint64_t thread, const std::string& name) {
    TraceEvent event = slice(what, thread, 0, 0);
    event.phase = 'M';
    event.texts = {{"name", name}};
    events_.push_back(std::move(event));
  }

  const JobTimes& job_;
  const uint64_t process_;
  std::vector<TraceEvent>& events_;
  std::set<std::string> hosts_;
  uint32_t rank_ = 0;
  Lanes lanes_;
};

void add_event(Json& json, const TraceEvent& event, int64_t origin) {
  const auto microseconds = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
  const bool is_name = event.phase == 'M';
  json.begin_object();
  json.key("ph").value(std::string_view(&event.phase, 1));
  json.key("name").value(printable(event.name));
  json.key("pid").value(event.process);
  json.key("tid").value(event.thread);
  json.key("ts").value(is_name ? 0.0 : microseconds(event.begin_unix_ns - origin));
  if (event.phase == 'X') {
    json.key("dur").value(microseconds(event.length_ns));
    json.key("cat").value("checkpoint");
  }
  json.key("args").begin_object();
  for (const auto& [name, number] : event.numbers) json.key(name).value(number);
  for (const auto& [name, text] : event.texts) json.key(name).value(printable(text));
  json.end_object().end_object();
}

}  // namespace

std::vector<TraceEvent> events_of(const std::vector<JobTimes>& jobs) {
  std::vector<TraceEvent> events;
  uint64_t process = 0;
  for (const JobTimes& job : jobs) {
    std::map<uint32_t, RankEvents> ranks;
    for (const RunTimes& run : job.runs) {
      if (!ranks.contains(run.rank)) {
        ranks.emplace(run.rank, RankEvents(job, ++process, events));
      }
      ranks.at(run.rank).add(run);
    }
    for (const PartTimes& part : job.parts) ranks.at(part.rank).add(part);
    for (auto& [rank, of_rank] : ranks) of_rank.add_names();
  }
  return events;
}

std::string trace_as_json(std::vector<TraceEvent> events) {
  std::ranges::stable_sort(events, {}, [](const TraceEvent& event) {
    return std::tuple(event.phase != 'M', event.begin_unix_ns);
  });
  const auto first =
      std::ranges::find_if(events, [](const TraceEvent& event) { return event.phase != 'M'; });
  const int64_t origin = first == events.end() ? 0 : first->begin_unix_ns;
  Json json;
  json.begin_object();
  json.key("displayTimeUnit").value("ms");
  json.key("otherData").begin_object();
  json.key("begin").value(show_iso_time(origin));
  json.end_object();
  json.key("traceEvents").begin_array();
  for (const TraceEvent& event : events) add_event(json, event, origin);
  json.end_array();
  return json.end_object().text() + "\n";
}

}  // namespace gpusnap
