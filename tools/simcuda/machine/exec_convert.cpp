// Conversions between integers and floating-point numbers. Directed rounding comes from the mode
// that `rounded` sets; roundings to integral values are explicit.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

// Signed types are extended by their sign, unsigned types by zeros.
template <class T, class To, class From>
struct Resized {
  static To of(From a) {
    if constexpr (kIsSigned<T>) return To(typename Related<To>::S(T(a)));
    return To(T(a));
  }
};

template <class T, class From>
Handler resize_to(uint32_t to_bits) {
  switch (to_bits) {
    case 16:
      if constexpr (sizeof(T) <= 2) return unary<Resized<T, uint16_t, From>, uint16_t, From>;
      return nullptr;
    case 32:
      if constexpr (sizeof(T) <= 4) return unary<Resized<T, uint32_t, From>, uint32_t, From>;
      return nullptr;
    case 64:
      return unary<Resized<T, uint64_t, From>, uint64_t, From>;
    default:
      return nullptr;
  }
}

template <class T>
Handler resize_from(uint32_t from_bits, uint32_t to_bits) {
  switch (from_bits) {
    case 16:
      if constexpr (sizeof(T) <= 2) return resize_to<T, uint16_t>(to_bits);
      return nullptr;
    case 32:
      if constexpr (sizeof(T) <= 4) return resize_to<T, uint32_t>(to_bits);
      return nullptr;
    case 64:
      return resize_to<T, uint64_t>(to_bits);
    default:
      return nullptr;
  }
}

// The slot that a type lives in.
template <class T>
struct SlotOf {
  using Type = T;
};
template <>
struct SlotOf<uint8_t> {
  using Type = uint16_t;
};
template <>
struct SlotOf<int8_t> {
  using Type = int16_t;
};

template <class From, class To>
struct Clamp {
  using Slot = typename SlotOf<To>::Type;
  static Slot of(From a) {
    if constexpr (!kIsSigned<From>) {
      return a > uint64_t(kHighest<To>) ? Slot(kHighest<To>) : Slot(To(a));
    } else if constexpr (kIsSigned<To>) {
      return a > int64_t(kHighest<To>)  ? Slot(kHighest<To>)
             : a < int64_t(kLowest<To>) ? Slot(kLowest<To>)
                                        : Slot(To(a));
    } else {
      return a < 0                                  ? Slot(0)
             : uint64_t(a) > uint64_t(kHighest<To>) ? Slot(kHighest<To>)
                                                    : Slot(To(a));
    }
  }
};

template <class From>
Handler clamp_from(Num to) {
  switch (to) {
    case Num::kU8:
      return unary<Clamp<From, uint8_t>, uint16_t, From>;
    case Num::kS8:
      return unary<Clamp<From, int8_t>, int16_t, From>;
    case Num::kU16:
      return unary<Clamp<From, uint16_t>, uint16_t, From>;
    case Num::kS16:
      return unary<Clamp<From, int16_t>, int16_t, From>;
    case Num::kU32:
      return unary<Clamp<From, uint32_t>, uint32_t, From>;
    case Num::kS32:
      return unary<Clamp<From, int32_t>, int32_t, From>;
    case Num::kU64:
      return unary<Clamp<From, uint64_t>, uint64_t, From>;
    case Num::kS64:
      return unary<Clamp<From, int64_t>, int64_t, From>;
    default:
      return nullptr;
  }
}

template <class To, bool kSat>
struct FromInteger {
  template <class From>
  static To of(From a) {
    const To r = To(a);
    return kSat ? saturated(r) : r;
  }
};
// Without a conversion instruction of the host, the compiler would make this one of several
// roundings; two halves that convert exactly leave a single one.
template <class To, bool kSat>
struct FromUnsigned64 {
  static To of(uint64_t a) {
    if constexpr (sizeof(To) == 8) {
      const To r = To(uint32_t(a >> 32)) * To(4294967296.0) + To(uint32_t(a));
      return kSat ? saturated(r) : r;
    } else {
      // Bits that cannot change the rounding of an f32 are gathered into one; then the value fits
      // a signed integer, and the host rounds once.
      const uint64_t gathered = a >> 63 ? (a >> 1) | (a & 1) : a;
      const To r = To(int64_t(gathered)) * (a >> 63 ? To(2) : To(1));
      return kSat ? saturated(r) : r;
    }
  }
};

template <class To, bool kSat>
Handler integer_to(Num from) {
  switch (from) {
    case Num::kS32:
      return unary<FromInteger<To, kSat>, To, int32_t>;
    case Num::kU32:
      return unary<FromInteger<To, kSat>, To, uint32_t>;
    case Num::kS64:
      return unary<FromInteger<To, kSat>, To, int64_t>;
    case Num::kU64:
      return unary<FromUnsigned64<To, kSat>, To, uint64_t>;
    default:
      return nullptr;
  }
}

