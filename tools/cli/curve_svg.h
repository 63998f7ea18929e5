// Charts of curves and points as SVG text: what `calibrate --svg` writes.
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
  bool joined = true;  // by a line; else dots
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
};

// One below the other. Axes begin at 0; what is not finite or negative is left out.
std::string charts_as_svg(const std::vector<Chart>& charts);

}  // namespace gpusnap
