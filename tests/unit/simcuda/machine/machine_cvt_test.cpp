// cvt over the whole product of types, roundings, .ftz and .sat: what PTX allows is compared with
// exact arithmetic, the rest must be refused.
#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::cvt_test {
namespace {

__extension__ typedef __int128 Big;

struct Kind {
  const char* name;
  uint32_t bits;
  bool real, sign;
  int mantissa, bias;
  const char* reg;
};
constexpr Kind kKinds[] = {
    {"u8", 8, false, false, 0, 0, "b16"},    {"s8", 8, false, true, 0, 0, "b16"},
    {"u16", 16, false, false, 0, 0, "b16"},  {"s16", 16, false, true, 0, 0, "b16"},
    {"u32", 32, false, false, 0, 0, "b32"},  {"s32", 32, false, true, 0, 0, "b32"},
    {"u64", 64, false, false, 0, 0, "b64"},  {"s64", 64, false, true, 0, 0, "b64"},
    {"f16", 16, true, true, 10, 15, "b16"},  {"bf16", 16, true, true, 7, 127, "b16"},
    {"f32", 32, true, true, 23, 127, "f32"}, {"f64", 64, true, true, 52, 1023, "f64"}};

// The first is none; then those to integral values; then those of floating-point results.
enum Round { kNone, kRni, kRzi, kRmi, kRpi, kRn, kRz, kRm, kRp, kRounds };
const char* const kRoundNames[] = {"", ".rni", ".rzi", ".rmi", ".rpi", ".rn", ".rz", ".rm", ".rp"};

struct Form {
  const Kind* to;
  const Kind* from;
  int round;
  bool ftz, sat;
  bool integral() const { return round >= kRni && round <= kRpi; }
  bool named() const { return round >= kRn; }
};

bool is(const Kind& k, const char* name) {
  return std::string(k.name) == name;
}
Big least(const Kind& k) {
  return k.sign ? -(Big{1} << (k.bits - 1)) : Big{0};
}
Big most(const Kind& k) {
  return (Big{1} << (k.sign ? k.bits - 1 : k.bits)) - 1;
}

bool legal(const Form& c) {
  const Kind &to = *c.to, &from = *c.from;
  if (c.ftz && !is(to, "f32") && !is(from, "f32")) return false;
  if (!to.real && !from.real) {
    return c.round == kNone && (!c.sat || least(from) < least(to) || most(from) > most(to));
  }
  if (!to.real) return c.integral();
  if (c.sat && is(to, "bf16")) return false;
  if (!from.real) return c.named();
  if (&to == &from) return !c.named();
  const bool loses = to.mantissa < from.mantissa || to.bias < from.bias;
  return loses ? c.named() : c.round == kNone;
}

// Forms of PTX that the machine refuses.
bool absent(const Form& c) {
  return c.to->real && c.from->real && c.to != c.from && c.to->bits == 16 && c.from->bits == 16;
}

uint64_t low(Big v, uint32_t w) {
  const auto x = static_cast<uint64_t>(v);
  return w == 64 ? x : x & ((uint64_t{1} << w) - 1);
}
Big number(uint64_t raw, const Kind& k) {
  const uint64_t v = low(static_cast<Big>(raw), k.bits);
  return k.sign && (v >> (k.bits - 1)) & 1 ? static_cast<Big>(v) - (Big{1} << k.bits)
                                           : static_cast<Big>(v);
}
// As a register holds it: 8 bits are extended to 16.
uint64_t in_register(Big v, const Kind& k) {
  const uint64_t exact = low(v, k.bits);
  return k.bits == 8 ? low(number(exact, k), 16) : exact;
}

long double decode(uint64_t raw, const Kind& k) {
  if (!k.real) return static_cast<long double>(number(raw, k));
  const uint64_t m = raw & ((uint64_t{1} << k.mantissa) - 1);
  const int e = static_cast<int>(raw >> k.mantissa & static_cast<uint64_t>(2 * k.bias + 1));
  long double v = 0;
  if (e == 2 * k.bias + 1) {
    v = m == 0 ? HUGE_VALL : std::nanl("");
  } else {
    const uint64_t lead = e == 0 ? 0 : uint64_t{1} << k.mantissa;
    v = std::ldexp(static_cast<long double>(m | lead), std::max(e, 1) - k.bias - k.mantissa);
  }
  return raw >> (k.bits - 1) & 1 ? -v : v;
}

uint64_t encode(long double x, const Kind& k, int round) {
  const bool negative = std::signbit(x);
  const uint64_t sign = negative ? uint64_t{1} << (k.bits - 1) : 0;
  const uint64_t infinity = static_cast<uint64_t>(2 * k.bias + 1) << k.mantissa;
  const long double m = std::fabs(x);
  if (std::isinf(m)) return sign | infinity;
  if (m == 0) return sign;
  const int e = std::max(std::ilogb(m), 1 - k.bias);
  const bool away = (round == kRp && !negative) || (round == kRm && negative);
  const bool nearest = round == kRn || !(round >= kRn);
  if (e > k.bias) return sign | (nearest || away ? infinity : infinity - 1);
  const long double units = std::ldexp(m, k.mantissa - e);
  auto n = static_cast<uint64_t>(units);
  const long double rest = units - static_cast<long double>(n);
  if (nearest ? rest > 0.5L || (rest == 0.5L && (n & 1)) : away && rest > 0) ++n;
  return sign | ((static_cast<uint64_t>(e - 1 + k.bias) << k.mantissa) + n);
}

long double integral(long double x, int round) {
  switch (round) {
    case kRni:
      return std::nearbyint(x);
    case kRzi:
      return std::trunc(x);
    case kRmi:
      return std::floor(x);
    default:
      return std::ceil(x);
  }
}

uint64_t to_integer(long double x, const Form& c) {
  const Kind& to = *c.to;
  if (std::isnan(x)) {
    const bool zero = !is(*c.from, "f64") && to.bits != 64;
    return zero ? 0 : in_register(Big{1} << (to.bits - 1), to);
  }
  x = integral(x, c.round);
  if (x >= static_cast<long double>(most(to))) return in_register(most(to), to);
  if (x <= static_cast<long double>(least(to))) return in_register(least(to), to);
  return in_register(static_cast<Big>(x), to);
}

uint64_t expected(uint64_t raw, const Form& c) {
  const Kind &to = *c.to, &from = *c.from;
  if (!to.real && !from.real) {
    const Big v = number(raw, from);
    return in_register(c.sat ? std::min(std::max(v, least(to)), most(to)) : v, to);
  }
  const auto tiny = [](long double v) { return std::fabs(v) < 0x1p-126L; };
  long double x = decode(raw, from);
  // Hardware does not flush where an f16 is rounded down or up.
  const bool kept = is(to, "f16") && (c.round == kRm || c.round == kRp);
  if (c.ftz && is(from, "f32") && tiny(x) && !kept) x = std::copysign(0.0L, x);
  if (!to.real) return to_integer(x, c);
  if (c.sat) x = std::isnan(x) || x <= 0 ? 0 : x > 1 ? 1 : x;
  // PTX leaves the bits of a NaN in f64 open; the other types have one NaN.
  if (std::isnan(x)) return is(to, "f64") ? 0 : is(to, "f32") ? 0x7fffffff : 0x7fff;
  if (c.integral()) x = integral(x, c.round);
  const uint64_t r = encode(x, to, c.round);
  if (c.ftz && is(to, "f32") && tiny(decode(r, to))) return r & 0x80000000;
  return r;
}

std::vector<uint64_t> values_of(const Kind& k) {
  std::vector<uint64_t> v = !k.real        ? integer_edges(std::max(k.bits, 16u))
                            : k.bits == 16 ? half_edges()
                            : is(k, "f32") ? float_edges()
                                           : double_edges();
  uint64_t state = 1000 + k.bits;
  for (int i = 0; i < 64; ++i) {
    const uint64_t r = next_random(state);
    v.push_back(k.bits == 64 ? r : r >> (64 - std::max(k.bits, 16u)));
  }
  // Around what another format or width can just hold.
  for (int e = -20; k.real && e < 66; ++e) {
    for (const long double m : {1.0L, 1.25L, 1.5L, 1.99999L}) {
      const uint64_t r = encode(std::ldexp(m, e), k, kRz);
      v.insert(v.end(), {r, r + 1, r ^ uint64_t{1} << (k.bits - 1)});
    }
  }
  return v;
}

void check_form(const Form& c) {
  const std::string code = std::string("cvt") + kRoundNames[c.round] + (c.ftz ? ".ftz" : "") +
                           (c.sat ? ".sat" : "") + "." + c.to->name + "." + c.from->name +
                           " %d, %a;";
  const std::string types = std::string(c.to->reg) + " " + c.from->reg;
  if (!legal(c) || absent(c)) {
    EXPECT_NE(decode_error(code, types), "") << code;
    return;
  }
  const auto values = values_of(*c.from);
  const auto got = evaluate(code, types, singles(values));
  int shown = 0;
  for (size_t i = 0; i < values.size() && shown < 3; ++i) {
    const bool nan =
        c.from->real && !c.sat && is(*c.to, "f64") && std::isnan(decode(values[i], *c.from));
    const uint64_t want = expected(values[i], c);
    if (nan ? std::isnan(f64(got[i])) : got[i] == want) continue;
    ++shown;
    ADD_FAILURE() << code << std::hex << " of " << values[i] << ": got " << got[i] << ", want "
                  << want;
  }
}

TEST(Cvt, EveryCombination) {
  size_t forms = 0;
  for (const Kind& to : kKinds) {
    for (const Kind& from : kKinds) {
      for (int round = kNone; round < kRounds; ++round) {
        for (const bool ftz : {false, true}) {
          for (const bool sat : {false, true}) {
            const Form c{&to, &from, round, ftz, sat};
            check_form(c);
            forms += legal(c) ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(forms, 500u);
}

TEST(Cvt, ReluGoesWithTheHalfFormatsFromF32) {
  const auto in = singles(values_of(kKinds[10]));
  for (const Kind* to : {&kKinds[8], &kKinds[9]}) {
    for (const int round : {kRn, kRz}) {
      const std::string code = std::string("cvt") + kRoundNames[round] + ".relu." + to->name;
      const auto one = [&](uint64_t raw) {
        const long double x = decode(raw, kKinds[10]);
        return std::isnan(x) ? uint64_t{0x7fff} : encode(x <= 0 ? 0.0L : x, *to, round);
      };
      check(code + ".f32 %d, %a;", "b16 f32", in, [&](const Inputs& x) { return one(x.a); });
      check(code + "x2.f32 %d, %a, %b;", "b32 f32 f32", pairs(float_edges(), float_edges()),
            [&](const Inputs& x) { return one(x.a) << 16 | one(x.b); });
    }
    const std::string name = to->name;
    for (const std::string mods :
         {".rm.relu.", ".rp.relu.", ".rn.ftz.relu.", ".rn.sat.relu.", ".relu.", ".rni.relu."}) {
      EXPECT_NE(decode_error("cvt" + mods + name + ".f32 %d, %a;", "b16 f32"), "") << mods << name;
      EXPECT_NE(decode_error("cvt" + mods + name + "x2.f32 %d, %a, %b;", "b32 f32 f32"), "")
          << mods;
    }
    for (const std::string mods : {".rm.", ".rp.", ".rn.ftz.", ".rn.sat.", ".", ".rni."}) {
      EXPECT_NE(decode_error("cvt" + mods + name + "x2.f32 %d, %a, %b;", "b32 f32 f32"), "")
          << mods;
    }
    EXPECT_NE(decode_error("cvt.rn.relu." + name + ".f64 %d, %a;", "b16 f64"), "");
    EXPECT_NE(decode_error("cvt.rn.relu." + name + ".s32 %d, %a;", "b16 b32"), "");
  }
}

}  // namespace
}  // namespace simcuda::test::cvt_test
