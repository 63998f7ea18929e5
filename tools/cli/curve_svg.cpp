#include "tools/cli/curve_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/cli/text.h"

namespace gpusnap {
namespace {

constexpr double kWidth = 760, kHeight = 360, kLeft = 70, kRight = 20, kTop = 50, kBottom = 52;
constexpr double kLegendRow = 18, kLegendLetter = 7;
constexpr int kTicks = 5;
constexpr std::array<const char*, 8> kColours = {"#e15759", "#4e79a7", "#59a14f", "#f28e2b",
                                                 "#b07aa1", "#76b7b2", "#9c755f", "#333333"};

std::string words(double x, double y, const std::string& text, const char* anchor, int size) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" "
      "font-family=\"sans-serif\">{}</text>\n",
      x, y, size, anchor, escaped_markup(text));
}

// The least of 1, 2, 2.5, 4, 5 times a power of ten that is not below the value.
double nice_top(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 2.5, 4.0, 5.0}) {
    if (factor * power >= value * 0.999) return factor * power;
  }
  return 10 * power;
}

// Where the chart's values lie in the picture.
struct Frame {
  double top = 0;  // of the chart
  double least_x = 0;
  double most_x = 1;
  double least_y = 0;
  double most_y = 1;
  bool log_x = false;

  bool shows(const Curve::Point& point) const {
    return std::isfinite(point.x) && std::isfinite(point.y) && point.x >= least_x &&
           point.x <= most_x && point.y >= least_y && point.y <= most_y;
  }
  double x(double value) const {
    const double share = log_x ? std::log(value / least_x) / std::log(most_x / least_x)
                               : (value - least_x) / (most_x - least_x);
    return kLeft + (kWidth - kLeft - kRight) * share;
  }
  double y(double value) const {
    const double share = (value - least_y) / (most_y - least_y);
    return top + kHeight - kBottom - (kHeight - kTop - kBottom) * share;
  }
};

Frame frame_of(const Chart& chart, double top) {
  Frame frame{top, 0, 0, chart.least_y, 0, false};
  for (const Curve& curve : chart.curves) {
    for (const Curve::Point& point : curve.points) {
      if (std::isfinite(point.x)) frame.most_x = std::max(frame.most_x, point.x);
      if (std::isfinite(point.y)) frame.most_y = std::max(frame.most_y, point.y);
    }
  }
  frame.most_x = nice_top(frame.most_x);
  frame.most_y = chart.most_y > 0 ? chart.most_y : nice_top(frame.most_y);
  if (!chart.x_ticks.empty()) {
    frame.log_x = true;
    frame.least_x = chart.x_ticks.front();
    frame.most_x = chart.x_ticks.back();
  }
  return frame;
}

std::string axes(const Chart& chart, const Frame& frame) {
  const double bottom = frame.y(frame.least_y);
  std::string svg = words(kLeft, frame.top + 20, chart.title, "start", 14);
  svg += words((kLeft + kWidth - kRight) / 2, bottom + 34, chart.x_label, "middle", 12);
  svg += words(8, frame.top + kTop - 10, chart.y_label, "start", 12);
  std::vector<double> x_ticks = chart.x_ticks;
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double share = static_cast<double>(tick) / kTicks;
    const double y = frame.least_y + (frame.most_y - frame.least_y) * share;
    if (chart.x_ticks.empty()) x_ticks.push_back(frame.most_x * share);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
        kWidth - kRight, frame.y(y), frame.y(y));
    svg += words(kLeft - 6, frame.y(y) + 4, fmt::format("{:.4g}", y), "end", 12);
  }
  for (const double x : x_ticks) {
    svg += words(frame.x(x), bottom + 16, fmt::format("{:.6g}", x), "middle", 12);
  }
  return svg;
}

std::string drawn(const Curve& curve, const Frame& frame, const char* colour) {
  std::string svg, line;
  for (const Curve::Point& point : curve.points) {
    if (!frame.shows(point)) continue;
    const double x = frame.x(point.x), y = frame.y(point.y);
    if (curve.joined) {
      line += fmt::format("{:.1f},{:.1f} ", x, y);
    } else {
      svg +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y, colour);
    }
  }
  if (!line.empty()) {
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{}/>\n", line,
        colour, curve.dashed ? " stroke-dasharray=\"6 4\"" : "");
  }
  return svg;
}

const char* colour_of(size_t curve) {
  return kColours[curve % kColours.size()];
}

std::string legend_mark(const Curve& curve, double x, double y, const char* colour) {
  if (!curve.joined) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x + 7, y - 4,
                       colour);
  }
  return fmt::format(
      "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"3\"{}/>\n",
      x, x + 16, y - 4, y - 4, colour, curve.dashed ? " stroke-dasharray=\"5 3\"" : "");
}

// Below the chart, in as many rows as it needs; `height` becomes theirs.
std::string legend(const Chart& chart, double top, double& height) {
  std::string svg;
  double x = kLeft, y = top + kLegendRow / 2;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const Curve& curve = chart.curves[i];
    const double width = 40 + kLegendLetter * static_cast<double>(curve.name.size());
    if (x > kLeft && x + width > kWidth - kRight) {
      x = kLeft;
      y += kLegendRow;
    }
    svg += legend_mark(curve, x, y, colour_of(i));
    svg += words(x + 22, y, curve.name, "start", 12);
    x += width;
  }
  height = y + kLegendRow / 2 - top;
  return svg;
}

std::string as_svg(const Chart& chart, double top, double& height) {
  const Frame frame = frame_of(chart, top);
  std::string svg = axes(chart, frame);
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    svg += drawn(chart.curves[i], frame, colour_of(i));
  }
  svg += legend(chart, top + kHeight, height);
  height += kHeight;
  return svg;
}

}  // namespace

std::string charts_as_svg(const std::vector<Chart>& charts) {
  std::string drawings;
  double top = 0;
  for (const Chart& chart : charts) {
    double height = 0;
    drawings += as_svg(chart, top, height);
    top += height;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kWidth, top) +
         drawings + "</svg>\n";
}

}  // namespace gpusnap
