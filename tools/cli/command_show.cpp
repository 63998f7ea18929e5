// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "interpose/services/program.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/interval_text.h"
#include "tools/cli/range_text.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct ShowOptions {
  std::string store;  // empty: as the environment says
  std::string id;
  bool json = false;
  bool extents = false;
};

// How much of each range is in this manifest's own extents.
std::vector<uint64_t> own_bytes_by_range(const Manifest& rank) {
  std::vector<uint64_t> bytes(rank.ranges.size());
  for (const Extent& extent : rank.extents) bytes[extent.range] += extent.size;
  return bytes;
}

struct FormSum {
  uint64_t bytes = 0;   // as they were on the device
  uint64_t stored = 0;  // in segments
};

// Sums this manifest's own extents; each block counts once.
std::map<Form, FormSum> sums_by_form(const Manifest& rank) {
  std::map<Form, FormSum> sums;
  std::set<std::pair<uint32_t, uint64_t>> blocks;
  for (const Extent& extent : rank.extents) {
    FormSum& sum = sums[extent.form];
    sum.bytes += extent.size;
    if (extent.form == Form::kStored ||
        blocks.emplace(extent.segment, extent.segment_offset).second) {
      sum.stored += extent.stored();
    }
  }
  return sums;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + printable(word);
  return text;
}

void print_devices(const ProgramIdentity& program) {
  fmt::print("  device     {}, driver {}\n", printable(program.device),
             version_text(program.driver_version));
  for (const SavedDevice& device : program.devices) {
    fmt::print("  of these   {}, compute capability {}.{}, {}\n", printable(device.name),
               device.major, device.minor, show_bytes(device.memory));
  }
  if (program.device_count > program.devices.size()) {
    fmt::print("             of {} that it saw\n", program.device_count);
  }
}

void print_inputs(const ProgramIdentity& program) {
  constexpr size_t kMost = 10;
  if (!program.libraries.empty()) {
    fmt::print("  libraries  {}; --json lists them\n", program.libraries.size());
  }
  for (size_t i = 0; i < std::min(program.inputs.size(), kMost); ++i) {
    const InputFile& input = program.inputs[i];
    fmt::print("  has read   {} ({}, {})\n", printable(input.path), show_bytes(input.size),
               input.has_checksum ? fmt::format("XXH3 {:016x}", input.checksum)
                                  : show_local_time(input.modified_ns));
  }
  if (program.inputs.size() > kMost) {
    fmt::print("             and {} more files; --json lists them\n",
               program.inputs.size() - kMost);
  }
}

// In hostile bytes the waits may be longer than the stall.
uint64_t cut_ns(const Manifest& rank) {
  return rank.stall_ns - std::min(rank.stall_ns, rank.waits.all_ns());
}

void print_stall(const Manifest& rank) {
  fmt::print("  stall      {}: {} at the cut, then {} in calls, {} in frees, {} in streams\n",
             show_nanoseconds(rank.stall_ns), show_nanoseconds(cut_ns(rank)),
             show_nanoseconds(rank.waits.calls_ns), show_nanoseconds(rank.waits.frees_ns),
             show_nanoseconds(rank.waits.streams_ns));
}

// Prints a checkpoint that the program wrote by itself.
void print_regions(const Manifest& rank) {
  for (const SegmentRef& segment : rank.segments) {
    fmt::print("  segment    {} ({})\n", segment.file, show_bytes(segment.size));
  }
  std::vector<std::vector<std::string>> rows = {{"", "KIND", "NAME", "BYTES"}};
  for (const SavedRange& range : rank.ranges) {
    rows.push_back({"", name_of_kind(range), show_origin(range), std::to_string(range.size)});
  }
  fmt::print("{}", table(rows, "lllr"));
}

