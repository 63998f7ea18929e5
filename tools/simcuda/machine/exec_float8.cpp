// The formats of 8 bits, and tf32.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/half_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

// e4m3 has no infinity: of its largest exponent, only the last number is none. e5m2 is the upper
// half of an f16.
struct E4M3 {
  static constexpr int kMantissa = 3;
  static constexpr int kBias = 7;
  static constexpr double kLargest = 448;
  static constexpr uint32_t kLargestBits = 0x7e;
};
struct E5M2 {
  static constexpr int kMantissa = 2;
  static constexpr int kBias = 15;
  static constexpr double kLargest = 57344;
  static constexpr uint32_t kLargestBits = 0x7b;
};
constexpr uint32_t kNan8 = 0x7f;  // of both

template <class F>
inline uint32_t eighth(double x, uint8_t flags) {
  if (x != x) return kNan8;
  if ((flags & kRelu) && x <= 0) return 0;
  const uint32_t sign = __builtin_signbit(x) ? 0x80 : 0;
  const double magnitude = __builtin_fabs(x);
  if (magnitude >= F::kLargest) return sign | F::kLargestBits;
  int exponent = int(bits_as<uint64_t>(magnitude) >> 52) - 1023;
  if (exponent < 1 - F::kBias) exponent = 1 - F::kBias;
  const double units = magnitude * power(F::kMantissa - exponent);
  auto n = uint32_t(units);
  const double rest = units - n;
  n += rest > 0.5 || (rest == 0.5 && (n & 1)) ? 1 : 0;
  const uint32_t bits = n + (uint32_t(exponent - 1 + F::kBias) << F::kMantissa);
  return sign | bits;
}

template <class F>
bool narrow(WarpView& w, const Op& op, uint32_t mask) {
  const float* a = source<float>(w, op.slot[1]);
  const float* b = source<float>(w, op.slot[2]);
  alignas(64) uint16_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    r[i] = uint16_t(eighth<F>(double(a[i]), op.flags) << 8 | eighth<F>(double(b[i]), op.flags));
  }
  write(destination<uint16_t>(w, op.slot[0]), r, mask);
  return true;
}

template <class F>
inline uint32_t widened8(uint32_t bits, uint8_t flags) {
  const uint32_t magnitude = bits & 0x7f;
  const int exponent = int(magnitude >> F::kMantissa);
  const uint32_t mantissa = magnitude & ((1u << F::kMantissa) - 1);
  if (F::kMantissa == 2) {
    if (exponent == 2 * F::kBias + 1 && mantissa != 0) return kHalfNan;
    return (flags & kRelu) && (bits & 0x80) ? 0 : bits << 8;
  }
  if (magnitude == kNan8) return kHalfNan;
  const double value = exponent == 0 ? double(mantissa) * power(1 - F::kBias - F::kMantissa)
                                     : double(mantissa | 1u << F::kMantissa) *
                                           power(exponent - F::kBias - F::kMantissa);
  if (bits & 0x80) return flags & kRelu ? 0 : narrowed<F16>(-value, Rounding::kNearest);
  return narrowed<F16>(value, Rounding::kNearest);
}

template <class F>
bool widen(WarpView& w, const Op& op, uint32_t mask) {
  const uint16_t* a = source<uint16_t>(w, op.slot[1]);
  alignas(64) uint32_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    r[i] = widened8<F>(uint32_t(a[i]) >> 8, op.flags) << 16 | widened8<F>(a[i] & 0xff, op.flags);
  }
  write(destination<uint32_t>(w, op.slot[0]), r, mask);
  return true;
}

constexpr uint32_t kTf32Dropped = 13;  // bits of an f32's mantissa
template <bool kAway>
struct ToTf32 {
  static uint32_t of(uint32_t a) {
    if ((a & 0x7fffffff) > kInfinityBits<float>) return kCanonicalNan;
    const uint32_t half = 1u << (kTf32Dropped - 1);
    const uint32_t even = (a >> kTf32Dropped) & 1;
    const uint32_t rounded = a + (kAway ? half : half - 1 + even);
    return rounded >> kTf32Dropped << kTf32Dropped;
  }
};

}  // namespace

Handler to_float8_handler(Float8 to) {
  return to == Float8::kE4M3 ? narrow<E4M3> : narrow<E5M2>;
}

Handler from_float8_handler(Float8 from) {
  return from == Float8::kE4M3 ? widen<E4M3> : widen<E5M2>;
}

Handler to_tf32_handler(bool ties_away) {
  return ties_away ? unary<ToTf32<true>, uint32_t, uint32_t>
                   : unary<ToTf32<false>, uint32_t, uint32_t>;
}

}  // namespace simcuda::SIMCUDA_ISA
