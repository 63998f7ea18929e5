// The half-precision formats by their definition, and rounding to them by search.
#pragma once

#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test {

struct Format {
  const char* name;
  int mantissa, bias;
};
inline constexpr Format kFormats[] = {{"f16", 10, 15}, {"bf16", 7, 127}};

inline double half_value(uint64_t h, const Format& f) {
  const int exponent = static_cast<int>((h & 0x7fff) >> f.mantissa);
  const auto m = static_cast<double>(h & ((1u << f.mantissa) - 1));
  const double one = std::ldexp(1.0, f.mantissa);
  double v = 0;
  if (exponent == 2 * f.bias + 1) {
    v = m == 0 ? HUGE_VAL : NAN;
  } else {
    v = exponent == 0 ? std::ldexp(m, 1 - f.bias - f.mantissa)
                      : std::ldexp(one + m, exponent - f.bias - f.mantissa);
  }
  return h & 0x8000 ? -v : v;
}

// By search: the representable neighbours of x, and the choice that the mode makes.
inline uint64_t to_half(long double x, const Format& f, const std::string& mode) {
  if (std::isnan(x)) return 0x7fff;
  const uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  const long double m = std::fabs(x);
  const uint64_t infinity = static_cast<uint64_t>(2 * f.bias + 1) << f.mantissa;
  uint64_t below = 0, above = infinity;
  if (m >= half_value(infinity - 1, f)) {
    below = infinity - 1;
  } else {
    while (above - below > 1) {
      const uint64_t middle = (above + below) / 2;
      (static_cast<long double>(half_value(middle, f)) <= m ? below : above) = middle;
    }
  }
  if (std::isinf(x)) return sign | infinity;
  const long double a = half_value(below, f);
  if (a == m) return sign | below;
  // Beyond the largest number, its distance to the next counts.
  const long double b =
      above == infinity ? a + (a - half_value(below - 1, f)) : half_value(above, f);
  const bool up = mode == "rn"   ? (m - a > b - m || (m - a == b - m && (below & 1)))
                  : mode == "rp" ? sign == 0
                  : mode == "rm" ? sign != 0
                                 : false;
  return sign | (up ? below + 1 : below);
}

}  // namespace simcuda::test
