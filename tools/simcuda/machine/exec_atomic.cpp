// Atomics, lane by lane. They are the host's own, so that launches on other threads see them whole.
#include "tools/simcuda/machine/float_bits.h"
#include "tools/simcuda/machine/half_bits.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

// Inputs and results of an f32 sum in global memory are flushed, in shared memory not.
struct Place {
  bool shared;
};

struct Add {
  template <class T>
  static T of(T old, T b, Place) {
    return T(typename Related<T>::U(old) + b);
  }
  static float of(float old, float b, Place place) {
    if (place.shared) return canonical(old + b);
    return flushed(canonical(flushed(old) + flushed(b)));
  }
  static double of(double old, double b, Place) { return with_payload(old + b, old, b); }
};
template <class F>
struct AddHalf {
  static uint16_t of(uint16_t old, uint16_t b, Place) {
    return narrowed<F>(widened<F>(old) + widened<F>(b), Rounding::kNearest);
  }
  static uint32_t of(uint32_t old, uint32_t b, Place place) {
    return of(uint16_t(old), uint16_t(b), place) |
           uint32_t(of(uint16_t(old >> 16), uint16_t(b >> 16), place)) << 16;
  }
};
struct And {
  template <class T>
  static T of(T old, T b, Place) {
    return T(old & b);
  }
};
struct Or {
  template <class T>
  static T of(T old, T b, Place) {
    return T(old | b);
  }
};
struct Xor {
  template <class T>
  static T of(T old, T b, Place) {
    return T(old ^ b);
  }
};
struct Min {
  template <class T>
  static T of(T old, T b, Place) {
    return b < old ? b : old;
  }
};
struct Max {
  template <class T>
  static T of(T old, T b, Place) {
    return b > old ? b : old;
  }
};
struct Exchange {
  template <class T>
  static T of(T, T b, Place) {
    return b;
  }
};
struct Inc {
  template <class T>
  static T of(T old, T b, Place) {
    return old >= b ? 0 : old + 1;
  }
};
struct Dec {
  template <class T>
  static T of(T old, T b, Place) {
    return old == 0 || old > b ? b : old - 1;
  }
};

// The unsigned integer of the same size, which the host's atomics work on.
template <uint32_t kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = uint16_t;
};
template <>
struct Word<4> {
  using Type = uint32_t;
};
template <>
struct Word<8> {
  using Type = uint64_t;
};
template <class T>
using WordOf = typename Word<sizeof(T)>::Type;

inline bool in_shared(const WarpView& w, const std::byte* at) {
  return at >= w.shared && at < w.shared + w.shared_bytes;
}

template <class F, class T>
bool atomic(WarpView& w, const Op& op, uint32_t mask) {
  using W = WordOf<T>;
  std::byte* at[kLanes];
  if (!locate(w, op, mask, sizeof(T), true, at)) return false;
  const T* b = source<T>(w, op.slot[1]);
  T* d = op.slot[0] == kNoSlot ? nullptr : destination<T>(w, op.slot[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    auto* word = reinterpret_cast<W*>(at[i]);
    const Place place{in_shared(w, at[i])};
    W old = __atomic_load_n(word, __ATOMIC_RELAXED);
    const T value = b[i];
    while (!__atomic_compare_exchange_n(word, &old,
                                        bits_as<W>(F::of(bits_as<T>(old), value, place)), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    if (d != nullptr) d[i] = bits_as<T>(old);
  }
  return true;
}

template <class T>
bool compare_and_swap(WarpView& w, const Op& op, uint32_t mask) {
  std::byte* at[kLanes];
  if (!locate(w, op, mask, sizeof(T), true, at)) return false;
  const T* b = source<T>(w, op.slot[1]);
  const T* c = source<T>(w, op.slot[2]);
  T* d = op.slot[0] == kNoSlot ? nullptr : destination<T>(w, op.slot[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    T old = b[i];
    __atomic_compare_exchange_n(reinterpret_cast<T*>(at[i]), &old, c[i], false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    if (d != nullptr) d[i] = old;
  }
  return true;
}

template <bool kExchange>
bool wide_swap(WarpView& w, const Op& op, uint32_t mask) {
  std::byte* at[kLanes];
  if (!locate(w, op, mask, sizeof(Unsigned128), true, at)) return false;
  const auto* b = source<Unsigned128>(w, op.slot[1]);
  const auto* c = kExchange ? b : source<Unsigned128>(w, op.slot[2]);
  auto* d = op.slot[0] == kNoSlot ? nullptr : destination<Unsigned128>(w, op.slot[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    Unsigned128 old = swap_wide(at[i], b[i], c[i]);
    if (kExchange) {
      for (Unsigned128 seen = old; (old = swap_wide(at[i], seen, b[i])) != seen; seen = old) {
      }
    }
    if (d != nullptr) d[i] = old;
  }
  return true;
}

template <class T>
Handler bits(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAnd:
      return atomic<And, T>;
    case AtomicOp::kOr:
      return atomic<Or, T>;
    case AtomicOp::kXor:
      return atomic<Xor, T>;
    case AtomicOp::kExchange:
      return atomic<Exchange, T>;
    case AtomicOp::kCas:
      return compare_and_swap<T>;
    default:
      return nullptr;
  }
}

template <class T>
Handler numbers(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAdd:
      return atomic<Add, T>;
    case AtomicOp::kMin:
      return atomic<Min, T>;
    case AtomicOp::kMax:
      return atomic<Max, T>;
    // Accepted for numbers as well, as the assembler does.
    case AtomicOp::kExchange:
      return atomic<Exchange, T>;
    case AtomicOp::kInc:
      if constexpr (sizeof(T) == 4 && !kIsSigned<T>) return atomic<Inc, T>;
      return nullptr;
    case AtomicOp::kDec:
      if constexpr (sizeof(T) == 4 && !kIsSigned<T>) return atomic<Dec, T>;
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Handler atomic_handler(AtomicOp op, AtomicType type) {
  const bool add = op == AtomicOp::kAdd;
  switch (type) {
    case AtomicType::kB16:
      return op == AtomicOp::kCas ? compare_and_swap<uint16_t> : nullptr;
    case AtomicType::kB32:
      return bits<uint32_t>(op);
    case AtomicType::kB64:
      return bits<uint64_t>(op);
    case AtomicType::kU32:
      return op == AtomicOp::kCas ? nullptr : numbers<uint32_t>(op);
    case AtomicType::kU64:
      return op == AtomicOp::kCas ? nullptr : numbers<uint64_t>(op);
    case AtomicType::kS32:
      return numbers<int32_t>(op);
    case AtomicType::kS64:
      return numbers<int64_t>(op);
    case AtomicType::kF32:
      return add ? atomic<Add, float> : nullptr;
    case AtomicType::kF64:
      return add ? atomic<Add, double> : nullptr;
    case AtomicType::kF16:
      return add ? atomic<AddHalf<F16>, uint16_t> : nullptr;
    case AtomicType::kF16x2:
      return add ? atomic<AddHalf<F16>, uint32_t> : nullptr;
    case AtomicType::kBF16:
      return add ? atomic<AddHalf<BF16>, uint16_t> : nullptr;
    case AtomicType::kBF16x2:
      return add ? atomic<AddHalf<BF16>, uint32_t> : nullptr;
    case AtomicType::kB128:
      return op == AtomicOp::kCas        ? wide_swap<false>
             : op == AtomicOp::kExchange ? wide_swap<true>
                                         : nullptr;
  }
  return nullptr;
}

}  // namespace simcuda::SIMCUDA_ISA
