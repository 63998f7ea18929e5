// Integer arithmetic. All of it wraps: the sums are made in the unsigned type.
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

template <class T>
using U = typename Related<T>::U;
template <class T>
using Wide = typename Related<T>::Wide;

// Small types would be promoted to int, where a product can overflow.
template <class T>
inline T product(T a, T b) {
  if constexpr (sizeof(T) < 4) {
    return T(uint32_t(a) * uint32_t(b));
  } else {
    return T(U<T>(a) * U<T>(b));
  }
}
template <class T>
inline T sum(T a, T b) {
  return T(U<T>(U<T>(a) + U<T>(b)));
}
template <class T>
inline T difference(T a, T b) {
  return T(U<T>(U<T>(a) - U<T>(b)));
}
template <class T>
inline Wide<T> wide_product(T a, T b) {
  return Wide<T>(a) * Wide<T>(b);
}
template <class T>
inline T high(T a, T b) {
  return T(wide_product(a, b) >> kBits<T>);
}

struct Add {
  template <class T>
  static T of(T a, T b) {
    return sum(a, b);
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return difference(a, b);
  }
};
struct MulLo {
  template <class T>
  static T of(T a, T b) {
    return product(a, b);
  }
};
struct MulHi {
  template <class T>
  static T of(T a, T b) {
    return high(a, b);
  }
};
struct MulWide {
  template <class T>
  static Wide<T> of(T a, T b) {
    return wide_product(a, b);
  }
};
struct MadLo {
  template <class T>
  static T of(T a, T b, T c) {
    return sum(product(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static T of(T a, T b, T c) {
    return sum(high(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static Wide<T> of(T a, T b, Wide<T> c) {
    return sum<Wide<T>>(wide_product(a, b), c);
  }
};

// The 48-bit product of the operands' low 24 bits.
template <class T>
inline int64_t product24(T a, T b) {
  if constexpr (kIsSigned<T>) {
    return int64_t(int32_t(uint32_t(a) << 8) >> 8) * int64_t(int32_t(uint32_t(b) << 8) >> 8);
  } else {
    return int64_t(uint64_t(a & 0xffffff) * uint64_t(b & 0xffffff));
  }
}
struct Mul24Lo {
  template <class T>
  static T of(T a, T b) {
    return T(product24(a, b));
  }
};
struct Mul24Hi {
  template <class T>
  static T of(T a, T b) {
    return T(product24(a, b) >> 16);
  }
};
struct Mad24Lo {
  template <class T>
  static T of(T a, T b, T c) {
    return sum(T(product24(a, b)), c);
  }
};
struct Mad24Hi {
  template <class T>
  static T of(T a, T b, T c) {
    return sum(T(product24(a, b) >> 16), c);
  }
};

inline int32_t saturate(int64_t v) {
  return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : int32_t(v);
}
struct AddSat {
  static int32_t of(int32_t a, int32_t b) { return saturate(int64_t(a) + b); }
};
struct SubSat {
  static int32_t of(int32_t a, int32_t b) { return saturate(int64_t(a) - b); }
};
struct MadHiSat {
  static int32_t of(int32_t a, int32_t b, int32_t c) { return saturate(int64_t(high(a, b)) + c); }
};
struct Mad24HiSat {
  static int32_t of(int32_t a, int32_t b, int32_t c) {
    return saturate(int64_t(int32_t(product24(a, b) >> 16)) + c);
  }
};

struct Sad {
  template <class T>
  static T of(T a, T b, T c) {
    return sum(c, a < b ? difference(b, a) : difference(a, b));
  }
};

// PTX does not specify the result of division by zero; we take the one that the hardware is known
// to give: all ones for the quotient, the dividend for the remainder.
struct Div {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return T(~T(0));
    if constexpr (kIsSigned<T>) {
      if (b == T(-1)) return difference(T(0), a);
    }
    return T(a / b);
  }
};
struct Rem {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if constexpr (kIsSigned<T>) {
      if (b == T(-1)) return 0;
    }
    return T(a % b);
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Abs {
  template <class T>
  static T of(T a) {
    return a < 0 ? difference(T(0), a) : a;
  }
};
struct Neg {
  template <class T>
  static T of(T a) {
    return difference(T(0), a);
  }
};

template <class A, class B>
struct Dp4a {
  static int32_t of(int32_t a, int32_t b, int32_t c) {
    uint32_t s = uint32_t(c);
    for (int k = 0; k < 32; k += 8) {
      s += uint32_t(int32_t(A(uint32_t(a) >> k)) * int32_t(B(uint32_t(b) >> k)));
    }
    return int32_t(s);
  }
};
template <class A, class B, bool kHigh>
struct Dp2a {
  static int32_t of(int32_t a, int32_t b, int32_t c) {
    uint32_t s = uint32_t(c);
    for (int k = 0; k < 2; ++k) {
      const A x = A(uint32_t(a) >> (16 * k));
      const B y = B(uint32_t(b) >> (8 * k + (kHigh ? 16 : 0)));
      s += uint32_t(int32_t(x) * int32_t(y));
    }
    return int32_t(s);
  }
};

// Two 16-bit values in a register.
template <class T, class F>
struct Twice {
  static uint32_t of(uint32_t a, uint32_t b) {
    const auto lo = uint16_t(F::template of<T>(T(a), T(b)));
    const auto hi = uint16_t(F::template of<T>(T(a >> 16), T(b >> 16)));
    return lo | uint32_t(hi) << 16;
  }
};

enum class Carry : uint8_t { kOut, kIn, kInOut };

// The condition code is a predicate in the last slot. A subtraction adds the complement, as
// hardware does: its code is set where nothing was borrowed, and that is what a following addc
// adds.
template <class T, Carry kCarry, bool kSubtract>
void with_carry(WarpView& w, const Op& op, uint32_t mask, const T* a, const T* b, int32_t code) {
  const uint32_t none = kSubtract ? ~0u : 0;
  const uint32_t in = kCarry == Carry::kOut ? none : predicate_of(w, code);
  uint32_t out = 0;
  alignas(64) T r[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    const T c = T((in >> i) & 1);
    T x;
    const bool first = __builtin_add_overflow(a[i], kSubtract ? T(~b[i]) : b[i], &x);
    const bool second = __builtin_add_overflow(x, c, &r[i]);
    out |= uint32_t(first || second) << i;
  }
  write(destination<T>(w, op.slot[0]), r, mask);
  if (kCarry != Carry::kIn) set_predicate(w, code, out, mask);
}

template <class T, Carry kCarry, bool kSubtract>
bool add_carry(WarpView& w, const Op& op, uint32_t mask) {
  with_carry<T, kCarry, kSubtract>(w, op, mask, source<T>(w, op.slot[1]), source<T>(w, op.slot[2]),
                                   op.slot[3]);
  return true;
}

template <class T, Carry kCarry, class F>
bool mad_carry(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[1]);
  const T* b = source<T>(w, op.slot[2]);
  alignas(64) T p[kLanes];
  SIMCUDA_LANES p[i] = F::of(a[i], b[i]);
  with_carry<T, kCarry, false>(w, op, mask, p, source<T>(w, op.slot[3]), op.slot[4]);
  return true;
}

template <class T>
Handler carry_handler(IntOp op) {
  using B = U<T>;
  switch (op) {
    case IntOp::kAddCarryOut:
      return add_carry<B, Carry::kOut, false>;
    case IntOp::kAddCarryIn:
      return add_carry<B, Carry::kIn, false>;
    case IntOp::kAddCarryInOut:
      return add_carry<B, Carry::kInOut, false>;
    case IntOp::kSubCarryOut:
      return add_carry<B, Carry::kOut, true>;
    case IntOp::kSubCarryIn:
      return add_carry<B, Carry::kIn, true>;
    case IntOp::kSubCarryInOut:
      return add_carry<B, Carry::kInOut, true>;
    default:
      return nullptr;
  }
}

// The high half depends on the sign; the carry itself is that of the unsigned sum.
template <class T>
struct HighAsUnsigned {
  static U<T> of(U<T> a, U<T> b) { return U<T>(high<T>(T(a), T(b))); }
};

template <class T>
Handler mad_carry_handler(IntOp op) {
  using B = U<T>;
  switch (op) {
    case IntOp::kMadLoCarryOut:
      return mad_carry<B, Carry::kOut, MulLo>;
    case IntOp::kMadLoCarryIn:
      return mad_carry<B, Carry::kIn, MulLo>;
    case IntOp::kMadLoCarryInOut:
      return mad_carry<B, Carry::kInOut, MulLo>;
    case IntOp::kMadHiCarryOut:
      return mad_carry<B, Carry::kOut, HighAsUnsigned<T>>;
    case IntOp::kMadHiCarryIn:
      return mad_carry<B, Carry::kIn, HighAsUnsigned<T>>;
    case IntOp::kMadHiCarryInOut:
      return mad_carry<B, Carry::kInOut, HighAsUnsigned<T>>;
    default:
      return nullptr;
  }
}

// Operations of every width.
template <class T>
Handler common(IntOp op) {
  using B = U<T>;
  switch (op) {
    case IntOp::kAdd:
      return binary<Add, B, B>;
    case IntOp::kSub:
      return binary<Sub, B, B>;
    case IntOp::kMulLo:
      return binary<MulLo, B, B>;
    case IntOp::kMulHi:
      return binary<MulHi, T, T>;
    case IntOp::kMadLo:
      return ternary<MadLo, B, B>;
    case IntOp::kMadHi:
      return ternary<MadHi, T, T>;
    case IntOp::kSad:
      return ternary<Sad, T, T>;
    case IntOp::kDiv:
      return binary<Div, T, T>;
    case IntOp::kRem:
      return binary<Rem, T, T>;
    case IntOp::kMin:
      return binary<Min, T, T>;
    case IntOp::kMax:
      return binary<Max, T, T>;
    case IntOp::kAbs:
      if constexpr (kIsSigned<T>) {
        return unary<Abs, T, T>;
      }
      return nullptr;
    case IntOp::kNeg:
      if constexpr (kIsSigned<T>) {
        return unary<Neg, T, T>;
      }
      return nullptr;
    default:
      return nullptr;
  }
}

template <class T>
Handler wide(IntOp op) {
  switch (op) {
    case IntOp::kMulWide:
      return binary<MulWide, Wide<T>, T>;
    case IntOp::kMadWide:
      return ternary<MadWide, Wide<T>, T, T, Wide<T>>;
    default:
      return common<T>(op);
  }
}

template <class T>
Handler word(IntOp op) {
  switch (op) {
    case IntOp::kMul24Lo:
      return binary<Mul24Lo, T, T>;
    case IntOp::kMul24Hi:
      return binary<Mul24Hi, T, T>;
    case IntOp::kMad24Lo:
      return ternary<Mad24Lo, T, T>;
    case IntOp::kMad24Hi:
      return ternary<Mad24Hi, T, T>;
    default:
      break;
  }
  if (Handler h = carry_handler<T>(op)) return h;
  if (Handler h = mad_carry_handler<T>(op)) return h;
  return wide<T>(op);
}

Handler dot(IntOp op) {
  using I = int32_t;
  switch (op) {
    case IntOp::kDp4aUU:
      return ternary<Dp4a<uint8_t, uint8_t>, I, I>;
    case IntOp::kDp4aUS:
      return ternary<Dp4a<uint8_t, int8_t>, I, I>;
    case IntOp::kDp4aSU:
      return ternary<Dp4a<int8_t, uint8_t>, I, I>;
    case IntOp::kDp4aSS:
      return ternary<Dp4a<int8_t, int8_t>, I, I>;
    case IntOp::kDp2aLoUU:
      return ternary<Dp2a<uint16_t, uint8_t, false>, I, I>;
    case IntOp::kDp2aLoUS:
      return ternary<Dp2a<uint16_t, int8_t, false>, I, I>;
    case IntOp::kDp2aLoSU:
      return ternary<Dp2a<int16_t, uint8_t, false>, I, I>;
    case IntOp::kDp2aLoSS:
      return ternary<Dp2a<int16_t, int8_t, false>, I, I>;
    case IntOp::kDp2aHiUU:
      return ternary<Dp2a<uint16_t, uint8_t, true>, I, I>;
    case IntOp::kDp2aHiUS:
      return ternary<Dp2a<uint16_t, int8_t, true>, I, I>;
    case IntOp::kDp2aHiSU:
      return ternary<Dp2a<int16_t, uint8_t, true>, I, I>;
    case IntOp::kDp2aHiSS:
      return ternary<Dp2a<int16_t, int8_t, true>, I, I>;
    default:
      return nullptr;
  }
}

template <class T>
Handler twice(IntOp op) {
  switch (op) {
    case IntOp::kAddX2:
      return binary<Twice<T, Add>, uint32_t, uint32_t>;
    case IntOp::kMinX2:
      return binary<Twice<T, Min>, uint32_t, uint32_t>;
    case IntOp::kMaxX2:
      return binary<Twice<T, Max>, uint32_t, uint32_t>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler integer_handler(IntOp op, Num type) {
  if (Handler h = bits_handler(op, type)) return h;
  switch (type) {
    case Num::kU16:
      if (Handler h = twice<uint16_t>(op)) return h;
      return wide<uint16_t>(op);
    case Num::kS16:
      if (Handler h = twice<int16_t>(op)) return h;
      return wide<int16_t>(op);
    case Num::kU32:
      return word<uint32_t>(op);
    case Num::kS32:
      switch (op) {
        case IntOp::kAddSat:
          return binary<AddSat, int32_t, int32_t>;
        case IntOp::kSubSat:
          return binary<SubSat, int32_t, int32_t>;
        case IntOp::kMadHiSat:
          return ternary<MadHiSat, int32_t, int32_t>;
        case IntOp::kMad24HiSat:
          return ternary<Mad24HiSat, int32_t, int32_t>;
        default:
          break;
      }
      if (Handler h = dot(op)) return h;
      return word<int32_t>(op);
    case Num::kU64:
      if (Handler h = carry_handler<uint64_t>(op)) return h;
      if (Handler h = mad_carry_handler<uint64_t>(op)) return h;
      return common<uint64_t>(op);
    case Num::kS64:
      if (Handler h = carry_handler<int64_t>(op)) return h;
      if (Handler h = mad_carry_handler<int64_t>(op)) return h;
      return common<int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace simcuda::SIMCUDA_ISA
