// Directed rounding where it matters, for all lanes and for some; and the two sets of handlers
// against each other.
#include "tests/unit/simcuda/machine/values.h"
#include "tools/simcuda/machine/handlers.h"

namespace simcuda::test::rounding_test {
namespace {

const char* const kModes[] = {"rn", "rz", "rm", "rp"};

template <class T>
T opaque(T x) {
  volatile T v = x;
  return v;
}

// Numbers with few or nearly all bits set and exponents that meet each other, that overflow or that
// end below the normal numbers: their results lie at, or next to, the middle of two numbers.
template <class T>
T hard(uint64_t& state) {
  constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  constexpr int kBias = sizeof(T) == 4 ? 127 : 1023;
  constexpr uint64_t kMask = (uint64_t{1} << kMantissa) - 1;
  const uint64_t r = next_random(state);
  const uint64_t shift = next_random(state) % (kMantissa + 1);
  const uint64_t mantissas[] = {
      uint64_t{1} << shift,       kMask << shift, kMask >> shift, next_random(state), 0,
      next_random(state) << shift};
  const uint64_t mantissa = mantissas[r % 6] & kMask;
  const int spread = static_cast<int>(next_random(state) % (2 * kMantissa)) - kMantissa;
  const int exponents[] = {kBias + spread,
                           kBias + spread / 8,
                           kBias / 2 + spread,
                           kBias + kBias / 2 + spread,
                           static_cast<int>(r >> 40 & 3),
                           2 * kBias - static_cast<int>(r >> 44 & 3)};
  const auto exponent = static_cast<uint64_t>(exponents[(r >> 8) % 6]);
  const uint64_t sign = r >> 20 & 1;
  const uint64_t whole = sign << (sizeof(T) * 8 - 1) | exponent << kMantissa | mantissa;
  if constexpr (sizeof(T) == 4) return f32(whole);
  return f64(whole);
}

template <class T>
struct Operation {
  const char* name;
  int sources;
  T (*apply)(T, T, T);
};
template <class T>
const Operation<T> kOperations[] = {
    {"add", 2, [](T a, T b, T) { return opaque(a + b); }},
    {"sub", 2, [](T a, T b, T) { return opaque(a - b); }},
    {"mul", 2, [](T a, T b, T) { return opaque(a * b); }},
    {"div", 2, [](T a, T b, T) { return opaque(a / b); }},
    {"fma", 3, [](T a, T b, T c) { return opaque(std::fma(a, b, c)); }},
    {"sqrt", 1, [](T a, T, T) { return opaque(std::sqrt(a)); }},
    {"rcp", 1, [](T a, T, T) { return opaque(T(1) / a); }}};

uint64_t result_bits(float r) {
  return std::isnan(r) ? 0x7fffffff : bits(r);
}
uint64_t result_bits(double r) {
  return std::isnan(r) ? 0xfff8000000000000 : bits(r);
}

template <class T>
void check_operation(const Operation<T>& op, const std::string& mode, uint32_t mask) {
  constexpr const char* kType = sizeof(T) == 4 ? "f32" : "f64";
  constexpr const char* kBefore = sizeof(T) == 4 ? "0f42280000" : "0d4045000000000000";
  uint64_t state = 0x9e3779b97f4a7c15 + mask;
  std::vector<Inputs> in;
  for (uint64_t i = 0; i < 1024; ++i) {
    in.push_back({bits(hard<T>(state)), bits(hard<T>(state)), bits(hard<T>(state)), i});
  }
  const char* operands[] = {" %d, %a;", " %d, %a, %b;", " %d, %a, %b, %c;"};
  // The lanes that are switched off keep what they had.
  const std::string code = std::string("{ .reg .pred %q; .reg .b32 %u, %m; mov.u32 %u, %laneid; ") +
                           "mov.u32 %m, " + std::to_string(mask) +
                           "; shr.u32 %u, %m, %u; and.b32 %u, %u, 1; setp.ne.u32 %q, %u, 0; mov." +
                           kType + " %d, " + kBefore + "; @%q " + op.name + "." + mode + "." +
                           kType + operands[op.sources - 1] + " }";
  std::string types = kType;
  for (int i = 0; i < 3; ++i) types += std::string(" ") + kType;
  check(code, types, in, [&](const Inputs& x) {
    if ((mask >> (x.d % 32) & 1) == 0) return bits(T(42));
    const auto value = [](uint64_t raw) {
      if constexpr (sizeof(T) == 4) return f32(raw);
      if constexpr (sizeof(T) == 8) return f64(raw);
    };
    const HostRounding host(mode);
    return result_bits(op.apply(opaque(value(x.a)), opaque(value(x.b)), opaque(value(x.c))));
  });
}

TEST(Rounding, HardCasesForAllLanesAndForSome) {
  for (const char* mode : kModes) {
    for (const uint32_t mask : {0xffffffffu, 0x55555555u, 0x80000000u, 0x00000fffu}) {
      for (const auto& op : kOperations<float>) check_operation(op, mode, mask);
      for (const auto& op : kOperations<double>) check_operation(op, mode, mask);
    }
  }
}

// A mode lasts for its instruction alone, also between instructions that could be moved.
TEST(Rounding, ModesDoNotLeak) {
  uint64_t state = 77;
  std::vector<Inputs> in;
  for (int i = 0; i < 2000; ++i) in.push_back({bits(hard<float>(state)), bits(hard<float>(state))});
  check(
      "{ .reg .f32 %u, %v, %w; add.rp.f32 %u, %a, %b; add.rm.f32 %v, %a, %b; add.f32 %w, %a, %b; "
      ".reg .b32 %x, %y, %z; mov.b32 %x, %u; mov.b32 %y, %v; mov.b32 %z, %w; "
      "xor.b32 %x, %x, %y; xor.b32 %d, %x, %z; }",
      "b32 f32 f32", in, [](const Inputs& x) {
        const auto sum = [&](const char* mode) {
          const HostRounding host(mode);
          return result_bits(opaque(opaque(f32(x.a)) + opaque(f32(x.b))));
        };
        return sum("rp") ^ sum("rm") ^ sum("rn");
      });
}

// Registers, and one operation on them by each of the two sets.
class Comparison {
 public:
  void compare(Handler baseline, Handler best, const std::string& what, uint8_t flags = 0,
               Rounding rounding = Rounding::kNearest) {
    ASSERT_EQ(baseline == nullptr, best == nullptr) << what;
    if (baseline == nullptr) return;
    ++compared_;
    for (const uint32_t mask : {kAllLanes, 0x0f0f1234u}) {
      fill();
      const auto first = run(handlers_of(false), baseline, flags, rounding, mask);
      const auto second = run(handlers_of(true), best, flags, rounding, mask);
      EXPECT_EQ(first, second) << what << " flags " << int{flags} << " rounding "
                               << static_cast<int>(rounding);
    }
  }
  size_t compared() const { return compared_; }

