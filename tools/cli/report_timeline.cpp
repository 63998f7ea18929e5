// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tools/cli/text.h"

namespace gpusnap {
namespace {

constexpr double kWidth = 760, kLeft = 70, kRight = 20, kTop = 8, kRow = 34, kAxis = 40;
constexpr double kRunHeight = 14, kWayHeight = 6, kNarrowest = 2;
constexpr size_t kMostRanks = 16;
constexpr int kTicks = 4;

// Where moments lie in the picture.
struct Axis {
  int64_t first_unix_ns = 0;
  int64_t last_unix_ns = 1;

  double x(int64_t unix_ns) const {
    const auto since = static_cast<double>(unix_ns - first_unix_ns);
    const auto all = static_cast<double>(last_unix_ns - first_unix_ns);
    return kLeft + (kWidth - kLeft - kRight) * since / all;
  }
};

Axis axis_of(const JobTimes& times) {
  Axis axis{INT64_MAX, INT64_MIN};
  for (const RunTimes& run : times.runs) {
    axis.first_unix_ns = std::min(axis.first_unix_ns, run.first_unix_ns);
    axis.last_unix_ns = std::max(axis.last_unix_ns, run.last_unix_ns);
  }
  axis.last_unix_ns = std::max(axis.last_unix_ns, axis.first_unix_ns + 1'000'000'000);
  return axis;
}

std::string bar(const char* kind, double x, double y, double width, double height,
                const std::string& about) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\">"
      "<title>{}</title></rect>\n",
      kind, x, y, std::max(kNarrowest, width), height, escaped_markup(about));
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\" text-anchor=\"{}\" "
      "font-family=\"sans-serif\">{}</text>\n",
      x, y, anchor, escaped_markup(text));
}

std::string runs_of(const JobTimes& times, uint32_t rank, double y, const Axis& axis) {
  std::string svg;
  size_t number = 0;
  for (const RunTimes& run : times.runs) {
    if (run.rank != rank) continue;
    const double x = axis.x(run.first_unix_ns);
    const std::string about =
        fmt::format("run {} on {}: first cut {}, last write {}", run.run, run.host,
                    show_local_time(run.first_unix_ns), show_local_time(run.last_unix_ns));
    svg += bar(number % 2 == 0 ? "run" : "run other", x, y, axis.x(run.last_unix_ns) - x,
               kRunHeight, about);
    ++number;
  }
  return svg;
}

std::string parts_of(const JobTimes& times, uint32_t rank, double y, const Axis& axis) {
  std::string svg;
  for (const PartTimes& part : times.parts) {
    if (part.rank != rank) continue;
    const double x = axis.x(part.cut_unix_ns);
    const std::string id = fmt::format("{}@{}", times.job, part.epoch);
    const auto held_ns = static_cast<uint64_t>(part.held_to_unix_ns - part.held_from_unix_ns);
    if (part.durable_unix_ns != 0) {
      const auto way_ns = static_cast<uint64_t>(part.durable_unix_ns - part.cut_unix_ns);
      svg += bar("way", x, y + kRunHeight + 3, axis.x(part.durable_unix_ns) - x, kWayHeight,
                 fmt::format("{}: durable after {}", id, show_nanoseconds(way_ns)));
    }
    svg += bar(part.parent == 0 ? "cut" : "cut increment", x - kNarrowest / 2, y, kNarrowest,
               kRunHeight,
               fmt::format("{}: cut at {}, held for {}", id, show_local_time(part.cut_unix_ns),
                           show_nanoseconds(held_ns)));
  }
  return svg;
}

std::string ticks(const Axis& axis, double bottom) {
  std::string svg;
  for (int tick = 0; tick <= kTicks; ++tick) {
    const int64_t step = (axis.last_unix_ns - axis.first_unix_ns) / kTicks;
    const int64_t when = axis.first_unix_ns + step * tick;
    const double x = axis.x(when);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", x,
        kTop, bottom);
    const char* const anchor = tick == 0 ? "start" : tick == kTicks ? "end" : "middle";
    const std::string text = show_local_time(when);
    // Day and time of day, one below the other.
    svg += label(x, bottom + 16, anchor, text.substr(text.find(' ') + 1));
    svg += label(x, bottom + 31, anchor, text.substr(0, text.find(' ')));
  }
  return svg;
}

}  // namespace

std::string timeline_as_svg(const JobTimes& times) {
  if (times.is_empty()) return {};
  std::map<uint32_t, double> rows;
  for (const RunTimes& run : times.runs) rows.emplace(run.rank, 0);
  const size_t all = rows.size();
  while (rows.size() > kMostRanks) rows.erase(std::prev(rows.end()));
  const Axis axis = axis_of(times);
  double y = kTop;
  std::string drawings;
  for (auto& [rank, top] : rows) {
    top = y;
    y += kRow;
  }
  drawings += ticks(axis, y);
  for (const auto& [rank, top] : rows) {
    drawings += label(kLeft - 8, top + 12, "end", fmt::format("rank {}", rank));
    drawings += runs_of(times, rank, top, axis) + parts_of(times, rank, top, axis);
  }
  y += kAxis;
  if (all > rows.size()) {
    y += 18;
    drawings += label(kLeft, y - 6, "start", fmt::format("and {} more ranks", all - rows.size()));
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" width=\"{0}\" "
             "height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
             kWidth, y) +
         drawings + "</svg>\n";
}

}  // namespace gpusnap
