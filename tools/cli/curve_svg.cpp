#include "tools/cli/curve_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gpusnap {
namespace {

constexpr double kWidth = 760, kHeight = 360, kLeft = 70, kRight = 20, kTop = 36, kBottom = 64;
constexpr int kTicks = 5;
constexpr std::array<const char*, 5> kColours = {"#e15759", "#4e79a7", "#59a14f", "#f28e2b",
                                                 "#b07aa1"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char character : text) {
    switch (character) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      default:
        safe += static_cast<unsigned char>(character) < 0x20 ? '?' : character;
    }
  }
  return safe;
}

std::string words(double x, double y, const std::string& text, const char* anchor, int size) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" "
      "font-family=\"sans-serif\">{}</text>\n",
      x, y, size, anchor, escaped(text));
}

// The least of 1, 2, 2.5, 5 times a power of ten that is not below the value.
double nice_top(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= value * 0.999) return factor * power;
  }
  return 10 * power;
}

bool is_shown(const Curve::Point& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.x >= 0 && point.y >= 0;
}

// Where the chart's values lie in the picture.
struct Frame {
  double top = 0;  // of the chart
  double most_x = 1;
  double most_y = 1;
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / most_x; }
  double y(double value) const {
    return top + kHeight - kBottom - (kHeight - kTop - kBottom) * value / most_y;
  }
};

std::string axes(const Chart& chart, const Frame& frame) {
  std::string svg = words(kLeft, frame.top + 20, chart.title, "start", 14);
  svg += words(kWidth / 2, frame.top + kHeight - 26, chart.x_label, "middle", 11);
  svg += words(8, frame.top + kTop - 4, chart.y_label, "start", 11);
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double x = frame.most_x * tick / kTicks;
    const double y = frame.most_y * tick / kTicks;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
        kWidth - kRight, frame.y(y), frame.y(y));
    svg += words(kLeft - 6, frame.y(y) + 4, fmt::format("{:.4g}", y), "end", 11);
    svg += words(frame.x(x), frame.y(0) + 15, fmt::format("{:.4g}", x), "middle", 11);
  }
  return svg;
}

std::string drawn(const Curve& curve, const Frame& frame, const char* colour) {
  std::string svg, line;
  for (const Curve::Point& point : curve.points) {
    if (!is_shown(point)) continue;
    const double x = frame.x(point.x), y = frame.y(point.y);
    if (curve.joined) {
      line += fmt::format("{:.1f},{:.1f} ", x, y);
    } else {
      svg +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
    }
  }
  if (!line.empty()) {
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                    line, colour);
  }
  return svg;
}

std::string as_svg(const Chart& chart, double top) {
  Frame frame{top, 0, 0};
  for (const Curve& curve : chart.curves) {
    for (const Curve::Point& point : curve.points) {
      if (!is_shown(point)) continue;
      frame.most_x = std::max(frame.most_x, point.x);
      frame.most_y = std::max(frame.most_y, point.y);
    }
  }
  frame.most_x = nice_top(frame.most_x);
  frame.most_y = nice_top(frame.most_y);
  std::string svg = axes(chart, frame);
  double legend = kLeft;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const char* const colour = kColours[i % kColours.size()];
    const std::string& name = chart.curves[i].name;
    svg += drawn(chart.curves[i], frame, colour);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                       legend, top + kHeight - 18, colour);
    svg += words(legend + 14, top + kHeight - 9, name, "start", 11);
    legend += 30 + 7 * static_cast<double>(name.size());
  }
  return svg;
}

}  // namespace

std::string charts_as_svg(const std::vector<Chart>& charts) {
  const double height = kHeight * static_cast<double>(charts.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  double top = 0;
  for (const Chart& chart : charts) {
    svg += as_svg(chart, top);
    top += kHeight;
  }
  return svg + "</svg>\n";
}

}  // namespace gpusnap