 private:
  static constexpr size_t kSlotBytes = kLanes * 8;
  static constexpr size_t kBytes = kMaxSlots * kSlotBytes;

  static const Handlers& handlers_of(bool best) {
    return best ? best_handlers() : baseline_handlers();
  }
  // Each slot holds numbers that mean something in one of the formats.
  void fill() {
    for (size_t i = 0; i < kBytes; i += 8) {
      const uint64_t r = next_random(state_);
      const uint64_t words[] = {r, bits(hard<double>(state_)),
                                bits(hard<float>(state_)) << 32 | bits(hard<float>(state_)),
                                bits(static_cast<float>(r % 100000) / 64.f - 700.f) |
                                    bits(static_cast<float>(r % 77) / 8.f) << 32,
                                r & 0x1f0000001f};
      std::memcpy(start_ + i, &words[(i / kSlotBytes + variant_) % 5], 8);
    }
    ++variant_;
  }
  std::vector<unsigned char> run(const Handlers& set, Handler handler, uint8_t flags,
                                 Rounding rounding, uint32_t mask) {
    std::memcpy(registers_, start_, kBytes);
    WarpView view;
    view.registers = registers_;
    Op op;
    for (uint32_t i = 0; i < kMaxSlots; ++i) op.slot[i] = static_cast<int32_t>(i * kSlotBytes);
    op.flags = flags;
    op.rounding = rounding;
    op.immediate = 0x96;
    op.run = handler;
    op.inner = handler;
    const bool directed = rounding != Rounding::kNearest;
    EXPECT_TRUE((directed ? set.rounded : handler)(view, op, mask));
    std::vector<unsigned char> after(kBytes);
    std::memcpy(after.data(), registers_, kBytes);
    return after;
  }

