// Operations on bits: logic, shifts, fields, counting, permutation, moves and selection.
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

template <class T>
using U = typename Related<T>::U;

struct And {
  template <class T>
  static T of(T a, T b) {
    return T(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return T(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return T(a ^ b);
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return T(~a);
  }
};
struct Cnot {
  template <class T>
  static T of(T a) {
    return T(a == 0);
  }
};
struct Move {
  template <class T>
  static T of(T a) {
    return a;
  }
};

// Shift amounts beyond the width act as the width.
struct Shl {
  template <class T>
  static T of(T a, uint32_t n) {
    return n < kBits<T> ? T(a << (n & (kBits<T> - 1))) : T(0);
  }
};
struct Shr {
  template <class T>
  static T of(T a, uint32_t n) {
    const uint32_t last = kBits<T> - 1;
    if constexpr (kIsSigned<T>) return T(a >> (n < last ? n : last));
    return n <= last ? T(a >> (n & last)) : T(0);
  }
};

struct Popc {
  static uint32_t of(uint32_t a) { return uint32_t(__builtin_popcount(a)); }
  static uint32_t of(uint64_t a) { return uint32_t(__builtin_popcountll(a)); }
};
struct Clz {
  static uint32_t of(uint32_t a) { return a ? uint32_t(__builtin_clz(a)) : 32; }
  static uint32_t of(uint64_t a) { return a ? uint32_t(__builtin_clzll(a)) : 64; }
};
// The highest bit that differs from the sign; all ones where there is none.
struct Bfind {
  template <class T>
  static uint32_t of(T a) {
    const U<T> x = U<T>(a < 0 ? ~a : a);
    return x ? kBits<T> - 1 - Clz::of(x) : UINT32_MAX;
  }
};
struct BfindShift {
  template <class T>
  static uint32_t of(T a) {
    const uint32_t at = Bfind::of(a);
    return at == UINT32_MAX ? at : kBits<T> - 1 - at;
  }
};
struct Brev {
  static uint32_t of(uint32_t a) {
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(a);
  }
  static uint64_t of(uint64_t a) { return uint64_t(of(uint32_t(a))) << 32 | of(uint32_t(a >> 32)); }
};

// The low n bits set; n up to the width.
template <class T>
inline T low_bits(uint32_t n) {
  return n >= kBits<T> ? T(~T(0)) : T((T(1) << n) - 1);
}

// Position or length of a field: the low 8 bits of 32-bit forms, all 32 bits of 64-bit forms, which
// is what hardware does (the manual says 8 bits for both).
template <class T>
inline uint32_t of_field(uint32_t operand) {
  return kBits<T> == 32 ? operand & 0xff : operand;
}

struct Bfe {
  template <class T>
  static T of(T a, uint32_t position, uint32_t length) {
    position = of_field<T>(position);
    length = of_field<T>(length);
    const uint32_t last = kBits<T> - 1;
    const U<T> shifted = position <= last ? U<T>(U<T>(a) >> position) : U<T>(0);
    const uint32_t there = position <= last ? last + 1 - position : 0;
    const uint32_t n = length < there ? length : there;
    const U<T> field = shifted & low_bits<U<T>>(n);
    if constexpr (kIsSigned<T>) {
      if (length == 0) return 0;
      const uint32_t sign_at = n < there ? position + n - 1 : last;
      if ((U<T>(a) >> sign_at) & 1) return T(field | ~low_bits<U<T>>(n));
    }
    return T(field);
  }
};
struct Bfi {
  template <class T>
  static T of(T a, T b, uint32_t position, uint32_t length) {
    position = of_field<T>(position);
    length = of_field<T>(length);
    if (position >= kBits<T>) return b;
    const T field = T(low_bits<T>(length) << position);
    return T((b & ~field) | ((a << position) & field));
  }
};
template <class T>
bool bfi(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[1]);
  const T* b = source<T>(w, op.slot[2]);
  const uint32_t* position = source<uint32_t>(w, op.slot[3]);
  const uint32_t* length = source<uint32_t>(w, op.slot[4]);
  alignas(64) T r[kLanes];
  SIMCUDA_LANES r[i] = Bfi::of(a[i], b[i], position[i], length[i]);
  write(destination<T>(w, op.slot[0]), r, mask);
  return true;
}

// The offset-th set bit from `base`, upwards or downwards.
struct Fns {
  static uint32_t of(uint32_t bits, uint32_t base, int32_t offset) {
    if (base >= 32) return UINT32_MAX;
    if (offset == 0) return (bits >> base) & 1 ? base : UINT32_MAX;
    const int32_t step = offset > 0 ? 1 : -1;
    uint32_t left = offset > 0 ? uint32_t(offset) : 0 - uint32_t(offset);
    for (int32_t at = int32_t(base); at >= 0 && at < 32; at += step) {
      if ((bits >> at) & 1 && --left == 0) return uint32_t(at);
    }
    return UINT32_MAX;
  }
};

inline uint64_t joined(uint32_t high, uint32_t low) {
  return uint64_t(high) << 32 | low;
}
template <bool kClamp>
inline uint32_t funnel(uint32_t n) {
  return kClamp ? (n < 32 ? n : 32) : n & 31;
}
template <bool kClamp>
struct ShfLeft {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t n) {
    return uint32_t((joined(b, a) << funnel<kClamp>(n)) >> 32);
  }
};
template <bool kClamp>
struct ShfRight {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t n) {
    return uint32_t(joined(b, a) >> funnel<kClamp>(n));
  }
};

