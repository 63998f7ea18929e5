// Charts of curves and points as SVG text: what `calibrate --svg` and `plan --svg` write.
#pragma once

#include <string>
#include <vector>

namespace gpusnap {

struct Curve {
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::string name;
  std::vector<Point> points;
  bool joined = true;   // by a line; else dots
  bool dashed = false;  // the line
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
  // Empty: the x axis begins at 0. Else it is logarithmic, from the first to the last of these.
  std::vector<double> x_ticks = {};
  // The y axis. The greatest value: 0 for that of the curves.
  double least_y = 0;
  double most_y = 0;
};

// One below the other. Points that are not finite, negative, or outside the axes are left out.
std::string charts_as_svg(const std::vector<Chart>& charts);

}  // namespace gpusnap
