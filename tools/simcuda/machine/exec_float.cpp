// f32 and f64 arithmetic that IEEE 754 defines. Built without contraction of floating-point
// expressions: a product and a sum are two roundings unless the instruction is an fma.
#include <xmmintrin.h>

#include <type_traits>

#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

template <class T, uint8_t kFlags>
inline T input(T x) {
  if constexpr ((kFlags & kFlush) != 0) return flushed(x);
  return x;
}
// `r` is canonical already.
template <class T, uint8_t kFlags>
inline T output(T r) {
  if constexpr ((kFlags & kSaturate) != 0) r = saturated(r);
  if constexpr ((kFlags & kFlush) != 0) r = flushed(r);
  return r;
}
template <class... Operands>
inline float settled(float r, Operands...) {
  return canonical(r);
}
template <class... Operands>
inline double settled(double r, Operands... operands) {
  return with_payload(r, operands...);
}

inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
inline float root(float a) {
  return __builtin_sqrtf(a);
}
inline double root(double a) {
  return __builtin_sqrt(a);
}

struct Add {
  template <class T>
  static T of(T a, T b) {
    return settled(a + b, a, b);
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return settled(a - b, a, b);
  }
};
struct Mul {
  template <class T>
  static T of(T a, T b) {
    return settled(a * b, a, b);
  }
};
struct Div {
  template <class T>
  static T of(T a, T b) {
    return settled(a / b, a, b);
  }
};
// The dividend times the reciprocal, which is 0 where it would be a denormal, at magnitudes above
// 2^126 (section "div" of the PTX manual).
struct ApproximateDiv {
  static float of(float a, float b) {
    const float magnitude = __builtin_fabsf(b);
    const bool vanishes = magnitude > 0x1p126f && magnitude < kInfinity;
    return settled(vanishes ? a * __builtin_copysignf(0, b) : a / b, a, b);
  }

 private:
  static constexpr float kInfinity = __builtin_inff();
};
struct Fma {
  template <class T>
  static T of(T a, T b, T c) {
    return settled(fused(a, b, c), a, b, c);
  }
};
struct Rcp {
  template <class T>
  static T of(T a) {
    return settled(T(1) / a, a);
  }
};
struct Sqrt {
  template <class T>
  static T of(T a) {
    return settled(root(a), a);
  }
};

// A number wins over NaN; -0 is less than +0.
struct Min {
  template <class T>
  static T of(T a, T b) {
    const T equal = bits_as<T>(bits_as<FloatBits<T>>(a) | bits_as<FloatBits<T>>(b));
    const T r = a < b ? a : a == b ? equal : b;
    return a != a ? settled(b, a) : b != b ? a : r;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    const T equal = bits_as<T>(bits_as<FloatBits<T>>(a) & bits_as<FloatBits<T>>(b));
    const T r = a > b ? a : a == b ? equal : b;
    return a != a ? settled(b, a) : b != b ? a : r;
  }
};
template <class F>
struct OrNan {
  template <class T>
  static T of(T a, T b) {
    return ((a != a) | (b != b)) ? settled(a + b, a, b) : F::of(a, b);
  }
};

// Only the sign changes, whatever the rest is.
struct Abs {
  template <class T>
  static T of(T a) {
    return bits_as<T>(bits_as<FloatBits<T>>(a) & ~kSignBit<T>);
  }
};
struct Neg {
  template <class T>
  static T of(T a) {
    return bits_as<T>(bits_as<FloatBits<T>>(a) ^ kSignBit<T>);
  }
};
struct CopySign {
  template <class T>
  static T of(T a, T b) {
    return bits_as<T>((bits_as<FloatBits<T>>(a) & kSignBit<T>) |
                      (bits_as<FloatBits<T>>(b) & ~kSignBit<T>));
  }
};

template <class F, class T, uint8_t kFlags>
struct With {
  static T of(T a) { return output<T, kFlags>(F::of(input<T, kFlags>(a))); }
  static T of(T a, T b) {
    return output<T, kFlags>(F::of(input<T, kFlags>(a), input<T, kFlags>(b)));
  }
  static T of(T a, T b, T c) {
    return output<T, kFlags>(F::of(input<T, kFlags>(a), input<T, kFlags>(b), input<T, kFlags>(c)));
  }
};

template <class T, uint8_t kFlags>
Handler choose(FloatOp op) {
  switch (op) {
    case FloatOp::kAdd:
      return binary<With<Add, T, kFlags>, T, T>;
    case FloatOp::kSub:
      return binary<With<Sub, T, kFlags>, T, T>;
    case FloatOp::kMul:
      return binary<With<Mul, T, kFlags>, T, T>;
    case FloatOp::kFma:
      return ternary<With<Fma, T, kFlags>, T, T>;
    default:
      break;
  }
  if constexpr ((kFlags & kSaturate) == 0) {
    switch (op) {
      case FloatOp::kDiv:
        return binary<With<Div, T, kFlags>, T, T>;
      case FloatOp::kApproximateDiv:
        if constexpr (std::is_same_v<T, float>)
          return binary<With<ApproximateDiv, T, kFlags>, T, T>;
        break;
      case FloatOp::kRcp:
        return unary<With<Rcp, T, kFlags>, T, T>;
      case FloatOp::kSqrt:
        return unary<With<Sqrt, T, kFlags>, T, T>;
      case FloatOp::kMin:
        return binary<With<Min, T, kFlags>, T, T>;
      case FloatOp::kMax:
        return binary<With<Max, T, kFlags>, T, T>;
      case FloatOp::kMinNan:
        return binary<With<OrNan<Min>, T, kFlags>, T, T>;
      case FloatOp::kMaxNan:
        return binary<With<OrNan<Max>, T, kFlags>, T, T>;
      case FloatOp::kAbs:
        return unary<With<Abs, T, kFlags>, T, T>;
      case FloatOp::kNeg:
        return unary<With<Neg, T, kFlags>, T, T>;
      case FloatOp::kCopySign:
        return binary<With<CopySign, T, kFlags>, T, T>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

Handler floating_handler(FloatOp op, Num type, uint8_t flags) {
  if (Handler h = approximate_handler(op, type, flags)) return h;
  if (type == Num::kF64) return flags == 0 ? choose<double, 0>(op) : nullptr;
  if (type != Num::kF32) return nullptr;
  switch (flags) {
    case 0:
      return choose<float, 0>(op);
    case kFlush:
      return choose<float, kFlush>(op);
    case kSaturate:
      return choose<float, kSaturate>(op);
    case kFlush | kSaturate:
      return choose<float, kFlush | kSaturate>(op);
    default:
      return nullptr;
  }
}

// The wrapped handler is reached through a pointer, so no operation of it can be moved out of the
// stretch in which the mode is set. The x87 mode does not matter: none of its instructions is used.
bool rounded(WarpView& w, const Op& op, uint32_t mask) {
  constexpr unsigned kModes[] = {_MM_ROUND_NEAREST, _MM_ROUND_TOWARD_ZERO, _MM_ROUND_DOWN,
                                 _MM_ROUND_UP};
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~unsigned(_MM_ROUND_MASK)) | kModes[uint8_t(op.rounding)]);
  const bool ok = op.inner(w, op, mask);
  _mm_setcsr(before);
  return ok;
}

}  // namespace simcuda::SIMCUDA_ISA