// The truth table is over (a, b, c), a being the most significant: 0xF0, 0xCC and 0xAA.
bool lop3(WarpView& w, const Op& op, uint32_t mask) {
  const uint32_t* a = source<uint32_t>(w, op.slot[1]);
  const uint32_t* b = source<uint32_t>(w, op.slot[2]);
  const uint32_t* c = source<uint32_t>(w, op.slot[3]);
  alignas(64) uint32_t r[kLanes] = {};
  for (uint32_t k = 0; k < 8; ++k) {
    if (!((op.immediate >> k) & 1)) continue;
    const uint32_t na = k & 4 ? 0 : UINT32_MAX;
    const uint32_t nb = k & 2 ? 0 : UINT32_MAX;
    const uint32_t nc = k & 1 ? 0 : UINT32_MAX;
    SIMCUDA_LANES r[i] |= (a[i] ^ na) & (b[i] ^ nb) & (c[i] ^ nc);
  }
  write(destination<uint32_t>(w, op.slot[0]), r, mask);
  return true;
}

// Bytes 0-3 are a's, 4-7 b's; bit 3 of a selector repeats the byte's sign.
inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t bytes = joined(b, a);
  uint32_t r = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t s = selectors >> (4 * k) & 15;
    uint32_t byte = uint32_t(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * k);
  }
  return r;
}
struct Prmt {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c); }
};
// The named modes choose one of four selections by the low two bits of c.
template <uint32_t k0, uint32_t k1, uint32_t k2, uint32_t k3>
struct PrmtMode {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    c &= 3;
    return permute(a, b, c == 0 ? k0 : c == 1 ? k1 : c == 2 ? k2 : k3);
  }
};

template <class T>
bool select(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[1]);
  const T* b = source<T>(w, op.slot[2]);
  const uint32_t p = predicate_of(w, op.slot[3]);
  alignas(64) T r[kLanes];
  SIMCUDA_LANES r[i] = (p >> i) & 1 ? a[i] : b[i];
  write(destination<T>(w, op.slot[0]), r, mask);
  return true;
}

template <class T>
Handler common(IntOp op) {
  switch (op) {
    case IntOp::kAnd:
      return binary<And, T, T>;
    case IntOp::kOr:
      return binary<Or, T, T>;
    case IntOp::kXor:
      return binary<Xor, T, T>;
    case IntOp::kNot:
      return unary<Not, T, T>;
    case IntOp::kCnot:
      return unary<Cnot, T, T>;
    case IntOp::kMove:
      return unary<Move, T, T>;
    case IntOp::kSelect:
      return select<T>;
    case IntOp::kShl:
      return binary<Shl, T, T, uint32_t>;
    case IntOp::kShr:
      return binary<Shr, T, T, uint32_t>;
    default:
      return nullptr;
  }
}

template <class T>
Handler counting(IntOp op) {
  switch (op) {
    case IntOp::kPopc:
      return unary<Popc, uint32_t, U<T>>;
    case IntOp::kClz:
      return unary<Clz, uint32_t, U<T>>;
    case IntOp::kBrev:
      return unary<Brev, U<T>, U<T>>;
    case IntOp::kBfind:
      return unary<Bfind, uint32_t, T>;
    case IntOp::kBfindShift:
      return unary<BfindShift, uint32_t, T>;
    case IntOp::kBfe:
      return ternary<Bfe, T, T, uint32_t>;
    case IntOp::kBfi:
      return bfi<U<T>>;
    default:
      return nullptr;
  }
}

Handler words(IntOp op) {
  using W = uint32_t;
  switch (op) {
    case IntOp::kFns:
      return ternary<Fns, W, W, W, int32_t>;
    case IntOp::kShfLeftWrap:
      return ternary<ShfLeft<false>, W, W>;
    case IntOp::kShfLeftClamp:
      return ternary<ShfLeft<true>, W, W>;
    case IntOp::kShfRightWrap:
      return ternary<ShfRight<false>, W, W>;
    case IntOp::kShfRightClamp:
      return ternary<ShfRight<true>, W, W>;
    case IntOp::kLop3:
      return lop3;
    case IntOp::kPrmt:
      return ternary<Prmt, W, W>;
    case IntOp::kPrmtF4e:
      return ternary<PrmtMode<0x3210, 0x4321, 0x5432, 0x6543>, W, W>;
    case IntOp::kPrmtB4e:
      return ternary<PrmtMode<0x5670, 0x6701, 0x7012, 0x0123>, W, W>;
    case IntOp::kPrmtRc8:
      return ternary<PrmtMode<0x0000, 0x1111, 0x2222, 0x3333>, W, W>;
    case IntOp::kPrmtEcl:
      return ternary<PrmtMode<0x3210, 0x3211, 0x3222, 0x3333>, W, W>;
    case IntOp::kPrmtEcr:
      return ternary<PrmtMode<0x0000, 0x1110, 0x2210, 0x3210>, W, W>;
    case IntOp::kPrmtRc16:
      return ternary<PrmtMode<0x1010, 0x3232, 0x1010, 0x3232>, W, W>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler bits_handler(IntOp op, Num type) {
  switch (type) {
    case Num::kU16:
      return common<uint16_t>(op);
    case Num::kS16:
      return op == IntOp::kShr ? binary<Shr, int16_t, int16_t, uint32_t> : nullptr;
    case Num::kU32:
      if (Handler h = words(op)) return h;
      if (Handler h = counting<uint32_t>(op)) return h;
      return common<uint32_t>(op);
    case Num::kS32:
      if (op == IntOp::kShr) return binary<Shr, int32_t, int32_t, uint32_t>;
      return counting<int32_t>(op);
    case Num::kU64:
      if (Handler h = counting<uint64_t>(op)) return h;
      return common<uint64_t>(op);
    case Num::kS64:
      if (op == IntOp::kShr) return binary<Shr, int64_t, int64_t, uint32_t>;
      return counting<int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace simcuda::SIMCUDA_ISA