  alignas(64) std::byte start_[kBytes];
  alignas(64) std::byte registers_[kBytes];
  uint64_t state_ = 4711;
  size_t variant_ = 0, compared_ = 0;
};

constexpr Rounding kRoundings[] = {Rounding::kNearest, Rounding::kZero, Rounding::kDown,
                                   Rounding::kUp};

TEST(Isa, FloatingPointIsTheSameToTheBit) {
  Comparison c;
  const Handlers &a = baseline_handlers(), &b = best_handlers();
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (int op = 0; op <= static_cast<int>(FloatOp::kRsqrtGross); ++op) {
      const auto o = static_cast<FloatOp>(op);
      for (const Num type : {Num::kF32, Num::kF64}) {
        for (uint8_t flags = 0; flags < 4; ++flags) {
          for (const Rounding r : kRoundings) {
            c.compare(a.floating(o, type, flags), b.floating(o, type, flags),
                      "FloatOp " + std::to_string(op), flags, r);
          }
        }
      }
    }
    for (int op = 0; op <= static_cast<int>(HalfOp::kNeg); ++op) {
      for (int type = 0; type < 4; ++type) {
        const auto o = static_cast<HalfOp>(op);
        const auto t = static_cast<Half>(type);
        for (uint8_t flags = 0; flags < 8; ++flags) {
          c.compare(a.half(o, t), b.half(o, t), "HalfOp " + std::to_string(op), flags);
        }
      }
    }
  }
  EXPECT_GT(c.compared(), 1000u);
}

TEST(Isa, ConversionsAreTheSameToTheBit) {
  Comparison c;
  const Handlers &a = baseline_handlers(), &b = best_handlers();
  for (int x = 0; x < 10; ++x) {
    for (int y = 0; y < 10; ++y) {
      const auto from = static_cast<Num>(x), to = static_cast<Num>(y);
      const std::string what = std::to_string(x) + " to " + std::to_string(y);
      for (uint8_t flags = 0; flags < 4; ++flags) {
        for (const Rounding r : kRoundings) {
          c.compare(a.float_to_float(from, to, flags), b.float_to_float(from, to, flags), what,
                    flags, r);
          c.compare(a.integer_to_float(from, to, flags), b.integer_to_float(from, to, flags), what,
                    flags, r);
          const auto mode = static_cast<Integral>(r);
          c.compare(a.float_to_integer(from, to, mode, flags, false),
                    b.float_to_integer(from, to, mode, flags, false), what, flags);
        }
      }
    }
    for (uint8_t flags = 0; flags < 8; ++flags) {
      for (int h = 0; h < 4; ++h) {
        const auto num = static_cast<Num>(x);
        const auto half = static_cast<Half>(h);
        c.compare(a.to_half(num, half), b.to_half(num, half), "to half", flags, Rounding::kZero);
        c.compare(a.from_half(half, num), b.from_half(half, num), "from half", flags);
      }
    }
  }
  EXPECT_GT(c.compared(), 300u);
}

TEST(Isa, IntegersAreTheSame) {
  Comparison c;
  const Handlers &a = baseline_handlers(), &b = best_handlers();
  for (int op = 0; op <= static_cast<int>(IntOp::kMaxX2); ++op) {
    for (int type = 0; type <= static_cast<int>(Num::kS64); ++type) {
      const auto o = static_cast<IntOp>(op);
      const auto t = static_cast<Num>(type);
      for (int repeat = 0; repeat < 10; ++repeat) {
        c.compare(a.integer(o, t), b.integer(o, t), "IntOp " + std::to_string(op));
      }
    }
  }
  EXPECT_GT(c.compared(), 2000u);
}

}  // namespace
}  // namespace simcuda::test::rounding_test
