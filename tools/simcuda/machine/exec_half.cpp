// Half-precision formats: f16 and bf16, alone and in pairs. Values are widened to f64, where every
// sum and product of two is exact (or, for an fma, rounded to odd), and rounded once.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/half_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

// The exact a * b + c, its last bit set where it was not representable.
inline double fused_to_odd(double a, double b, double c) {
  const double p = a * b;
  const double s = p + c;
  if (!(__builtin_fabs(s) < __builtin_inf())) return s;
  const double c_there = s - p;
  const double error = (p - (s - c_there)) + (c - c_there);
  const auto bits = bits_as<uint64_t>(s);
  if (error == 0 || (bits & 1)) return s;
  return bits_as<double>((error > 0) == (s > 0) ? bits + 1 : bits - 1);
}

template <HalfOp kOp>
inline double compute(double a, double b, double c) {
  switch (kOp) {
    case HalfOp::kAdd:
      return a + b;
    case HalfOp::kSub:
      return a - b;
    case HalfOp::kMul:
      return a * b;
    case HalfOp::kFma:
      return fused_to_odd(a, b, c);
    case HalfOp::kMin:
    case HalfOp::kMinNan:
      if (a != a || b != b) return kOp == HalfOp::kMinNan ? a + b : a != a ? b : a;
      return a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b;
    case HalfOp::kMax:
    case HalfOp::kMaxNan:
      if (a != a || b != b) return kOp == HalfOp::kMaxNan ? a + b : a != a ? b : a;
      return a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b;
    case HalfOp::kAbs:
    case HalfOp::kNeg:
      return 0;
  }
  return 0;
}

template <class F, HalfOp kOp>
inline uint16_t one(uint16_t a, uint16_t b, uint16_t c, const Op& op) {
  if (op.flags & kFlush) {
    a = half_flushed<F>(a);
    b = half_flushed<F>(b);
    c = half_flushed<F>(c);
  }
  if (kOp == HalfOp::kAbs) return uint16_t(a & 0x7fff);
  if (kOp == HalfOp::kNeg) return uint16_t(a ^ 0x8000);
  double r = compute<kOp>(widened<F>(a), widened<F>(b), widened<F>(c));
  if (op.flags & kSaturate) r = saturated(r);
  if ((op.flags & kRelu) && r <= 0) r = 0;
  uint16_t h = narrowed<F>(r, op.rounding);
  if (op.flags & kFlush) h = half_flushed<F>(h);
  return h;
}

inline constexpr bool is_unary(HalfOp op) {
  return op == HalfOp::kAbs || op == HalfOp::kNeg;
}

// T: one value (16 bits) or two (32).
template <class F, HalfOp kOp, class T>
bool half(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[1]);
  const T* b = is_unary(kOp) ? a : source<T>(w, op.slot[2]);
  const T* c = kOp == HalfOp::kFma ? source<T>(w, op.slot[3]) : a;
  alignas(64) T r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    r[i] = one<F, kOp>(uint16_t(a[i]), uint16_t(b[i]), uint16_t(c[i]), op);
    if constexpr (sizeof(T) == 4) {
      const uint16_t high =
          one<F, kOp>(uint16_t(a[i] >> 16), uint16_t(b[i] >> 16), uint16_t(c[i] >> 16), op);
      r[i] |= T(high) << 16;
    }
  }
  write(destination<T>(w, op.slot[0]), r, mask);
  return true;
}

template <class F, class T>
Handler choose(HalfOp op) {
  switch (op) {
    case HalfOp::kAdd:
      return half<F, HalfOp::kAdd, T>;
    case HalfOp::kSub:
      return half<F, HalfOp::kSub, T>;
    case HalfOp::kMul:
      return half<F, HalfOp::kMul, T>;
    case HalfOp::kFma:
      return half<F, HalfOp::kFma, T>;
    case HalfOp::kMin:
      return half<F, HalfOp::kMin, T>;
    case HalfOp::kMax:
      return half<F, HalfOp::kMax, T>;
    case HalfOp::kMinNan:
      return half<F, HalfOp::kMinNan, T>;
    case HalfOp::kMaxNan:
      return half<F, HalfOp::kMaxNan, T>;
    case HalfOp::kAbs:
      return half<F, HalfOp::kAbs, T>;
    case HalfOp::kNeg:
      return half<F, HalfOp::kNeg, T>;
  }
  return nullptr;
}