// Exact for every double, without the rounding mode and without library calls.
inline double integral_value(double x, Integral mode) {
  const double magnitude = __builtin_fabs(x);
  if (!(magnitude < 4503599627370496.0)) return x;
  const double down = double(int64_t(magnitude));
  const double rest = magnitude - down;
  const bool odd = int64_t(magnitude) & 1;
  const bool negative = __builtin_signbit(x);
  bool up = false;
  switch (mode) {
    case Integral::kNearest:
      up = rest > 0.5 || (rest == 0.5 && odd);
      break;
    case Integral::kZero:
      break;
    case Integral::kDown:
      up = negative && rest > 0;
      break;
    case Integral::kUp:
      up = !negative && rest > 0;
      break;
  }
  return __builtin_copysign(up ? down + 1 : down, x);
}

// Beyond the range: the nearest value. NaN: zero, or the sign bit's value.
template <class To, Integral kMode, bool kZeroNan>
struct ToInteger {
  using Slot = typename SlotOf<To>::Type;
  static Slot of(double x) {
    if (x != x) return kZeroNan ? Slot(0) : Slot(To(typename Related<To>::U(1) << (kBits<To> - 1)));
    const double r = integral_value(x, kMode);
    // The power of two just above the range is exact for every width.
    const double above = kIsSigned<To> ? double(uint64_t(1) << (kBits<To> - 1))
                                       : 2.0 * double(uint64_t(1) << (kBits<To> - 1));
    if (r >= above) return Slot(kHighest<To>);
    if (r <= (kIsSigned<To> ? -above : 0.0)) return Slot(kLowest<To>);
    if constexpr (sizeof(To) == 8 && !kIsSigned<To>) {
      return r >= 9223372036854775808.0
                 ? Slot(uint64_t(int64_t(r - 9223372036854775808.0)) + (uint64_t(1) << 63))
                 : Slot(int64_t(r));
    }
    return Slot(To(int64_t(r)));
  }
  static Slot of(float x) { return of(double(x)); }
};
template <class F>
struct Flushing {
  template <class T>
  static auto of(T a) {
    return F::of(flushed(a));
  }
};

template <class From, class To, Integral kMode>
Handler to_integer(uint8_t flags, bool zero_nan) {
  using Slot = typename SlotOf<To>::Type;
  if constexpr (sizeof(From) == 4) {
    if (flags & kFlush) {
      return zero_nan ? unary<Flushing<ToInteger<To, kMode, true>>, Slot, From>
                      : unary<Flushing<ToInteger<To, kMode, false>>, Slot, From>;
    }
  }
  return zero_nan ? unary<ToInteger<To, kMode, true>, Slot, From>
                  : unary<ToInteger<To, kMode, false>, Slot, From>;
}

template <class From, class To>
Handler to_integer(Integral mode, uint8_t flags, bool zero_nan) {
  switch (mode) {
    case Integral::kNearest:
      return to_integer<From, To, Integral::kNearest>(flags, zero_nan);
    case Integral::kZero:
      return to_integer<From, To, Integral::kZero>(flags, zero_nan);
    case Integral::kDown:
      return to_integer<From, To, Integral::kDown>(flags, zero_nan);
    case Integral::kUp:
      return to_integer<From, To, Integral::kUp>(flags, zero_nan);
  }
  return nullptr;
}

template <class From>
Handler float_to(Num to, Integral mode, uint8_t flags, bool zero_nan) {
  switch (to) {
    case Num::kU8:
      return to_integer<From, uint8_t>(mode, flags, zero_nan);
    case Num::kS8:
      return to_integer<From, int8_t>(mode, flags, zero_nan);
    case Num::kU16:
      return to_integer<From, uint16_t>(mode, flags, zero_nan);
    case Num::kS16:
      return to_integer<From, int16_t>(mode, flags, zero_nan);
    case Num::kU32:
      return to_integer<From, uint32_t>(mode, flags, zero_nan);
    case Num::kS32:
      return to_integer<From, int32_t>(mode, flags, zero_nan);
    case Num::kU64:
      return to_integer<From, uint64_t>(mode, flags, zero_nan);
    case Num::kS64:
      return to_integer<From, int64_t>(mode, flags, zero_nan);
    default:
      return nullptr;
  }
}

template <class T, uint8_t kFlags>
inline T finish(T r) {
  if constexpr ((kFlags & kSaturate) != 0) r = saturated(r);
  if constexpr ((kFlags & kFlush) != 0 && sizeof(T) == 4) r = flushed(r);
  return r;
}
template <class T, uint8_t kFlags>
inline T start(T x) {
  if constexpr ((kFlags & kFlush) != 0 && sizeof(T) == 4) return flushed(x);
  return x;
}

