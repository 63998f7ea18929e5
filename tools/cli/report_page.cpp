// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/cli/curve_svg.h"
#include "tools/cli/interval_text.h"
#include "tools/cli/report_timeline.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

// The charts are drawn on white: in the dark their fixed colours are replaced.
constexpr const char* kStyle = R"(
:root { --page: #fff; --ink: #1b1d1f; --faint: #5d6369; --line: #d9dcdf; --card: #f4f5f6;
  --run: #9db8d6; --other: #c9b8dc; --way: #59a14f; --cut: #b3261e; --increment: #1f4e79;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --page: #16181a; --ink: #e6e8ea; --faint: #a2a8ae;
  --line: #3a3f44; --card: #212427; --run: #40607f; --other: #5f4c78; --way: #6fbf63;
  --cut: #ff8a80; --increment: #a9d1ff; } }
body { background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif;
  max-width: 1080px; margin: 0 auto; padding: 24px 16px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 32px 0 12px; }
h3 { font-size: 16px; margin: 24px 0 8px; }
h1, h2, h3, dd, p { overflow-wrap: anywhere; }
p, figcaption { color: var(--faint); margin: 4px 0; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(128px, 1fr)); gap: 10px;
  margin: 12px 0; }
dl div { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: 8px 12px; }
dt { color: var(--faint); font-size: 13px; } dd { margin: 0; font-size: 18px; }
figure { margin: 12px 0; overflow-x: auto; }
svg { width: 100%; min-width: 560px; height: auto; }
svg text { fill: var(--ink); } svg rect[fill=white] { fill: var(--page); }
svg line[stroke="#ddd"] { stroke: var(--line); } svg [stroke="#333333"] { stroke: var(--ink); }
.run { fill: var(--run); } .other { fill: var(--other); } .way { fill: var(--way); }
.cut { fill: var(--cut); } .increment { fill: var(--increment); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 4px 0 12px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: right; padding: 4px 6px; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th { color: var(--faint); font-weight: 600; }
.text { text-align: left; }
td:last-child { white-space: normal; min-width: 9em; overflow-wrap: anywhere; }
@media print { :root { --page: #fff; --ink: #000; --faint: #444; --line: #bbb; --card: #fff;
  --run: #9db8d6; --other: #c9b8dc; --way: #59a14f; --cut: #b3261e; --increment: #1f4e79; }
  body { max-width: none; padding: 0; } section { break-before: page; }
  section:first-of-type { break-before: auto; } figure, tr, dl { break-inside: avoid; }
  table { font-size: 8px; } th, td { padding: 2px 3px; } svg { min-width: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

using Rows = std::vector<std::vector<std::string>>;

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

std::string percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// All ranks of one checkpoint together.
struct Whole {
  const LevelledCheckpoint* checkpoint = nullptr;
  int64_t cut_unix_ns = 0;      // the last
  int64_t durable_unix_ns = 0;  // of the last part; 0: not known of all
  uint64_t stored_bytes = 0;    // segments alone
  plan::ChosenInterval interval;
  std::string run;  // of the first rank that is known

  const CheckpointInfo& info() const { return checkpoint->info; }
  int64_t way_ns() const { return durable_unix_ns == 0 ? -1 : durable_unix_ns - cut_unix_ns; }
};

// In the order of their cuts.
std::vector<Whole> wholes_of(const JobReport& job) {
  std::map<uint64_t, std::vector<const PartTimes*>> parts;
  for (const PartTimes& part : job.times.parts) parts[part.epoch].push_back(&part);
  std::vector<Whole> wholes;
  for (const LevelledCheckpoint& each : job.checkpoints) {
    const auto found = parts.find(each.info.epoch);
    if (found == parts.end()) continue;
    Whole whole;
    whole.checkpoint = &each;
    whole.run = found->second.front()->run;
    bool is_known = each.info.state == CheckpointState::kComplete;
    for (const PartTimes* part : found->second) {
      whole.cut_unix_ns = std::max(whole.cut_unix_ns, part->cut_unix_ns);
      whole.durable_unix_ns = std::max(whole.durable_unix_ns, part->durable_unix_ns);
      whole.stored_bytes += part->stored_bytes;
      is_known = is_known && part->durable_unix_ns != 0;
    }
    if (!is_known) whole.durable_unix_ns = 0;
    for (const Manifest& rank : each.info.ranks) {
      if (rank.interval.is_chosen()) whole.interval = rank.interval;
    }
    wholes.push_back(std::move(whole));
  }
  std::ranges::sort(wholes, {}, [](const Whole& whole) {
    return std::pair(whole.cut_unix_ns, whole.info().epoch);
  });
  return wholes;
}

// How often the newest checkpoint's line of runs was restored: each run has a part of the journal.
size_t restarts_of(const std::vector<Whole>& wholes) {
  if (wholes.empty() || wholes.back().info().ranks.empty()) return 0;
  const size_t parts = wholes.back().info().ranks.front().journal.size();
  return parts == 0 ? 0 : parts - 1;
}

std::string show_way(const Whole& whole) {
  return whole.way_ns() < 0 ? "-" : show_nanoseconds(static_cast<uint64_t>(whole.way_ns()));
}

std::string show_median_way(const std::vector<Whole>& wholes) {
  std::vector<int64_t> ways;
  for (const Whole& whole : wholes) {
    if (whole.way_ns() >= 0) ways.push_back(whole.way_ns());
  }
  if (ways.empty()) return "-";
  std::ranges::sort(ways);
  return show_nanoseconds(static_cast<uint64_t>(ways[ways.size() / 2]));
}

std::string tile(const char* name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, escaped_markup(value));
}

std::string tiles(const JobReport& job, const std::vector<Whole>& wholes) {
  size_t complete = 0;
  uint64_t stall = 0, stored = 0;
  for (const LevelledCheckpoint& each : job.checkpoints) {
    if (each.info.state == CheckpointState::kComplete) ++complete;
    stall = std::max(stall, each.info.stall_ns);
    stored += each.info.stored_bytes - each.info.journal_bytes;
  }
  const CheckpointInfo& newest = wholes.back().info();
  std::string html = "<dl>\n";
  html += tile("complete checkpoints", fmt::format("{} of {}", complete, job.checkpoints.size()));
  html += tile("ranks", std::to_string(newest.ranks.empty() ? 0 : newest.ranks.front().ranks));
  html += tile("restarts so far", std::to_string(restarts_of(wholes)));
  html += tile("device memory", show_bytes(newest.bytes));
  html += tile("files of checkpoints", show_bytes(stored));
  html += tile("longest stall", show_nanoseconds(stall));
  html += tile("until durable, median", show_median_way(wholes));
  if (wholes.back().interval.is_chosen()) {
    const double interval_s = wholes.back().interval.interval_s;
    html += tile("chosen interval", show_nanoseconds(static_cast<uint64_t>(interval_s * 1e9)));
  }
  return html + "</dl>\n";
}

std::string figure(const std::string& caption, const std::string& svg) {
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg, caption);
}

std::string timeline(const JobReport& job) {
  const std::string svg = timeline_as_svg(job.times);
  constexpr const char* kKey = "<span class=\"key\" style=\"background: var(--{})\"></span>{}";
  std::string caption = fmt::format(kKey, "run", "run");
  caption += fmt::format(kKey, "other", "a run after it");
  caption += fmt::format(kKey, "cut", "cut, full checkpoint");
  caption += fmt::format(kKey, "increment", "cut, increment");
  caption += fmt::format(kKey, "way", "on its way to the store");
  caption += "<br/>A run is shown from its first cut that the store knows to its last write.";
  return figure(caption, svg);
}

using Value = double (*)(const Whole&);

// The unit of the time axis.
struct Time {
  const char* label;
  double seconds;
};

Time time_for(const std::vector<Whole>& wholes) {
  const double all = seconds_of(wholes.back().cut_unix_ns - wholes.front().cut_unix_ns);
  if (all < 300) return {"seconds since the first cut", 1};
  if (all < 3 * 3600) return {"minutes since the first cut", 60};
  return {"hours since the first cut", 3600};
}

Curve curve_of(const char* name, const std::vector<Whole>& wholes, bool joined, Value value) {
  Curve curve{name, {}, joined, false};
  const Time time = time_for(wholes);
  for (const Whole& whole : wholes) {
    const double since = seconds_of(whole.cut_unix_ns - wholes.front().cut_unix_ns);
    curve.points.push_back({since / time.seconds, value(whole)});
  }
  return curve;
}

void add_curve(Chart& chart, const char* name, const std::vector<Whole>& wholes, Value value) {
  chart.curves.push_back(curve_of(name, wholes, true, value));
}

std::string charts(const std::vector<Whole>& wholes) {
  const char* const when = time_for(wholes).label;
  Chart stall{"Stall of each checkpoint", when, "ms, the longest over the ranks", {}};
  stall.curves.push_back(curve_of("stall", wholes, false, [](const Whole& whole) {
    return static_cast<double>(whole.info().stall_ns) / 1e6;
  }));
  Chart way{"From the cut until durable", when, "s, all ranks", {}};
  // A negative value is left out.
  way.curves.push_back(curve_of("until durable", wholes, false, [](const Whole& whole) {
    return seconds_of(whole.way_ns() < 0 ? INT64_MIN : whole.way_ns());
  }));
  Chart sizes{"Sizes", when, "MiB, all ranks", {}};
  add_curve(sizes, "device memory", wholes,
            [](const Whole& whole) { return mebibytes(whole.info().bytes); });
  add_curve(sizes, "saved (the rest is in ancestors)", wholes,
            [](const Whole& whole) { return mebibytes(whole.info().own_bytes); });
  add_curve(sizes, "stored (compressed)", wholes,
            [](const Whole& whole) { return mebibytes(whole.stored_bytes); });
  sizes.curves.back().dashed = true;  // it may lie on the one before
  std::vector<Chart> all = {stall};
  if (std::ranges::any_of(wholes, [](const Whole& each) { return each.way_ns() >= 0; })) {
    all.push_back(std::move(way));
  }
  all.push_back(std::move(sizes));
  if (std::ranges::any_of(wholes, [](const Whole& each) { return each.interval.is_chosen(); })) {
    Chart interval{"Interval that GPUSNAP_EVERY=auto had chosen", when, "s", {}};
    interval.curves.push_back(curve_of("interval", wholes, false, [](const Whole& whole) {
      return whole.interval.is_chosen() ? whole.interval.interval_s : -1;
    }));
    all.push_back(std::move(interval));
  }
  std::string html;
  for (const Chart& chart : all) html += figure("", charts_as_svg({chart}));
  return html;
}

// `text`: one letter a column, 't' where it is text.
std::string html_table(const Rows& rows, std::string_view text) {
  std::string html = "<div class=\"wide\"><table>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* const cell = i == 0 ? "th" : "td";
    html += i == 0 ? "<thead><tr>" : "<tr>";
    for (size_t column = 0; column < rows[i].size(); ++column) {
      html += fmt::format("<{0}{1}>{2}</{0}>", cell, text[column] == 't' ? " class=\"text\"" : "",
                          escaped_markup(rows[i][column]));
    }
    html += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string show_gap(const std::vector<Whole>& wholes, size_t i) {
  if (i == 0) return "-";
  const bool is_restart = wholes[i].run != wholes[i - 1].run;
  const auto gap = static_cast<uint64_t>(wholes[i].cut_unix_ns - wholes[i - 1].cut_unix_ns);
  return show_nanoseconds(gap) + (is_restart ? ", restarted" : "");
}

std::string checkpoints_table(const JobReport& job, const std::vector<Whole>& wholes) {
  Rows rows = {{"checkpoint", "cut", "after the last", "kind", "memory", "saved", "stored", "stall",
                "until durable", "state"}};
  std::set<uint64_t> shown;
  for (size_t i = wholes.size(); i-- > 0;) {
    const Whole& whole = wholes[i];
    const CheckpointInfo& info = whole.info();
    shown.insert(info.epoch);
    rows.push_back(
        {info.id, show_local_time(whole.cut_unix_ns), show_gap(wholes, i),
         info.chain == 0 ? "full" : "increment", show_bytes(info.bytes),
         fmt::format("{} ({})", show_bytes(info.own_bytes), percent(info.own_bytes, info.bytes)),
         fmt::format("{} ({})", show_bytes(whole.stored_bytes),
                     percent(whole.stored_bytes, info.own_bytes)),
         show_nanoseconds(info.stall_ns), show_way(whole), show_state(*whole.checkpoint)});
  }
  for (const LevelledCheckpoint& each : job.checkpoints) {
    if (shown.contains(each.info.epoch)) continue;
    rows.push_back({each.info.id, "-", "-", "-", "-", "-", "-", "-", "-", show_state(each)});
  }
  return "<h3>Checkpoints, the newest first</h3>\n"
         "<p>Saved: of the memory, the rest is in ancestors. Stored: of what was saved, after "
         "compression.</p>\n" +
         html_table(rows, "tttt.....t");
}

std::string runs_table(const JobTimes& times) {
  Rows rows = {{"run", "rank", "host", "first cut", "last write", "checkpoints"}};
  for (const RunTimes& run : times.runs) {
    const auto parts = std::ranges::count_if(times.parts, [&run](const PartTimes& part) {
      return part.run == run.run && part.rank == run.rank;
    });
    rows.push_back({run.run, std::to_string(run.rank), run.host, show_local_time(run.first_unix_ns),
                    show_local_time(run.last_unix_ns), std::to_string(parts)});
  }
  return "<h3>Runs</h3>\n" + html_table(rows, "t.ttt.");
}

std::string section_of(const JobReport& job) {
  const std::vector<Whole> wholes = wholes_of(job);
  std::string html = fmt::format("<section>\n<h2>Job {}</h2>\n", escaped_markup(job.job));
  if (wholes.empty()) {
    html += "<p>None of its checkpoints tells when it was made.</p>\n";
    return html + checkpoints_table(job, wholes) + "</section>\n";
  }
  html += tiles(job, wholes) + timeline(job);
  if (wholes.back().interval.is_chosen()) {
    html += fmt::format("<p>{}</p>\n", escaped_markup(show_interval(wholes.back().interval)));
  }
  html += charts(wholes);
  html += checkpoints_table(job, wholes) + runs_table(job.times);
  return html + "</section>\n";
}

}  // namespace

std::string report_as_html(const Report& report) {
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  html += "<title>gpusnap report</title>\n<style>";
  html += kStyle;
  html += "</style>\n</head>\n<body>\n<h1>gpusnap report</h1>\n";
  html +=
      fmt::format("<p>Store {}, {}, as of {}.</p>\n", escaped_markup(report.store),
                  report.jobs.size() == 1 ? "1 job" : fmt::format("{} jobs", report.jobs.size()),
                  show_local_time(report.made_unix_ns));
  html +=
      "<p>The store tells of the checkpoints that it still has: pruned ones are not shown, and a "
      "part that was merged does not tell when it became durable.</p>\n";
  for (const JobReport& job : report.jobs) html += section_of(job);
  return html + "</body>\n</html>\n";
}

}  // namespace gpusnap
