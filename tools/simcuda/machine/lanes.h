// Applying a function of single values to the lanes of a warp. Included only by the handlers'
// sources, each of which is compiled once per instruction set into a namespace of its own: nothing
// here may use an inline function of the standard library, which a linker would merge between them.
#pragma once

#include "tools/simcuda/machine/handlers.h"

#if defined(__clang__)
#define SIMCUDA_LANES \
  _Pragma("clang loop vectorize(assume_safety)") for (uint32_t i = 0; i < simcuda::kLanes; ++i)
#else
#define SIMCUDA_LANES _Pragma("GCC ivdep") for (uint32_t i = 0; i < simcuda::kLanes; ++i)
#endif

namespace simcuda::SIMCUDA_ISA {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class T>
inline const T* source(const WarpView& w, int32_t slot) {
  return reinterpret_cast<const T*>((slot < 0 ? w.constants : w.registers) + slot);
}
template <class T>
inline T* destination(const WarpView& w, int32_t slot) {
  return reinterpret_cast<T*>(w.registers + slot);
}
inline uint32_t predicate_of(const WarpView& w, int32_t slot) {
  return *source<uint32_t>(w, slot);
}
inline void set_predicate(const WarpView& w, int32_t slot, uint32_t value, uint32_t mask) {
  uint32_t* p = destination<uint32_t>(w, slot);
  *p = (*p & ~mask) | (value & mask);
}

// Writes the lanes of `mask`.
template <class T>
inline void write(T* to, const T* result, uint32_t mask) {
  if (mask == kAllLanes) {
    __builtin_memcpy(to, result, kLanes * sizeof(T));
    return;
  }
  SIMCUDA_LANES to[i] = (mask >> i) & 1 ? result[i] : to[i];
}

template <class F, class R, class A>
bool unary(WarpView& w, const Op& op, uint32_t mask) {
  const A* a = source<A>(w, op.slot[1]);
  alignas(64) R r[kLanes];
  SIMCUDA_LANES r[i] = F::of(a[i]);
  write(destination<R>(w, op.slot[0]), r, mask);
  return true;
}

template <class F, class R, class A, class B = A>
bool binary(WarpView& w, const Op& op, uint32_t mask) {
  const A* a = source<A>(w, op.slot[1]);
  const B* b = source<B>(w, op.slot[2]);
  alignas(64) R r[kLanes];
  SIMCUDA_LANES r[i] = F::of(a[i], b[i]);
  write(destination<R>(w, op.slot[0]), r, mask);
  return true;
}

template <class F, class R, class A, class B = A, class C = B>
bool ternary(WarpView& w, const Op& op, uint32_t mask) {
  const A* a = source<A>(w, op.slot[1]);
  const B* b = source<B>(w, op.slot[2]);
  const C* c = source<C>(w, op.slot[3]);
  alignas(64) R r[kLanes];
  SIMCUDA_LANES r[i] = F::of(a[i], b[i], c[i]);
  write(destination<R>(w, op.slot[0]), r, mask);
  return true;
}

// Integer types by width, without <type_traits>.
template <class T>
struct Related;
template <>
struct Related<uint8_t> {
  using U = uint8_t;
  using S = int8_t;
  using Wide = uint16_t;
};
template <>
struct Related<int8_t> {
  using U = uint8_t;
  using S = int8_t;
  using Wide = int16_t;
};
template <>
struct Related<uint16_t> {
  using U = uint16_t;
  using S = int16_t;
  using Wide = uint32_t;
};
template <>
struct Related<int16_t> {
  using U = uint16_t;
  using S = int16_t;
  using Wide = int32_t;
};
template <>
struct Related<uint32_t> {
  using U = uint32_t;
  using S = int32_t;
  using Wide = uint64_t;
};
template <>
struct Related<int32_t> {
  using U = uint32_t;
  using S = int32_t;
  using Wide = int64_t;
};
__extension__ typedef unsigned __int128 Unsigned128;
__extension__ typedef __int128 Signed128;
template <>
struct Related<uint64_t> {
  using U = uint64_t;
  using S = int64_t;
  using Wide = Unsigned128;
};
template <>
struct Related<int64_t> {
  using U = uint64_t;
  using S = int64_t;
  using Wide = Signed128;
};
template <class T>
inline constexpr bool kIsSigned = T(-1) < T(0);
template <class T>
inline constexpr uint32_t kBits = sizeof(T) * 8;
template <class T>
inline constexpr T kLowest = kIsSigned<T> ? T(typename Related<T>::U(1) << (kBits<T> - 1)) : T(0);
template <class T>
inline constexpr T kHighest = kIsSigned<T> ? T(~(typename Related<T>::U(1) << (kBits<T> - 1)))
                                           : T(~T(0));

// The host's own operation on 16 bytes, which every x86-64 since 2005 has: what was there. Not the
// compilers' own, which some of them make a call of that no library has.
inline Unsigned128 swap_wide(std::byte* at, Unsigned128 expected, Unsigned128 wanted) {
  auto low = static_cast<uint64_t>(expected), high = static_cast<uint64_t>(expected >> 64);
  asm volatile("lock cmpxchg16b %[at]"
               : [at] "+m"(*reinterpret_cast<Unsigned128*>(at)), "+a"(low), "+d"(high)
               : "b"(static_cast<uint64_t>(wanted)), "c"(static_cast<uint64_t>(wanted >> 64))
               : "cc", "memory");
  return Unsigned128{high} << 64 | low;
}

Handler integer_handler(IntOp op, Num type);
Handler bits_handler(IntOp op, Num type);
Handler floating_handler(FloatOp op, Num type, uint8_t flags);
Handler approximate_handler(FloatOp op, Num type, uint8_t flags);
Handler half_handler(HalfOp op, Half type);
Handler to_half_handler(Num from, Half to);
Handler from_half_handler(Half from, Num to);
Handler to_float8_handler(Float8 to);
Handler from_float8_handler(Float8 from);
Handler to_tf32_handler(bool ties_away);
bool pack_wide(WarpView& w, const Op& op, uint32_t mask);
bool unpack_wide(WarpView& w, const Op& op, uint32_t mask);
bool move_wide(WarpView& w, const Op& op, uint32_t mask);
Handler compare_handler(Compare compare, Num type, uint8_t flags);
Handler test_handler(Test test, Num type);
Handler resize_handler(Num type, uint32_t from_bits, uint32_t to_bits);
Handler clamp_handler(bool from_signed, Num to);
Handler integer_to_float_handler(Num from, Num to, uint8_t flags);
Handler float_to_integer_handler(Num from, Num to, Integral rounding, uint8_t flags, bool zero_nan);
Handler integral_handler(Num type, Integral rounding, uint8_t flags);
Handler float_to_float_handler(Num from, Num to, uint8_t flags);
bool rounded(WarpView& w, const Op& op, uint32_t mask);
bool predicate(WarpView& w, const Op& op, uint32_t mask);
Handler load_handler(Num type, uint32_t bits);
Handler store_handler(uint32_t bytes, uint32_t bits);
Handler atomic_handler(AtomicOp op, AtomicType type);
bool locate(WarpView& w, const Op& op, uint32_t mask, uint32_t bytes, bool write, std::byte** at);

}  // namespace simcuda::SIMCUDA_ISA