void print_rank(const Manifest& rank) {
  const ProgramIdentity& program = rank.program;
  fmt::print("\nrank {} of {}, on {}, run {}, library {}\n", rank.rank, rank.ranks,
             printable(rank.host), printable(rank.run), printable(rank.library_version));
  if (rank.by_program()) return print_regions(rank);
  fmt::print("  program    {} ({}, XXH3 {:016x})\n", printable(program.path),
             show_bytes(program.size), program.hash);
  fmt::print("  arguments  {}\n", join(program.arguments));
  fmt::print("  folder     {}\n", printable(program.folder));
  print_devices(program);
  print_inputs(program);
  fmt::print("  cut        {}, after {} calls, {} of them launches\n",
             show_local_time(rank.cut_unix_ns), rank.calls, rank.launches);
  print_stall(rank);
  if (rank.since_stored != 0) {
    fmt::print("  level      was to stay in memory, number {} since one went to the store\n",
               rank.since_stored);
  }
  if (rank.interval.is_chosen()) fmt::print("  auto       {}\n", show_interval(rank.interval));
  const CallCounts& calls = rank.meanwhile;
  fmt::print("  meanwhile  {} launches went ahead, {} waited ({} on a guess, {} opaque); ",
             calls.launches_free, calls.launches_waited, calls.launches_guessed,
             calls.launches_opaque);
  fmt::print("other calls: {} and {}\n", calls.others_free, calls.others_waited);
  if (rank.direct_bytes != 0) {
    fmt::print("  directly   {} to a local tier, past host memory\n",
               show_bytes(rank.direct_bytes));
  }
  fmt::print("  zones      {}\n", show_bytes(rank.zone_bytes));
  if (rank.peer_bytes != 0) {
    fmt::print("  peers      {} by way of another device\n", show_bytes(rank.peer_bytes));
  }
  if (rank.parent != 0) {
    fmt::print("  parent     {}@{} (+{}); {} of {} changed since\n", rank.job, rank.parent,
               rank.chain, show_bytes(rank.own_bytes()), show_bytes(rank.bytes()));
  }
  for (const SegmentRef& segment : rank.segments) {
    fmt::print("  segment    {} ({})\n", segment.file, show_bytes(segment.size));
  }
  for (const auto& [form, sum] : sums_by_form(rank)) {
    if (form == Form::kStored) continue;
    fmt::print("  compressed {} of them into {} ({})\n", show_bytes(sum.bytes),
               show_bytes(sum.stored), name_of(form));
  }
  for (const JournalPart& part : rank.journal) {
    fmt::print("  journal    {} ({} stored, {} of {} calls)\n", part.file,
               show_bytes(part.file_bytes), show_bytes(part.stream_bytes), part.entries);
  }
  std::vector<std::vector<std::string>> rows = {
      {"", "RANGE", "KIND", "ADDRESS", "BYTES", "LIFE", "OWN", "CALL SITE OR NAME"}};
  const std::vector<uint64_t> own = own_bytes_by_range(rank);
  for (size_t i = 0; i < rank.ranges.size(); ++i) {
    const SavedRange& range = rank.ranges[i];
    rows.push_back({"", std::to_string(i), name_of_kind(range),
                    fmt::format("0x{:012x}", range.address), std::to_string(range.size),
                    std::to_string(range.life), std::to_string(own[i]), show_origin(range)});
  }
  fmt::print("{}", table(rows, "lrlrrrrl"));
}

void print(const CheckpointInfo& checkpoint) {
  fmt::print("{}  {}{}\n", checkpoint.id, name_of(checkpoint.state),
             checkpoint.reason.empty() ? "" : ": " + printable(checkpoint.reason));
  fmt::print("  time       {}\n", show_local_time(checkpoint.time_unix_ns));
  const bool by_program = !checkpoint.ranks.empty() && checkpoint.ranks.front().by_program();
  fmt::print("  size       {} of {}, {} in files\n", show_bytes(checkpoint.bytes),
             by_program ? "protected memory" : "device memory",
             show_bytes(checkpoint.stored_bytes));
  if (checkpoint.needed_by != 0) fmt::print("  kept for   {}\n", checkpoint.needed_by);
  fmt::print("  stall      {}\n", show_nanoseconds(checkpoint.stall_ns));
  for (const Manifest& rank : checkpoint.ranks) print_rank(rank);
}

void add_devices(Json& json, const ProgramIdentity& program) {
  json.key("devices").begin_array();
  for (const SavedDevice& device : program.devices) {
    json.begin_object();
    json.key("name").value(device.name);
    json.key("memory").value(device.memory);
    json.key("compute_capability").value(fmt::format("{}.{}", device.major, device.minor));
    json.end_object();
  }
  json.end_array();
}