template <Integral kMode, uint8_t kFlags>
struct ToIntegral {
  static float of(float a) {
    const auto r = float(integral_value(double(start<float, kFlags>(a)), kMode));
    return finish<float, kFlags>(canonical(r));
  }
  static double of(double a) {
    return finish<double, kFlags>(with_payload(integral_value(a, kMode), a));
  }
};
template <class T, uint8_t kFlags>
Handler to_integral(Integral mode) {
  switch (mode) {
    case Integral::kNearest:
      return unary<ToIntegral<Integral::kNearest, kFlags>, T, T>;
    case Integral::kZero:
      return unary<ToIntegral<Integral::kZero, kFlags>, T, T>;
    case Integral::kDown:
      return unary<ToIntegral<Integral::kDown, kFlags>, T, T>;
    case Integral::kUp:
      return unary<ToIntegral<Integral::kUp, kFlags>, T, T>;
  }
  return nullptr;
}

// Between the two formats, and from one to itself where only flags do something.
template <uint8_t kFlags>
struct Between {
  static float narrow(double a) { return finish<float, kFlags>(canonical(float(a))); }
  static double widen(float a) {
    const float x = start<float, kFlags>(a);
    const double r = double(x);
    return finish<double, kFlags>(r);
  }
};
template <uint8_t kFlags>
struct Narrow {
  static float of(double a) { return Between<kFlags>::narrow(a); }
};
template <uint8_t kFlags>
struct Widen {
  static double of(float a) { return Between<kFlags>::widen(a); }
};
template <uint8_t kFlags>
struct Same {
  static float of(float a) { return finish<float, kFlags>(canonical(start<float, kFlags>(a))); }
  static double of(double a) { return finish<double, kFlags>(a); }
};

template <uint8_t kFlags>
Handler between(Num from, Num to) {
  if (from == Num::kF64 && to == Num::kF32) return unary<Narrow<kFlags>, float, double>;
  if (from == Num::kF32 && to == Num::kF64) return unary<Widen<kFlags>, double, float>;
  if (from == Num::kF32 && to == Num::kF32) return unary<Same<kFlags>, float, float>;
  if (from == Num::kF64 && to == Num::kF64) return unary<Same<kFlags>, double, double>;
  return nullptr;
}

}  // namespace

Handler resize_handler(Num type, uint32_t from_bits, uint32_t to_bits) {
  switch (type) {
    case Num::kU8:
      return resize_from<uint8_t>(from_bits, to_bits);
    case Num::kS8:
      return resize_from<int8_t>(from_bits, to_bits);
    case Num::kU16:
      return resize_from<uint16_t>(from_bits, to_bits);
    case Num::kS16:
      return resize_from<int16_t>(from_bits, to_bits);
    case Num::kU32:
      return resize_from<uint32_t>(from_bits, to_bits);
    case Num::kS32:
      return resize_from<int32_t>(from_bits, to_bits);
    case Num::kU64:
      return resize_from<uint64_t>(from_bits, to_bits);
    case Num::kS64:
      return resize_from<int64_t>(from_bits, to_bits);
    default:
      return nullptr;
  }
}

Handler clamp_handler(bool from_signed, Num to) {
  return from_signed ? clamp_from<int64_t>(to) : clamp_from<uint64_t>(to);
}

Handler integer_to_float_handler(Num from, Num to, uint8_t flags) {
  const bool sat = (flags & kSaturate) != 0;
  if (to == Num::kF32) return sat ? integer_to<float, true>(from) : integer_to<float, false>(from);
  if (to == Num::kF64)
    return sat ? integer_to<double, true>(from) : integer_to<double, false>(from);
  return nullptr;
}

Handler float_to_integer_handler(Num from, Num to, Integral mode, uint8_t flags, bool zero_nan) {
  if (from == Num::kF32) return float_to<float>(to, mode, flags, zero_nan);
  if (from == Num::kF64) return float_to<double>(to, mode, flags, zero_nan);
  return nullptr;
}

Handler integral_handler(Num type, Integral mode, uint8_t flags) {
  if (type == Num::kF64) {
    return flags & kSaturate ? to_integral<double, kSaturate>(mode) : to_integral<double, 0>(mode);
  }
  switch (flags) {
    case 0:
      return to_integral<float, 0>(mode);
    case kFlush:
      return to_integral<float, kFlush>(mode);
    case kSaturate:
      return to_integral<float, kSaturate>(mode);
    default:
      return to_integral<float, kFlush | kSaturate>(mode);
  }
}

Handler float_to_float_handler(Num from, Num to, uint8_t flags) {
  switch (flags) {
    case 0:
      return between<0>(from, to);
    case kFlush:
      return between<kFlush>(from, to);
    case kSaturate:
      return between<kSaturate>(from, to);
    default:
      return between<kFlush | kSaturate>(from, to);
  }
}

}  // namespace simcuda::SIMCUDA_ISA