// As an f64, its last bit set where that is not exact: it is rounded once more.
inline double to_odd(uint64_t a) {
  const int beyond = a == 0 ? 0 : 11 - __builtin_clzll(a);  // bits that f64 has no place for
  if (beyond <= 0) return double(a);
  const uint64_t rest = a & ((uint64_t(1) << beyond) - 1);
  return double((a >> beyond | uint64_t(rest != 0)) << beyond);
}
inline double to_odd(int64_t a) {
  return a < 0 ? -to_odd(0 - uint64_t(a)) : to_odd(uint64_t(a));
}
inline double to_odd(double a) {
  return a;
}
inline double to_odd(float a) {
  return double(a);
}

template <class F, class From>
bool narrow(WarpView& w, const Op& op, uint32_t mask) {
  const From* a = source<From>(w, op.slot[1]);
  alignas(64) uint16_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    double x = to_odd(a[i]);
    if (op.flags & kSaturate) x = saturated(x);
    if ((op.flags & kRelu) && x <= 0) x = 0;
    r[i] = narrowed<F>(x, op.rounding);
  }
  write(destination<uint16_t>(w, op.slot[0]), r, mask);
  return true;
}

// Two values; the first goes to the upper half.
template <class F>
bool narrow_pair(WarpView& w, const Op& op, uint32_t mask) {
  const float* a = source<float>(w, op.slot[1]);
  const float* b = source<float>(w, op.slot[2]);
  alignas(64) uint32_t r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    double high = double(a[i]), low = double(b[i]);
    if (op.flags & kRelu) {
      high = high <= 0 ? 0 : high;
      low = low <= 0 ? 0 : low;
    }
    r[i] = uint32_t(narrowed<F>(high, op.rounding)) << 16 | narrowed<F>(low, op.rounding);
  }
  write(destination<uint32_t>(w, op.slot[0]), r, mask);
  return true;
}

template <class F, class To>
bool widen(WarpView& w, const Op& op, uint32_t mask) {
  const uint16_t* a = source<uint16_t>(w, op.slot[1]);
  alignas(64) To r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    To x = To(widened<F>(a[i]));
    if constexpr (sizeof(To) == 4) x = canonical(x);
    if (op.flags & kSaturate) x = saturated(x);
    // A denormal bf16 is a denormal f32 as well.
    if constexpr (sizeof(To) == 4) x = op.flags & kFlush ? flushed(x) : x;
    r[i] = x;
  }
  write(destination<To>(w, op.slot[0]), r, mask);
  return true;
}

}  // namespace

Handler half_handler(HalfOp op, Half type) {
  switch (type) {
    case Half::kF16:
      return choose<F16, uint16_t>(op);
    case Half::kF16x2:
      return choose<F16, uint32_t>(op);
    case Half::kBF16:
      return choose<BF16, uint16_t>(op);
    case Half::kBF16x2:
      return choose<BF16, uint32_t>(op);
  }
  return nullptr;
}

Handler to_half_handler(Num from, Half to) {
  if (to == Half::kF16x2) return from == Num::kF32 ? narrow_pair<F16> : nullptr;
  if (to == Half::kBF16x2) return from == Num::kF32 ? narrow_pair<BF16> : nullptr;
  if (from == Num::kF32) return to == Half::kF16 ? narrow<F16, float> : narrow<BF16, float>;
  if (from == Num::kF64) return to == Half::kF16 ? narrow<F16, double> : narrow<BF16, double>;
  if (from == Num::kS64) return to == Half::kF16 ? narrow<F16, int64_t> : narrow<BF16, int64_t>;
  if (from == Num::kU64) return to == Half::kF16 ? narrow<F16, uint64_t> : narrow<BF16, uint64_t>;
  return nullptr;
}

Handler from_half_handler(Half from, Num to) {
  if (from == Half::kF16) {
    return to == Num::kF32 ? widen<F16, float> : to == Num::kF64 ? widen<F16, double> : nullptr;
  }
  if (from == Half::kBF16) {
    return to == Num::kF32 ? widen<BF16, float> : to == Num::kF64 ? widen<BF16, double> : nullptr;
  }
  return nullptr;
}

}  // namespace simcuda::SIMCUDA_ISA