void add_read_files(Json& json, const ProgramIdentity& program) {
  json.key("libraries").begin_array();
  for (const SavedLibrary& library : program.libraries) {
    json.begin_object();
    json.key("path").value(library.path);
    json.key("build_id").value(library.build_id);
    json.end_object();
  }
  json.end_array();
  json.key("inputs").begin_array();
  for (const InputFile& input : program.inputs) {
    json.begin_object();
    json.key("path").value(input.path);
    json.key("size").value(input.size);
    json.key("modified").value(show_iso_time(input.modified_ns));
    json.key("hash").value(input.has_checksum ? fmt::format("{:016x}", input.checksum) : "");
    json.end_object();
  }
  json.end_array();
}

void add_program(Json& json, const ProgramIdentity& program) {
  json.begin_object();
  json.key("path").value(program.path);
  json.key("size").value(program.size);
  json.key("hash").value(fmt::format("{:016x}", program.hash));
  json.key("arguments").begin_array();
  for (const std::string& argument : program.arguments) json.value(argument);
  json.end_array();
  json.key("folder").value(program.folder);
  json.key("device").value(program.device);
  json.key("driver_version").value(uint64_t{program.driver_version});
  json.key("device_count").value(uint64_t{program.device_count});
  add_devices(json, program);
  add_read_files(json, program);
  json.end_object();
}

void add_ranges(Json& json, const Manifest& rank) {
  const std::vector<uint64_t> own = own_bytes_by_range(rank);
  json.begin_array();
  for (size_t i = 0; i < rank.ranges.size(); ++i) {
    const SavedRange& range = rank.ranges[i];
    json.begin_object();
    json.key("kind").value(name_of_kind(range));
    json.key("address").value(fmt::format("0x{:x}", range.address));
    json.key("size").value(range.size);
    json.key("own_bytes").value(own[i]);
    json.key("life").value(range.life);
    json.key("fresh").value(rank.parent == 0 || range.fresh);
    add_origin(json, range, rank.by_program());
    json.end_object();
  }
  json.end_array();
}

void add_files(Json& json, const Manifest& rank) {
  json.key("segments").begin_array();
  for (const SegmentRef& segment : rank.segments) {
    json.begin_object();
    json.key("file").value(segment.file);
    json.key("size").value(segment.size);
    json.end_object();
  }
  json.end_array();
  json.key("journal").begin_array();
  for (const JournalPart& part : rank.journal) {
    json.begin_object();
    json.key("file").value(part.file);
    json.key("file_bytes").value(part.file_bytes);
    json.key("stream_bytes").value(part.stream_bytes);
    json.key("entries").value(part.entries);
    json.end_object();
  }
  json.end_array();
}

void add_forms(Json& json, const Manifest& rank) {
  json.begin_object();
  for (const auto& [form, sum] : sums_by_form(rank)) {
    json.key(name_of(form)).begin_object();
    json.key("bytes").value(sum.bytes);
    json.key("stored_bytes").value(sum.stored);
    json.end_object();
  }
  json.end_object();
}

