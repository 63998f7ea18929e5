// Arithmetic and atomics on the half-precision formats, with every modifier that there is: what PTX
// has is compared with exact arithmetic, what it does not have must be refused.
#include "tests/unit/simcuda/machine/half_values.h"

namespace simcuda::test::half_test {
namespace {

// A number that every half format rounds as it rounds the exact a * b + c: that itself, or one
// strictly between the two doubles around it, where no number of 12 bits lies.
long double exact(double a, double b, double c) {
  volatile double x = a, y = b, z = c;
  double below = 0, above = 0;
  {
    const HostRounding host("rm");
    below = std::fma(x, y, z);
  }
  {
    const HostRounding host("rp");
    above = std::fma(x, y, z);
  }
  const double nearest = std::fma(x, y, z);
  if (std::isnan(nearest) || below == above) return nearest;
  return (static_cast<long double>(below) + above) / 2;
}

struct Variant {
  bool rn, ftz, sat, relu, nan;
  std::string text() const {
    return std::string(rn ? ".rn" : "") + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") +
           (relu ? ".relu" : "") + (nan ? ".NaN" : "");
  }
};

bool legal(const std::string& op, bool brain, const Variant& v) {
  if (brain && (v.ftz || v.sat)) return false;
  if (op == "fma") return v.rn && !v.nan && !(v.sat && v.relu);
  if (op == "add" || op == "sub" || op == "mul") return !v.nan && !v.relu;
  if (op == "min" || op == "max") return !v.rn && !v.sat && !v.relu;
  return !v.rn && !v.sat && !v.relu && !v.nan;  // abs, neg
}

uint64_t flushed(uint64_t h, const Format& f) {
  return (h & 0x7fff) >> f.mantissa == 0 ? h & 0x8000 : h;
}

uint64_t extreme(uint64_t a, uint64_t b, const Format& f, bool least, bool nan) {
  const double x = half_value(a, f), y = half_value(b, f);
  if (std::isnan(x) && std::isnan(y)) return 0x7fff;
  if (std::isnan(x) || std::isnan(y)) return nan ? 0x7fff : std::isnan(x) ? b : a;
  if (x == y) return ((a & 0x8000) != 0) == least ? a : b;
  return (x < y) == least ? a : b;
}

uint64_t expected(const std::string& op, const Format& f, const Variant& v, uint64_t a, uint64_t b,
                  uint64_t c) {
  if (v.ftz) {
    a = flushed(a, f);
    b = flushed(b, f);
    c = flushed(c, f);
  }
  if (op == "neg") return a ^ 0x8000;
  if (op == "abs") return a & 0x7fff;
  if (op == "min" || op == "max") return extreme(a, b, f, op == "min", v.nan);
  const double x = half_value(a, f), y = half_value(b, f), z = half_value(c, f);
  long double r = op == "add"   ? exact(x, 1, y)
                  : op == "sub" ? exact(x, 1, -y)
                  : op == "mul" ? exact(x, y, -0.0)
                                : exact(x, y, z);
  if (op == "mul" && r == 0) r = std::signbit(x) != std::signbit(y) ? -0.0L : 0.0L;
  if (v.sat) r = std::isnan(r) || r <= 0 ? 0 : r > 1 ? 1 : r;
  if (v.relu && r <= 0) r = 0;
  const uint64_t h = to_half(r, f, "rn");
  return v.ftz ? flushed(h, f) : h;
}

TEST(Half, EveryFormOfTheArithmetic) {
  const auto edges = half_edges();
  std::vector<uint64_t> twos;
  for (size_t i = 0; i < edges.size(); ++i) {
    twos.push_back(edges[i] << 16 | edges[(i * 7 + 3) % edges.size()]);
  }
  uint64_t state = 2026;
  for (int i = 0; i < 40; ++i) twos.push_back(next_random(state) >> 32);
  const auto in = triples(twos, twos, twos);
  for (const Format& f : kFormats) {
    for (const std::string op : {"add", "sub", "mul", "fma", "min", "max", "abs", "neg"}) {
      for (uint32_t k = 0; k < 32; ++k) {
        const Variant v{(k & 1) != 0, (k & 2) != 0, (k & 4) != 0, (k & 8) != 0, (k & 16) != 0};
        const std::string operands = op == "abs" || op == "neg" ? " %d, %a;"
                                     : op == "fma"              ? " %d, %a, %b, %c;"
                                                                : " %d, %a, %b;";
        const std::string code = op + v.text() + "." + f.name;
        const bool brain = std::string(f.name) == "bf16";
        if (!legal(op, brain, v)) {
          EXPECT_NE(decode_error(code + operands, "b16 b16 b16 b16"), "") << code;
          EXPECT_NE(decode_error(code + "x2" + operands, "b32 b32 b32 b32"), "") << code << "x2";
          continue;
        }
        const auto half = [&](const Inputs& x, uint32_t s) {
          return expected(op, f, v, x.a >> s & 0xffff, x.b >> s & 0xffff, x.c >> s & 0xffff);
        };
        check(code + operands, "b16 b16 b16 b16", in, [&](const Inputs& x) { return half(x, 0); });
        check(code + "x2" + operands, "b32 b32 b32 b32", in,
              [&](const Inputs& x) { return half(x, 16) << 16 | half(x, 0); });
      }
    }
  }
}

// Products and sums whose exponents are far apart are where a wrong second rounding shows.
TEST(Half, FusedMultiplyAddRoundsOnce) {
  for (const Format& f : kFormats) {
    std::vector<Inputs> in;
    uint64_t state = 5;
    const auto infinity = static_cast<uint64_t>(2 * f.bias + 1) << f.mantissa;
    for (int i = 0; i < 20000; ++i) {
      // a * b lies in the middle of two numbers or near, c decides.
      const uint64_t one = static_cast<uint64_t>(f.bias) << f.mantissa;
      const uint64_t a = one | (next_random(state) & ((1u << f.mantissa) - 1));
      const uint64_t b = one | (next_random(state) & ((1u << f.mantissa) - 1));
      const uint64_t c = next_random(state) % infinity | (next_random(state) & 0x8000);
      in.push_back({a, b, c, 0});
    }
    check(std::string("fma.rn.") + f.name + " %d, %a, %b, %c;", "b16 b16 b16 b16", in,
          [&](const Inputs& x) { return expected("fma", f, {}, x.a, x.b, x.c); });
  }
}

// Every lane has a word of its own: what was there comes back, and the sum is there.
TEST(Half, Atomics) {
  std::vector<uint64_t> twos;
  uint64_t state = 31;
  for (int i = 0; i < 60; ++i) twos.push_back(next_random(state) >> 32);
  for (const uint64_t h : half_edges()) twos.push_back(h << 16 | h);
  const auto in = pairs(twos, twos);
  for (const Format& f : kFormats) {
    const auto half = [&](const Inputs& x, uint32_t s) {
      return expected("add", f, {}, x.a >> s & 0xffff, x.b >> s & 0xffff, 0);
    };
    for (const bool two : {false, true}) {
      const std::string type = std::string(f.name) + (two ? "x2" : "");
      const std::string bits = two ? "b32" : "b16";
      const std::string types = bits + " " + bits + " " + bits;
      const uint64_t low = two ? 0xffffffff : 0xffff;
      const auto sum = [&](const Inputs& x) {
        return two ? half(x, 16) << 16 | half(x, 0) : half(x, 0);
      };
      for (const std::string space : {".global", ""}) {
        const std::string atom = "atom" + space + ".add.noftz." + type;
        check(atom + " %d, [%in], %b;", types, in, [&](const Inputs& x) { return x.a & low; });
        check(atom + " %d, [%in], %b; ld.global." + bits + " %d, [%in];", types, in, sum);
        check(
            "red" + space + ".add.noftz." + type + " [%in], %b; ld.global." + bits + " %d, [%in];",
            types, in, sum);
      }
      // One lane after the other at one word of shared memory.
      check(".shared .align 4 .b32 word; st.shared." + bits + " [word], %a; " +
                "atom.shared.add.noftz." + type + " %d, [word], %b; ld.shared." + bits +
                " %d, [word];",
            types, {in[7]}, sum);
      EXPECT_NE(decode_error("atom.global.add." + type + " %d, [%in], %b;", types), "");
      EXPECT_NE(decode_error("atom.global.min.noftz." + type + " %d, [%in], %b;", types), "");
    }
  }
  EXPECT_NE(decode_error("atom.global.add.noftz.f32 %d, [%in], %b;", "f32 f32 f32"), "");
  check("atom.global.cas.b16 %d, [%in], %b, %c;", "b16 b16 b16 b16", {{5, 5, 9, 0}, {5, 6, 9, 0}},
        [](const Inputs& x) { return x.a; });
  check("atom.global.cas.b16 %d, [%in], %b, %c; ld.global.b16 %d, [%in];", "b16 b16 b16 b16",
        {{5, 5, 9, 0}, {5, 6, 9, 0}}, [](const Inputs& x) { return x.a == x.b ? x.c : x.a; });
}

}  // namespace
}  // namespace simcuda::test::half_test
