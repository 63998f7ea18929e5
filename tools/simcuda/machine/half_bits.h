// The half-precision formats, and their conversion from and to f64.
#pragma once

#include "tools/simcuda/machine/float_bits.h"

namespace simcuda::SIMCUDA_ISA {

struct F16 {
  static constexpr int kMantissa = 10;
  static constexpr int kBias = 15;
};
struct BF16 {
  static constexpr int kMantissa = 7;
  static constexpr int kBias = 127;
};
template <class F>
inline constexpr uint32_t kHalfInfinity = uint32_t(2 * F::kBias + 1) << F::kMantissa;
inline constexpr uint16_t kHalfNan = 0x7fff;

// 2^e for exponents of normal doubles.
inline double power(int e) {
  return bits_as<double>(uint64_t(e + 1023) << 52);
}

template <class F>
inline double widened(uint16_t h) {
  const uint32_t magnitude = h & 0x7fff;
  const uint32_t mantissa = magnitude & ((1u << F::kMantissa) - 1);
  const int exponent = int(magnitude >> F::kMantissa);
  double v;
  if (magnitude >= kHalfInfinity<F>) {
    v = magnitude > kHalfInfinity<F> ? __builtin_nan("") : __builtin_inf();
  } else if (exponent == 0) {
    v = double(mantissa) * power(1 - F::kBias - F::kMantissa);
  } else {
    v = double(mantissa | 1u << F::kMantissa) * power(exponent - F::kBias - F::kMantissa);
  }
  return h & 0x8000 ? -v : v;
}

template <class F>
inline uint16_t narrowed(double x, Rounding rounding) {
  if (x != x) return kHalfNan;
  const bool negative = __builtin_signbit(x);
  const uint32_t sign = negative ? 0x8000 : 0;
  const double magnitude = __builtin_fabs(x);
  constexpr uint32_t kInfinity = kHalfInfinity<F>;
  if (magnitude == __builtin_inf()) return uint16_t(sign | kInfinity);
  int exponent = int(bits_as<uint64_t>(magnitude) >> 52) - 1023;
  if (exponent < 1 - F::kBias) exponent = 1 - F::kBias;
  const bool away = rounding == (negative ? Rounding::kDown : Rounding::kUp);
  if (exponent > F::kBias) {
    return uint16_t(sign | (rounding == Rounding::kNearest || away ? kInfinity : kInfinity - 1));
  }
  // In units of the last place; both factors are powers of two, so this is exact.
  const double units = magnitude * power(F::kMantissa - exponent);
  auto n = uint32_t(units);
  const double rest = units - n;
  const bool up =
      rounding == Rounding::kNearest ? rest > 0.5 || (rest == 0.5 && (n & 1)) : away && rest > 0;
  n += up ? 1 : 0;
  // A carry out of the mantissa runs into the exponent, up to infinity. A number below the normal
  // ones has no leading bit to take away.
  const uint32_t bits = n + (uint32_t(exponent - 1 + F::kBias) << F::kMantissa);
  return uint16_t(sign | bits);
}

template <class F>
inline uint16_t half_flushed(uint16_t h) {
  return (h & kHalfInfinity<F>) == 0 ? uint16_t(h & 0x8000) : h;
}

}  // namespace simcuda::SIMCUDA_ISA