// Where each piece of a range is, for who reads segments by other means.
void add_extents(Json& json, const Manifest& rank) {
  json.begin_array();
  for (const Extent& extent : rank.extents) {
    json.begin_object();
    json.key("range").value(uint64_t{extent.range});
    json.key("offset").value(extent.offset);
    json.key("size").value(extent.size);
    json.key("segment").value(uint64_t{extent.segment});
    json.key("segment_offset").value(extent.segment_offset);
    json.key("stored_bytes").value(extent.stored());
    json.key("form").value(name_of(extent.form));
    json.key("within").value(extent.within);
    json.key("checksums").begin_array();
    for (size_t i = 0; i < extent.part_count(); ++i) {
      json.value(fmt::format("{:016x}", extent.part(i).checksum));
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

void add_counts(Json& json, const CallCounts& calls) {
  json.begin_object();
  json.key("launches_free").value(calls.launches_free);
  json.key("launches_waited").value(calls.launches_waited);
  json.key("launches_guessed").value(calls.launches_guessed);
  json.key("launches_opaque").value(calls.launches_opaque);
  json.key("others_free").value(calls.others_free);
  json.key("others_waited").value(calls.others_waited);
  json.end_object();
}

double milliseconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

void add_stall(Json& json, const Manifest& rank) {
  json.begin_object();
  json.key("cut_ms").value(milliseconds(cut_ns(rank)));
  json.key("calls_ms").value(milliseconds(rank.waits.calls_ns));
  json.key("frees_ms").value(milliseconds(rank.waits.frees_ns));
  json.key("streams_ms").value(milliseconds(rank.waits.streams_ns));
  json.end_object();
}

void add_rank(Json& json, const Manifest& rank, bool extents) {
  json.begin_object();
  json.key("rank").value(uint64_t{rank.rank});
  json.key("run").value(rank.run);
  json.key("job_run").value(rank.job_run == 0 ? "" : fmt::format("{:016x}", rank.job_run));
  json.key("host").value(rank.host);
  json.key("library_version").value(rank.library_version);
  json.key("time").value(show_iso_time(rank.cut_unix_ns));
  json.key("stall_ms").value(milliseconds(rank.stall_ns));
  json.key("stall");
  add_stall(json, rank);
  json.key("parent").value(rank.parent);
  json.key("chain").value(uint64_t{rank.chain});
  json.key("since_stored").value(rank.since_stored);
  json.key("bytes").value(rank.bytes());
  json.key("own_bytes").value(rank.own_bytes());
  json.key("direct_bytes").value(rank.direct_bytes);
  json.key("zone_bytes").value(rank.zone_bytes);
  json.key("calls").value(rank.calls);
  json.key("launches").value(rank.launches);
  json.key("peer_bytes").value(rank.peer_bytes);
  json.key("auto");
  add_interval(json, rank.interval);
  json.key("meanwhile");
  add_counts(json, rank.meanwhile);
  json.key("program");
  add_program(json, rank.program);
  add_files(json, rank);
  json.key("forms");
  add_forms(json, rank);
  if (extents) {
    json.key("extents");
    add_extents(json, rank);
  }
  json.key("ranges");
  add_ranges(json, rank);
  json.end_object();
}

std::string as_json(const CheckpointInfo& checkpoint, bool extents) {
  Json json;
  json.begin_object();
  json.key("id").value(checkpoint.id);
  json.key("job").value(checkpoint.job);
  json.key("epoch").value(checkpoint.epoch);
  json.key("time").value(show_iso_time(checkpoint.time_unix_ns));
  json.key("bytes").value(checkpoint.bytes);
  json.key("own_bytes").value(checkpoint.own_bytes);
  json.key("stored_bytes").value(checkpoint.stored_bytes);
  json.key("chain").value(uint64_t{checkpoint.chain});
  json.key("needed_by").value(checkpoint.needed_by);
  json.key("stall_ms").value(milliseconds(checkpoint.stall_ns));
  json.key("state").value(name_of(checkpoint.state));
  json.key("reason").value(checkpoint.reason);
  json.key("ranks").begin_array();
  for (const Manifest& rank : checkpoint.ranks) add_rank(json, rank, extents);
  json.end_array();
  return json.end_object().text() + "\n";
}

int show_command(const ShowOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Result<CheckpointInfo> checkpoint = store.value()->find(options.id);
  if (!checkpoint.ok()) return fail(checkpoint.status());
  if (options.json) {
    fmt::print("{}", as_json(checkpoint.value(), options.extents));
  } else {
    print(checkpoint.value());
  }
  return checkpoint.value().state == CheckpointState::kDamaged ? kExitDamaged : kExitOk;
}

void declare_show(CLI::App& command, ShowOptions& options) {
  command.add_option("ID", options.id, "JOB@EPOCH, JOB@latest or JOB")->required();
  CLI::Option* const json = command.add_flag("--json", options.json, "as one JSON object");
  command.add_flag("--extents", options.extents, "with the place of every extent in the segments")
      ->needs(json);
  add_store(command, options.store);
  end_help(command,
           "stall: how long the program waited. 'at the cut': until the device had run empty and "
           "the\nprogram went on (all of the copying, where it blocks); 'in calls': the host, for "
           "buffers or\nfor the end; 'in frees': the host, for copies of what goes; 'in streams': "
           "all waits of\nstreams, by the device's clock.\n\n"
           "Example:\n  gpusnap show wave@12\n\n");
}

}  // namespace

const Command kShowCommand{"show", "show what a checkpoint holds", [](CLI::App& command) {
                             return action_of(command, declare_show, show_command);
                           }};

}  // namespace gpusnap
