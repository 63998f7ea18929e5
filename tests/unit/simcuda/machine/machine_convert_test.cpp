// Conversions to, from and between floating-point formats, against exact arithmetic.
#include "tests/unit/simcuda/machine/half_values.h"

namespace simcuda::test::convert_test {
namespace {

__extension__ typedef __int128 Big;

struct IntegerType {
  const char* name;
  uint32_t bits;
  bool sign;
};
constexpr IntegerType kIntegers[] = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                     {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                     {"u64", 64, false}, {"s64", 64, true}};
const char* const kModes[] = {"rn", "rz", "rm", "rp"};
const char* const kIntegral[] = {"rni", "rzi", "rmi", "rpi"};

uint64_t low(Big v, uint32_t w) {
  const auto x = static_cast<uint64_t>(v);
  return w == 64 ? x : x & ((uint64_t{1} << w) - 1);
}
Big number(uint64_t raw, const IntegerType& t) {
  raw = low(static_cast<Big>(raw), t.bits);
  if (t.sign && (raw >> (t.bits - 1)) & 1) return static_cast<Big>(raw) - (Big{1} << t.bits);
  return static_cast<Big>(raw);
}

long double integral(double x, int mode) {
  switch (mode) {
    case 0:
      return std::nearbyint(x);
    case 1:
      return std::trunc(x);
    case 2:
      return std::floor(x);
    default:
      return std::ceil(x);
  }
}

uint64_t to_integer(double x, const IntegerType& t, int mode, bool wide_source) {
  const Big most = (Big{1} << (t.sign ? t.bits - 1 : t.bits)) - 1;
  const Big least = t.sign ? -(Big{1} << (t.bits - 1)) : Big{0};
  if (std::isnan(x)) return wide_source || t.bits == 64 ? uint64_t{1} << (t.bits - 1) : 0;
  if (x > 1e20) return low(most, t.bits);
  if (x < -1e20) return low(least, t.bits);
  const Big v = static_cast<Big>(integral(x, mode));
  return low(v < least ? least : v > most ? most : v, t.bits);
}

TEST(Convert, FloatToInteger) {
  for (const IntegerType& t : kIntegers) {
    const uint32_t slot = t.bits == 8 ? 16 : t.bits;
    for (int mode = 0; mode < 4; ++mode) {
      const std::string begin = std::string("cvt.") + kIntegral[mode];
      const std::string reg = "b" + std::to_string(slot);
      // An 8-bit result is extended to its register.
      const auto extended = [&](uint64_t v) { return low(number(v, t), slot); };
      check(begin + "." + t.name + ".f32 %d, %a;", reg + " f32", singles(float_edges()),
            [&](const Inputs& x) { return extended(to_integer(f32(x.a), t, mode, false)); });
      check(begin + ".ftz." + t.name + ".f32 %d, %a;", reg + " f32", singles(float_edges()),
            [&](const Inputs& x) { return extended(to_integer(flush(f32(x.a)), t, mode, false)); });
      check(begin + "." + t.name + ".f64 %d, %a;", reg + " f64", singles(double_edges()),
            [&](const Inputs& x) { return extended(to_integer(f64(x.a), t, mode, true)); });
    }
  }
}

TEST(Convert, SaturatedAndPacked) {
  for (const std::string type : {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"}) {
    const int bits = std::stoi(type.substr(1));
    const bool is_signed = type[0] == 's', has_third = bits < 16;
    const int64_t most = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    const int64_t least = is_signed ? -most - 1 : 0;
    const auto field = [&](uint64_t raw) {
      const int64_t value = static_cast<int32_t>(raw);
      const int64_t within = value < least ? least : value > most ? most : value;
      return static_cast<uint64_t>(within) & ((uint64_t{1} << bits) - 1);
    };
    auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
    append_random(in, 32);
    const std::string code = "cvt.pack.sat." + type + ".s32" + (has_third ? ".b32" : "") +
                             " %d, %a, %b" + (has_third ? ", %c;" : ";");
    check(code, has_third ? "b32 b32 b32 b32" : "b32 b32 b32", in, [&](const Inputs& x) {
      const uint64_t pair = field(x.a) << bits | field(x.b);
      return has_third ? (pair | x.c << (2 * bits)) & 0xffffffff : pair;
    });
  }
  for (const char* bad :
       {"cvt.pack.sat.u8.s32 %d, %a, %b;", "cvt.pack.u16.s32 %d, %a, %b;",
        "cvt.pack.sat.u16.s32.b32 %d, %a, %b, %a;", "cvt.pack.sat.u16.u32 %d, %a, %b;"}) {
    EXPECT_NE(decode_error(bad, "b32 b32 b32"), "") << bad;
  }
}

// Rounds an exact integer to a mantissa of `p` bits.
double rounded(Big v, int p, const std::string& mode) {
  const bool negative = v < 0;
  __extension__ unsigned __int128 m = static_cast<unsigned __int128>(negative ? -v : v);
  int shift = 0;
  while ((m >> shift) >> p != 0) ++shift;
  if (shift == 0) return static_cast<double>(v);
  __extension__ unsigned __int128 rest = m & ((static_cast<unsigned __int128>(1) << shift) - 1);
  __extension__ unsigned __int128 half = static_cast<unsigned __int128>(1) << (shift - 1);
  m >>= shift;
  const bool up = mode == "rn"   ? rest > half || (rest == half && (m & 1))
                  : mode == "rp" ? !negative && rest != 0
                  : mode == "rm" ? negative && rest != 0
                                 : false;
  m += up ? 1 : 0;
  const double r = std::ldexp(static_cast<double>(static_cast<uint64_t>(m)), shift);
  return negative ? -r : r;
}

TEST(Convert, IntegerToFloat) {
  for (const IntegerType& t : kIntegers) {
    const uint32_t slot = t.bits == 8 ? 16 : t.bits;
    std::vector<uint64_t> values = integer_edges(slot);
    uint64_t state = 11;
    for (int i = 0; i < 500; ++i) {
      const uint64_t shift = next_random(state) % 64;
      values.push_back(low(static_cast<Big>(next_random(state) >> shift), slot));
    }
    for (uint64_t k = 23; k < 63; ++k) {
      if (k >= slot) break;
      for (const uint64_t d :
           {uint64_t{0}, uint64_t{1}, (uint64_t{1} << k) >> 24, (uint64_t{1} << k) >> 53}) {
        values.push_back(low(static_cast<Big>((uint64_t{1} << k) + d), slot));
        values.push_back(low(static_cast<Big>((uint64_t{1} << k) + 2 * d + 1), slot));
      }
    }
    for (const char* mode : kModes) {
      const std::string reg = " b" + std::to_string(slot);
      const std::string begin = std::string("cvt.") + mode;
      check(begin + ".f32." + t.name + " %d, %a;", "f32" + reg, singles(values),
            [&](const Inputs& x) {
              return bits(static_cast<float>(rounded(number(x.a, t), 24, mode)));
            });
      check(begin + ".f64." + t.name + " %d, %a;", "f64" + reg, singles(values),
            [&](const Inputs& x) { return bits(rounded(number(x.a, t), 53, mode)); });
    }
  }
}

uint64_t canonical(float r) {
  return std::isnan(r) ? 0x7fffffff : bits(r);
}
uint64_t saturated(float r) {
  return !(r > 0) ? 0 : r >= 1 ? bits(1.0f) : bits(r);
}

TEST(Convert, BetweenFloats) {
  std::vector<uint64_t> doubles = double_edges();
  for (const uint64_t f : float_edges()) {
    const uint64_t d = bits(static_cast<double>(f32(f)));
    doubles.insert(doubles.end(),
                   {d, d + 1, d - 1, d + 0x10000000, d + 0x10000001, d + 0x0fffffff});
  }
  for (const char* mode : kModes) {
    const auto narrow = [&](double x) {
      const HostRounding host(mode);
      volatile double v = x;
      volatile float r = static_cast<float>(v);
      return static_cast<float>(r);
    };
    const std::string begin = std::string("cvt.") + mode;
    check(begin + ".f32.f64 %d, %a;", "f32 f64", singles(doubles),
          [&](const Inputs& x) { return canonical(narrow(f64(x.a))); });
    check(begin + ".ftz.f32.f64 %d, %a;", "f32 f64", singles(doubles),
          [&](const Inputs& x) { return canonical(flush(narrow(f64(x.a)))); });
    check(begin + ".sat.f32.f64 %d, %a;", "f32 f64", singles(doubles),
          [&](const Inputs& x) { return saturated(narrow(f64(x.a))); });
  }
  const auto in = singles(float_edges());
  check("cvt.f64.f32 %d, %a;", "f64 f32", in,
        [](const Inputs& x) { return bits(static_cast<double>(f32(x.a))); });
  check("cvt.ftz.f64.f32 %d, %a;", "f64 f32", in,
        [](const Inputs& x) { return bits(static_cast<double>(flush(f32(x.a)))); });
  check("cvt.sat.f32.f32 %d, %a;", "f32 f32", in,
        [](const Inputs& x) { return saturated(f32(x.a)); });
  check("cvt.ftz.f32.f32 %d, %a;", "f32 f32", in,
        [](const Inputs& x) { return canonical(flush(f32(x.a))); });
  for (int mode = 0; mode < 4; ++mode) {
    const std::string begin = std::string("cvt.") + kIntegral[mode];
    check(begin + ".f32.f32 %d, %a;", "f32 f32", in,
          [&](const Inputs& x) { return canonical(static_cast<float>(integral(f32(x.a), mode))); });
    check(begin + ".f64.f64 %d, %a;", "f64 f64", singles(double_edges()), [&](const Inputs& x) {
      const double a = f64(x.a);
      return std::isnan(a) ? x.a | 0x0008000000000000
                           : bits(static_cast<double>(integral(a, mode)));
    });
  }
}

TEST(Convert, HalfFormats) {
  for (const Format& f : kFormats) {
    std::vector<uint64_t> all;
    for (uint64_t h = 0; h < 65536; h += 7) all.push_back(h);
    const std::string name = f.name;
    check("cvt.f32." + name + " %d, %a;", "f32 b16", singles(all),
          [&](const Inputs& x) { return canonical(static_cast<float>(half_value(x.a, f))); });
    std::vector<uint64_t> values = float_edges();
    for (const uint64_t h : half_edges()) {
      const uint64_t v = bits(static_cast<float>(half_value(h, f)));
      values.insert(values.end(), {v, v + 1, v - 1, v + (1u << (22 - f.mantissa)),
                                   v + (1u << (22 - f.mantissa)) + 1});
    }
    uint64_t state = 3;
    for (int i = 0; i < 2000; ++i) values.push_back(next_random(state) >> 32);
    for (const char* mode : {"rn", "rz"}) {
      check("cvt." + std::string(mode) + "." + name + ".f32 %d, %a;", "b16 f32", singles(values),
            [&](const Inputs& x) { return to_half(f32(x.a), f, mode); });
      check("cvt." + std::string(mode) + "." + name + "x2.f32 %d, %a, %b;", "b32 f32 f32",
            pairs(values, {0x3f800000, 0xc2290000}), [&](const Inputs& x) {
              return to_half(f32(x.a), f, mode) << 16 | to_half(f32(x.b), f, mode);
            });
    }
  }
  check("cvt.rn.f16.f64 %d, %a;", "b16 f64", singles(double_edges()),
        [](const Inputs& x) { return to_half(f64(x.a), kFormats[0], "rn"); });
  check("cvt.rn.f16.s32 %d, %a;", "b16 b32", singles(integer_edges(32)),
        [](const Inputs& x) { return to_half(static_cast<int32_t>(x.a), kFormats[0], "rn"); });
  check("cvt.rzi.s32.f16 %d, %a;", "b32 b16", singles(half_edges()), [](const Inputs& x) {
    return to_integer(half_value(x.a, kFormats[0]), kIntegers[5], 1, false);
  });
}

}  // namespace
}  // namespace simcuda::test::convert_test
