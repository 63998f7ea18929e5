// The curve against what it must be by definition, computed in another way.
#include "tiers/placement/bspline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

std::vector<double> samples_of(const std::function<double(double)>& function, double start,
                               double step, size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(function(start + step * double(i)));
  return values;
}

BSpline curve_of(double start, double step, const std::vector<double>& values) {
  return BSpline::through(start, step, values).value();
}

// The interpolating cubic spline with given slopes at its ends, by its second derivatives at the
// samples and piecewise polynomials: no B-splines, and a dense system. The step is 1.
class MomentSpline {
 public:
  MomentSpline(std::vector<double> values, double left, double right)
      : values_(std::move(values)), moments_(values_.size()) {
    const size_t n = values_.size();
    std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
    rows[0][0] = 2;
    rows[0][1] = 1;
    rows[0][n] = 6 * (values_[1] - values_[0] - left);
    rows[n - 1][n - 1] = 2;
    rows[n - 1][n - 2] = 1;
    rows[n - 1][n] = 6 * (right - values_[n - 1] + values_[n - 2]);
    for (size_t i = 1; i + 1 < n; ++i) {
      rows[i][i - 1] = rows[i][i + 1] = 1;
      rows[i][i] = 4;
      rows[i][n] = 6 * (values_[i - 1] - 2 * values_[i] + values_[i + 1]);
    }
    solve(rows);
  }

  double at(double x) const {
    const size_t i = std::min(static_cast<size_t>(x), values_.size() - 2);
    const double u = x - double(i);
    const double v = 1 - u;
    return values_[i] * v + values_[i + 1] * u +
           ((v * v * v - v) * moments_[i] + (u * u * u - u) * moments_[i + 1]) / 6;
  }

 private:
  // By Gauss and Jordan; the matrix is dominated by its diagonal.
  void solve(std::vector<std::vector<double>>& rows) {
    const size_t n = rows.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        if (k == i) continue;
        const double factor = rows[k][i] / rows[i][i];
        for (size_t j = i; j <= n; ++j) rows[k][j] -= factor * rows[i][j];
      }
    }
    for (size_t i = 0; i < n; ++i) moments_[i] = rows[i][n] / rows[i][i];
  }

  std::vector<double> values_;
  std::vector<double> moments_;
};

TEST(BSplineTest, GoesThroughItsSamples) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> value(-1e9, 1e9);
  for (size_t count = 1; count <= 40; ++count) {
    const auto values = samples_of([&](double) { return value(random); }, 0, 1, count);
    const BSpline curve = curve_of(1, 12, values);
    for (size_t i = 0; i < count; ++i) EXPECT_NEAR(curve.at(1 + 12 * double(i)), values[i], 1e-3);
  }
}

TEST(BSplineTest, IsTheSplineOfAnIndependentComputation) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> value(-1, 1);
  for (size_t count = 5; count <= 40; ++count) {
    const auto f = samples_of([&](double) { return value(random); }, 0, 1, count);
    const size_t n = count - 1;
    // The one-sided five-point formulas of the textbooks.
    const double left = (-25 * f[0] + 48 * f[1] - 36 * f[2] + 16 * f[3] - 3 * f[4]) / 12;
    const double right =
        (25 * f[n] - 48 * f[n - 1] + 36 * f[n - 2] - 16 * f[n - 3] + 3 * f[n - 4]) / 12;
    const MomentSpline expected(f, left, right);
    const BSpline curve = curve_of(-7, 0.5, f);
    for (double x = 0; x <= double(n); x += 0.0625) {
      ASSERT_NEAR(curve.at(-7 + x / 2), expected.at(x), 1e-11) << count << " samples, " << x;
    }
  }
}

// A spline with good slopes at its ends is the cubic itself, between samples and up to the ends.
TEST(BSplineTest, GivesCubicsBackFromFourSamplesOn) {
  const auto cubic = [](double x) { return 3 - 2 * x + 0.5 * x * x - 0.125 * x * x * x; };
  for (size_t count = 4; count <= 12; ++count) {
    const BSpline curve = curve_of(2, 3, samples_of(cubic, 2, 3, count));
    const double last = 2 + 3 * double(count - 1);
    for (double x = 2; x <= last; x += 0.25) ASSERT_NEAR(curve.at(x), cubic(x), 1e-9) << count;
  }
}

TEST(BSplineTest, GivesLowerPolynomialsBackFromFewerSamples) {
  const auto square = [](double x) { return 1 + x * x; };
  const BSpline three = curve_of(0, 2, samples_of(square, 0, 2, 3));
  for (double x = 0; x <= 4; x += 0.25) EXPECT_NEAR(three.at(x), square(x), 1e-12);
  const BSpline two = curve_of(1, 4, {10, 30});
  for (double x = 1; x <= 5; x += 0.25) EXPECT_NEAR(two.at(x), 10 + 5 * (x - 1), 1e-12);
  const BSpline one = curve_of(1, 1, {42});
  for (double x = -3; x <= 5; x += 0.25) EXPECT_NEAR(one.at(x), 42, 1e-12);
}

TEST(BSplineTest, StaysAtItsEndsBeyondThem) {
  const BSpline curve = curve_of(1, 10, {5, 9, 4, 8, 2, 7});
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double x : {0.999, 0.0, -1e9, -infinite}) EXPECT_NEAR(curve.at(x), 5, 1e-12);
  for (const double x : {51.001, 60.0, 1e9, infinite}) EXPECT_NEAR(curve.at(x), 7, 1e-12);
}

TEST(BSplineTest, RefusesWhatIsNoCurve) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> good = {1, 2, 3, 4, 5};
  EXPECT_EQ(BSpline::through(0, 1, {}).status().code(), Code::kInvalid);
  for (const double step : {0.0, -1.0, nan, 1e300}) {
    EXPECT_EQ(BSpline::through(0, step, good).status().code(), Code::kInvalid) << step;
  }
  EXPECT_EQ(BSpline::through(nan, 1, good).status().code(), Code::kInvalid);
  for (const double value : {nan, 1e300, -std::numeric_limits<double>::infinity()}) {
    const std::vector<double> values = {1, 2, value, 4, 5};
    EXPECT_EQ(BSpline::through(0, 1, values).status().code(), Code::kInvalid) << value;
  }
}

}  // namespace
}  // namespace gpusnap
