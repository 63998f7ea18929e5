// Comparisons into predicates, tests of floating-point classes, and logic on predicates.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool of(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
// An ordered "not equal" is false for NaN, unlike C's; the unordered forms are true for NaN.
struct OrderedNe {
  template <class T>
  static bool of(T a, T b) {
    return (a < b) | (a > b);
  }
};
struct Equ {
  template <class T>
  static bool of(T a, T b) {
    return !((a < b) | (a > b));
  }
};
struct Ltu {
  template <class T>
  static bool of(T a, T b) {
    return !(a >= b);
  }
};
struct Leu {
  template <class T>
  static bool of(T a, T b) {
    return !(a > b);
  }
};
struct Gtu {
  template <class T>
  static bool of(T a, T b) {
    return !(a <= b);
  }
};
struct Geu {
  template <class T>
  static bool of(T a, T b) {
    return !(a < b);
  }
};
struct Number {
  template <class T>
  static bool of(T a, T b) {
    return (a == a) & (b == b);
  }
};
struct Nan {
  template <class T>
  static bool of(T a, T b) {
    return (a != a) | (b != b);
  }
};

// p = result combined with c, q = (not result) combined with c.
void set_results(const WarpView& w, const Op& op, uint32_t result, uint32_t mask) {
  uint32_t p = result, q = ~result;
  const auto combine = Combine(op.code & 0x7f);
  if (combine != Combine::kNone) {
    uint32_t c = predicate_of(w, op.slot[4]);
    if (op.code & 0x80) c = ~c;
    switch (combine) {
      case Combine::kAnd:
        p &= c;
        q &= c;
        break;
      case Combine::kOr:
        p |= c;
        q |= c;
        break;
      default:
        p ^= c;
        q ^= c;
        break;
    }
  }
  if (op.slot[0] != kNoSlot) set_predicate(w, op.slot[0], p, mask);
  if (op.slot[1] != kNoSlot) set_predicate(w, op.slot[1], q, mask);
}

template <class F, class T, bool kFtz>
bool compare(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[2]);
  const T* b = source<T>(w, op.slot[3]);
  uint32_t result = 0;
  SIMCUDA_LANES {
    if constexpr (kFtz) {
      result |= uint32_t(F::of(flushed(a[i]), flushed(b[i]))) << i;
    } else {
      result |= uint32_t(F::of(a[i], b[i])) << i;
    }
  }
  set_results(w, op, result, mask);
  return true;
}

template <class T>
Handler integer_compare(Compare compare_op) {
  switch (compare_op) {
    case Compare::kEq:
      return compare<Eq, T, false>;
    case Compare::kNe:
      return compare<Ne, T, false>;
    case Compare::kLt:
      return compare<Lt, T, false>;
    case Compare::kLe:
      return compare<Le, T, false>;
    case Compare::kGt:
      return compare<Gt, T, false>;
    case Compare::kGe:
      return compare<Ge, T, false>;
    default:
      return nullptr;
  }
}

template <class T, bool kFtz>
Handler float_compare(Compare compare_op) {
  switch (compare_op) {
    case Compare::kEq:
      return compare<Eq, T, kFtz>;
    case Compare::kNe:
      return compare<OrderedNe, T, kFtz>;
    case Compare::kLt:
      return compare<Lt, T, kFtz>;
    case Compare::kLe:
      return compare<Le, T, kFtz>;
    case Compare::kGt:
      return compare<Gt, T, kFtz>;
    case Compare::kGe:
      return compare<Ge, T, kFtz>;
    case Compare::kEqu:
      return compare<Equ, T, kFtz>;
    case Compare::kNeu:
      return compare<Ne, T, kFtz>;
    case Compare::kLtu:
      return compare<Ltu, T, kFtz>;
    case Compare::kLeu:
      return compare<Leu, T, kFtz>;
    case Compare::kGtu:
      return compare<Gtu, T, kFtz>;
    case Compare::kGeu:
      return compare<Geu, T, kFtz>;
    case Compare::kNumber:
      return compare<Number, T, false>;
    case Compare::kNan:
      return compare<Nan, T, false>;
  }
  return nullptr;
}

template <Test kTest, class T>
bool test(WarpView& w, const Op& op, uint32_t mask) {
  const T* a = source<T>(w, op.slot[1]);
  uint32_t result = 0;
  SIMCUDA_LANES {
    const auto bits = bits_as<FloatBits<T>>(a[i]) & ~kSignBit<T>;
    bool r = false;
    switch (kTest) {
      case Test::kFinite:
        r = bits < kInfinityBits<T>;
        break;
      case Test::kInfinite:
        r = bits == kInfinityBits<T>;
        break;
      case Test::kNumber:
        r = bits <= kInfinityBits<T>;
        break;
      case Test::kNotANumber:
        r = bits > kInfinityBits<T>;
        break;
      case Test::kNormal:
        r = bits >= kSmallestNormalBits<T> && bits < kInfinityBits<T>;
        break;
      case Test::kSubnormal:
        r = bits != 0 && bits < kSmallestNormalBits<T>;
        break;
    }
    result |= uint32_t(r) << i;
  }
  set_predicate(w, op.slot[0], result, mask);
  return true;
}

template <class T>
Handler tests(Test t) {
  switch (t) {
    case Test::kFinite:
      return test<Test::kFinite, T>;
    case Test::kInfinite:
      return test<Test::kInfinite, T>;
    case Test::kNumber:
      return test<Test::kNumber, T>;
    case Test::kNotANumber:
      return test<Test::kNotANumber, T>;
    case Test::kNormal:
      return test<Test::kNormal, T>;
    case Test::kSubnormal:
      return test<Test::kSubnormal, T>;
  }
  return nullptr;
}

}  // namespace

Handler compare_handler(Compare compare_op, Num type, uint8_t flags) {
  switch (type) {
    case Num::kU16:
      return integer_compare<uint16_t>(compare_op);
    case Num::kS16:
      return integer_compare<int16_t>(compare_op);
    case Num::kU32:
      return integer_compare<uint32_t>(compare_op);
    case Num::kS32:
      return integer_compare<int32_t>(compare_op);
    case Num::kU64:
      return integer_compare<uint64_t>(compare_op);
    case Num::kS64:
      return integer_compare<int64_t>(compare_op);
    case Num::kF32:
      return flags & kFlush ? float_compare<float, true>(compare_op)
                            : float_compare<float, false>(compare_op);
    case Num::kF64:
      return float_compare<double, false>(compare_op);
    default:
      return nullptr;
  }
}

Handler test_handler(Test t, Num type) {
  if (type == Num::kF32) return tests<float>(t);
  if (type == Num::kF64) return tests<double>(t);
  return nullptr;
}

bool predicate(WarpView& w, const Op& op, uint32_t mask) {
  const uint32_t a = predicate_of(w, op.slot[1]);
  const uint32_t b = op.slot[2] == kNoSlot ? 0 : predicate_of(w, op.slot[2]);
  uint32_t r = 0;
  if (op.code & 1) r |= ~a & ~b;
  if (op.code & 2) r |= ~a & b;
  if (op.code & 4) r |= a & ~b;
  if (op.code & 8) r |= a & b;
  set_predicate(w, op.slot[0], r, mask);
  return true;
}

}  // namespace simcuda::SIMCUDA_ISA
