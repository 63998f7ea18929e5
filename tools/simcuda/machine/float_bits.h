// The bits of floating-point numbers and what PTX says of denormals and NaN.
//
// NaN, as PTX has it: an f32 result that is NaN is the canonical 0x7fffffff; f64 keeps the payload
// of its first NaN operand (made quiet), and a NaN that no operand brought is 0xfff8000000000000;
// f16 and bf16 results that are NaN are 0x7fff.
#pragma once

#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  using Bits = uint32_t;
};
template <>
struct FloatTraits<double> {
  using Bits = uint64_t;
};
template <class T>
using FloatBits = typename FloatTraits<T>::Bits;
template <class T>
inline constexpr uint32_t kMantissaBits = sizeof(T) == 4 ? 23 : 52;
template <class T>
inline constexpr FloatBits<T> kSignBit = FloatBits<T>(1) << (sizeof(T) * 8 - 1);
template <class T>
inline constexpr FloatBits<T> kSmallestNormalBits = FloatBits<T>(1) << kMantissaBits<T>;
template <class T>
inline constexpr FloatBits<T> kInfinityBits = kSignBit<T> - kSmallestNormalBits<T>;
inline constexpr uint32_t kCanonicalNan = 0x7fffffff;
inline constexpr uint64_t kDefaultNan = 0xfff8000000000000;

// A denormal becomes zero of its sign.
template <class T>
inline T flushed(T x) {
  const auto bits = bits_as<FloatBits<T>>(x);
  return bits_as<T>((bits & kInfinityBits<T>) == 0 ? bits & kSignBit<T> : bits);
}

inline float canonical(float r) {
  return r == r ? r : bits_as<float>(kCanonicalNan);
}
inline double quiet(double x) {
  return bits_as<double>(bits_as<uint64_t>(x) | uint64_t(1) << 51);
}
inline double with_payload(double r, double a) {
  return r == r ? r : a == a ? bits_as<double>(kDefaultNan) : quiet(a);
}
inline double with_payload(double r, double a, double b) {
  return r == r ? r : a == a ? with_payload(r, b) : quiet(a);
}
inline double with_payload(double r, double a, double b, double c) {
  return r == r ? r : a == a ? with_payload(r, b, c) : quiet(a);
}
// NaN becomes +0, and so does -0.
template <class T>
inline T saturated(T r) {
  return r > T(0) ? (r < T(1) ? r : T(1)) : T(0);
}

}  // namespace simcuda::SIMCUDA_ISA
