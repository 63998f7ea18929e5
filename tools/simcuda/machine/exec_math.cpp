// The approximate functions. Each is computed in double precision by plain sums and products, so
// that the result is the same on every host and, rounded to f32, correct but for rare ties: more
// exact than what PTX asks for. Range reductions are exact.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

// Adding and subtracting it rounds to an integer; the integer is then in the low bits.
constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52

inline double horner(double, double last) {
  return last;
}
template <class... Rest>
inline double horner(double x, double first, Rest... rest) {
  return first + x * horner(x, rest...);
}

// 2^x for |x| up to 1000.
inline double power_of_two(double x) {
  const double shifted = x + kRounder;
  const double z = (x - (shifted - kRounder)) * 0.6931471805599453094;
  const double p =
      horner(z, 1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
             1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600);
  const double scale = bits_as<double>((bits_as<uint64_t>(shifted) << 52) + (uint64_t(1023) << 52));
  return p * scale;
}
inline double clamped(double x, double limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

struct Ex2 {
  static float of(float a) {
    const auto r = float(power_of_two(clamped(double(a), 200.0)));
    return a == a ? r : bits_as<float>(kCanonicalNan);
  }
};

struct Lg2 {
  static float of(float a) {
    const auto bits = bits_as<uint64_t>(double(a));
    const uint64_t upper = (bits & 0xfffffffffffff) > 0x6a09e667f3bcc ? 1 : 0;  // above sqrt(2)
    const double m = bits_as<double>((bits & 0xfffffffffffff) | (1023 - upper) << 52);
    const double e = double(int32_t(bits >> 52 & 0x7ff) - 1023 + int32_t(upper));
    const double s = (m - 1.0) / (m + 1.0);
    const double p = horner(s * s, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
                            1.0 / 15, 1.0 / 17, 1.0 / 19);
    const auto r = float(e + s * 2.8853900817779268147 * p);
    const float infinity = __builtin_inff();
    if (a != a || a < 0) return bits_as<float>(kCanonicalNan);
    return a == 0 ? -infinity : a == infinity ? infinity : r;
  }
};

struct Rsqrt {
  static float of(float a) { return canonical(float(1.0 / __builtin_sqrt(double(a)))); }
  static double of(double a) { return with_payload(1.0 / __builtin_sqrt(a), a); }
};

struct Tanh {
  static float of(float a) {
    const double x = double(a);
    const double t = x * x;
    const double small = x * horner(t, 1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835,
                                    -1382.0 / 155925, 21844.0 / 6081075);
    const double far = clamped(x * 2.8853900817779268147, 80.0);
    const double large = 1.0 - 2.0 / (power_of_two(far) + 1.0);
    const double magnitude = x < 0 ? -x : x;
    return canonical(float(magnitude < 0.1 ? small : large));
  }
};

// Angles up to this size are reduced by a two-part pi/2, whose first part has 33 bits.
constexpr double kLargestAngle = 1048576.0;

template <bool kCosine>
inline float circular(double x) {
  const double shifted = x * 0.63661977236758134308 + kRounder;
  const double k = shifted - kRounder;
  const double r = (x - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11;
  const uint64_t quadrant = bits_as<uint64_t>(shifted) + (kCosine ? 1 : 0);
  const double t = r * r;
  const double sine = r * horner(t, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
                                 -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368000.0);
  const double cosine = horner(t, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                               1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0);
  const double v = quadrant & 1 ? cosine : sine;
  return canonical(float(quadrant & 2 ? -v : v));
}

template <bool kCosine, bool kFtz>
bool circular_lanes(WarpView& w, const Op& op, uint32_t mask) {
  const float* a = source<float>(w, op.slot[1]);
  alignas(64) double x[kLanes];
  alignas(64) float r[kLanes];
  SIMCUDA_LANES x[i] = double(kFtz ? flushed(a[i]) : a[i]);
  SIMCUDA_LANES r[i] = circular<kCosine>(x[i]);
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(__builtin_fabs(x[i]) <= kLargestAngle)) {
      r[i] = canonical(float(kCosine ? __builtin_cos(x[i]) : __builtin_sin(x[i])));
    }
  }
  if (kFtz) {
    SIMCUDA_LANES r[i] = flushed(r[i]);
  }
  write(destination<float>(w, op.slot[0]), r, mask);
  return true;
}

// The gross approximations see only the upper half of an f64 and give only that half.
constexpr uint64_t kUpperHalf = 0xffffffff00000000;
constexpr uint64_t kGrossNan = 0x7fffffff00000000;
inline double gross_input(double a) {
  return flushed(bits_as<double>(bits_as<uint64_t>(a) & kUpperHalf));
}
inline double gross_output(double r) {
  if (r != r) return bits_as<double>(kGrossNan);
  return flushed(bits_as<double>((bits_as<uint64_t>(r) + 0x80000000) & kUpperHalf));
}
inline bool is_nan(double a) {
  return a != a;
}
struct RcpGross {
  static double of(double a) {
    return is_nan(a) ? bits_as<double>(kGrossNan) : gross_output(1.0 / gross_input(a));
  }
};
struct RsqrtGross {
  static double of(double a) {
    return is_nan(a) ? bits_as<double>(kGrossNan)
                     : gross_output(1.0 / __builtin_sqrt(gross_input(a)));
  }
};

template <class F>
struct Flushing {
  static float of(float a) { return flushed(F::of(flushed(a))); }
};

template <class F>
Handler either(uint8_t flags) {
  return flags & kFlush ? unary<Flushing<F>, float, float> : unary<F, float, float>;
}

}  // namespace

Handler approximate_handler(FloatOp op, Num type, uint8_t flags) {
  if ((flags & ~kFlush) != 0) return nullptr;
  if (type == Num::kF64) {
    switch (op) {
      case FloatOp::kRsqrt:
        return flags ? nullptr : unary<Rsqrt, double, double>;
      case FloatOp::kRcpGross:
        return unary<RcpGross, double, double>;
      case FloatOp::kRsqrtGross:
        return unary<RsqrtGross, double, double>;
      default:
        return nullptr;
    }
  }
  switch (op) {
    case FloatOp::kEx2:
      return either<Ex2>(flags);
    case FloatOp::kLg2:
      return either<Lg2>(flags);
    case FloatOp::kRsqrt:
      return either<Rsqrt>(flags);
    case FloatOp::kTanh:
      return either<Tanh>(flags);
    case FloatOp::kSin:
      return flags ? circular_lanes<false, true> : circular_lanes<false, false>;
    case FloatOp::kCos:
      return flags ? circular_lanes<true, true> : circular_lanes<true, false>;
    default:
      return nullptr;
  }
}

}  // namespace simcuda::SIMCUDA_ISA
