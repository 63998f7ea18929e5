// f32 and f64 instructions against the host's arithmetic in the same rounding mode.
#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::float_test {
namespace {

constexpr uint64_t kNan = 0x7fffffff;
const char* const kModes[] = {"rn", "rz", "rm", "rp"};

uint64_t canonical(float r) {
  return std::isnan(r) ? kNan : bits(r);
}

// An f64 result: the first NaN operand, made quiet, or the default NaN.
uint64_t with_payload(double r, std::initializer_list<double> operands) {
  if (!std::isnan(r)) return bits(r);
  for (const double x : operands) {
    if (std::isnan(x)) return bits(x) | 0x0008000000000000;
  }
  return 0xfff8000000000000;
}

uint64_t saturated(float r) {
  if (std::isnan(r)) return 0;
  return r <= 0 ? 0 : r >= 1 ? bits(1.0f) : bits(r);
}

// The effect of the flags on inputs and on a result.
struct Flags {
  bool ftz, sat;
  std::string text() const { return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : ""); }
  float in(uint64_t raw) const { return ftz ? flush(f32(raw)) : f32(raw); }
  uint64_t out(float r) const {
    const uint64_t v = sat ? saturated(r) : canonical(r);
    return ftz && v != kNan ? bits(flush(f32(v))) : v;
  }
};
const Flags kFlags[] = {{false, false}, {true, false}, {false, true}, {true, true}};

// The host computes with values that the compiler cannot see through.
template <class T>
T opaque(T x) {
  volatile T v = x;
  return v;
}

template <class F>
void binary32(const std::string& name, const F& f, bool saturates = true) {
  const auto in = pairs(float_edges(), float_edges());
  for (const char* mode : kModes) {
    for (const Flags& flags : kFlags) {
      if (flags.sat && !saturates) continue;
      check(name + "." + mode + flags.text() + ".f32 %d, %a, %b;", "f32 f32 f32", in,
            [&](const Inputs& x) {
              float r = 0;
              {
                const HostRounding host(mode);
                r = opaque(f(opaque(flags.in(x.a)), opaque(flags.in(x.b))));
              }
              return flags.out(r);
            });
    }
  }
}

template <class F>
void binary64(const std::string& name, const F& f) {
  const auto in = pairs(double_edges(), double_edges());
  for (const char* mode : kModes) {
    check(name + "." + mode + ".f64 %d, %a, %b;", "f64 f64 f64", in, [&](const Inputs& x) {
      const HostRounding host(mode);
      const double r = opaque(f(opaque(f64(x.a)), opaque(f64(x.b))));
      return with_payload(r, {f64(x.a), f64(x.b)});
    });
  }
}

TEST(Float, SumsAndProducts) {
  const auto add = [](auto a, auto b) { return a + b; };
  const auto sub = [](auto a, auto b) { return a - b; };
  const auto mul = [](auto a, auto b) { return a * b; };
  const auto div = [](auto a, auto b) { return a / b; };
  binary32("add", add);
  binary32("sub", sub);
  binary32("mul", mul);
  binary32("div", div, false);
  binary64("add", add);
  binary64("sub", sub);
  binary64("mul", mul);
  binary64("div", div);
}

// A reciprocal that would be a denormal is 0 here, as on hardware: x / 2^127 is 0, infinity / 2^127
// is no number.
TEST(Float, ApproximateDivision) {
  auto values = float_edges();
  for (const float x : {0x1p126f, 0x1.000002p126f, 0x1p127f, -0x1p127f, 0x1p-126f}) {
    values.push_back(bits(x));
  }
  auto in = pairs(values, values);
  append_random(in, 32);
  for (const char* form : {"approx", "full"}) {
    for (const Flags& flags : {kFlags[0], kFlags[1]}) {
      check(std::string("div.") + form + flags.text() + ".f32 %d, %a, %b;", "f32 f32 f32", in,
            [&](const Inputs& x) {
              const float a = flags.in(x.a), b = flags.in(x.b);
              const bool large = std::isfinite(b) && std::fabs(b) > 0x1p126f;
              const bool vanishes = large && std::string(form) == "approx";
              if (!vanishes) return flags.out(opaque(opaque(a) / opaque(b)));
              if (!std::isfinite(a)) return kNan;
              return bits(std::signbit(a) != std::signbit(b) ? -0.0f : 0.0f);
            });
    }
  }
}

TEST(Float, FusedMultiplyAdd) {
  const auto in = triples(float_edges(), float_edges(), float_edges());
  for (const char* name : {"fma", "mad"}) {
    for (const char* mode : kModes) {
      for (const Flags& flags : kFlags) {
        check(std::string(name) + "." + mode + flags.text() + ".f32 %d, %a, %b, %c;",
              "f32 f32 f32 f32", in, [&](const Inputs& x) {
                float r = 0;
                {
                  const HostRounding host(mode);
                  r = std::fma(opaque(flags.in(x.a)), opaque(flags.in(x.b)), opaque(flags.in(x.c)));
                }
                return flags.out(r);
              });
      }
    }
  }
  const auto in64 = triples(double_edges(), double_edges(), double_edges());
  for (const char* mode : kModes) {
    check(std::string("fma.") + mode + ".f64 %d, %a, %b, %c;", "f64 f64 f64 f64", in64,
          [&](const Inputs& x) {
            const HostRounding host(mode);
            const double r = std::fma(opaque(f64(x.a)), opaque(f64(x.b)), opaque(f64(x.c)));
            return with_payload(r, {f64(x.a), f64(x.b), f64(x.c)});
          });
  }
}

// A product and a sum are two roundings.
TEST(Float, NothingIsContracted) {
  const auto in = triples(float_edges(), float_edges(), float_edges());
  check("{.reg .f32 %x; mul.f32 %x, %a, %b; add.f32 %d, %x, %c;}", "f32 f32 f32 f32", in,
        [](const Inputs& x) {
          const float p = opaque(opaque(f32(x.a)) * f32(x.b));
          return canonical(opaque(p + f32(x.c)));
        });
}

TEST(Float, RootsAndReciprocals) {
  for (const char* mode : kModes) {
    for (const bool ftz : {false, true}) {
      const Flags flags{ftz, false};
      const std::string end = std::string(".") + mode + flags.text() + ".f32 %d, %a;";
      const auto in = singles(float_edges());
      check("rcp" + end, "f32 f32", in, [&](const Inputs& x) {
        float r = 0;
        {
          const HostRounding host(mode);
          r = opaque(1.0f / opaque(flags.in(x.a)));
        }
        return flags.out(r);
      });
      check("sqrt" + end, "f32 f32", in, [&](const Inputs& x) {
        float r = 0;
        {
          const HostRounding host(mode);
          r = opaque(std::sqrt(opaque(flags.in(x.a))));
        }
        return flags.out(r);
      });
    }
    const std::string end = std::string(".") + mode + ".f64 %d, %a;";
    check("rcp" + end, "f64 f64", singles(double_edges()), [&](const Inputs& x) {
      const HostRounding host(mode);
      return with_payload(opaque(1.0 / opaque(f64(x.a))), {f64(x.a)});
    });
    check("sqrt" + end, "f64 f64", singles(double_edges()), [&](const Inputs& x) {
      const HostRounding host(mode);
      return with_payload(opaque(std::sqrt(opaque(f64(x.a)))), {f64(x.a)});
    });
  }
}

template <class T>
T pick(T a, T b, bool least) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

TEST(Float, MinimumAndMaximum) {
  for (const bool least : {true, false}) {
    const std::string name = least ? "min" : "max";
    for (const bool ftz : {false, true}) {
      const Flags flags{ftz, false};
      const auto in = pairs(float_edges(), float_edges());
      check(name + flags.text() + ".f32 %d, %a, %b;", "f32 f32 f32", in,
            [&](const Inputs& x) { return flags.out(pick(flags.in(x.a), flags.in(x.b), least)); });
      check(name + flags.text() + ".NaN.f32 %d, %a, %b;", "f32 f32 f32", in, [&](const Inputs& x) {
        const float a = flags.in(x.a), b = flags.in(x.b);
        return std::isnan(a) || std::isnan(b) ? kNan : flags.out(pick(a, b, least));
      });
    }
    check(name + ".f64 %d, %a, %b;", "f64 f64 f64", pairs(double_edges(), double_edges()),
          [&](const Inputs& x) {
            return with_payload(pick(f64(x.a), f64(x.b), least), {f64(x.a), f64(x.b)});
          });
  }
}

TEST(Float, Signs) {
  const auto in = pairs(float_edges(), float_edges());
  const auto in64 = pairs(double_edges(), double_edges());
  constexpr uint64_t kTop = 0x80000000, kTop64 = 0x8000000000000000;
  check("neg.f32 %d, %a;", "f32 f32", in, [](const Inputs& x) { return x.a ^ kTop; });
  check("abs.f32 %d, %a;", "f32 f32", in, [](const Inputs& x) { return x.a & ~kTop; });
  check("neg.f64 %d, %a;", "f64 f64", in64, [](const Inputs& x) { return x.a ^ kTop64; });
  check("abs.f64 %d, %a;", "f64 f64", in64, [](const Inputs& x) { return x.a & ~kTop64; });
  check("abs.ftz.f32 %d, %a;", "f32 f32", in,
        [](const Inputs& x) { return bits(flush(f32(x.a))) & ~kTop; });
  check("copysign.f32 %d, %a, %b;", "f32 f32 f32", in,
        [](const Inputs& x) { return (x.a & kTop) | (x.b & ~kTop); });
  check("copysign.f64 %d, %a, %b;", "f64 f64 f64", in64,
        [](const Inputs& x) { return (x.a & kTop64) | (x.b & ~kTop64); });
}

template <class T>
bool compares(const std::string& name, T a, T b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  if (name == "num") return !nan;
  if (name == "nan") return nan;
  const bool unordered = name.size() == 3;
  if (nan) return unordered;
  const std::string base = name.substr(0, 2);
  return base == "eq"   ? a == b
         : base == "ne" ? a != b
         : base == "lt" ? a < b
         : base == "le" ? a <= b
         : base == "gt" ? a > b
                        : a >= b;
}

TEST(Float, Comparisons) {
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu",
                           "geu", "num", "nan"}) {
    const auto in = pairs(float_edges(), float_edges());
    const std::string setp = std::string("setp.") + name;
    check(setp + ".f32 %d, %a, %b;", "pred f32 f32", in,
          [&](const Inputs& x) { return uint64_t{compares(name, f32(x.a), f32(x.b))}; });
    check(setp + ".ftz.f32 %d, %a, %b;", "pred f32 f32", in, [&](const Inputs& x) {
      return uint64_t{compares(name, flush(f32(x.a)), flush(f32(x.b)))};
    });
    check(setp + ".f64 %d, %a, %b;", "pred f64 f64", pairs(double_edges(), double_edges()),
          [&](const Inputs& x) { return uint64_t{compares(name, f64(x.a), f64(x.b))}; });
  }
  check("slct.f32.f32 %d, %a, %b, %c;", "f32 f32 f32 f32",
        triples(float_edges(), float_edges(), float_edges()),
        [](const Inputs& x) { return f32(x.c) >= 0 ? x.a : x.b; });
}

TEST(Float, Classes) {
  const char* names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  for (int k = 0; k < 6; ++k) {
    const auto holds = [&](auto v) {
      switch (k) {
        case 0:
          return static_cast<bool>(std::isfinite(v));
        case 1:
          return static_cast<bool>(std::isinf(v));
        case 2:
          return !std::isnan(v);
        case 3:
          return static_cast<bool>(std::isnan(v));
        case 4:
          return static_cast<bool>(std::isnormal(v));
        default:
          return std::fpclassify(v) == FP_SUBNORMAL;
      }
    };
    const std::string name = std::string("testp.") + names[k];
    check(name + ".f32 %d, %a;", "pred f32", singles(float_edges()),
          [&](const Inputs& x) { return uint64_t{holds(f32(x.a))}; });
    check(name + ".f64 %d, %a;", "pred f64", singles(double_edges()),
          [&](const Inputs& x) { return uint64_t{holds(f64(x.a))}; });
  }
}

// The approximate functions are held to an error, the special values to the bit.
struct Approximation {
  const char* name;
  double (*exact)(double);
  double relative, absolute;
};

TEST(Float, ApproximateFunctions) {
  const double tiny = std::ldexp(1.0, -149);
  const Approximation list[] = {
      {"ex2.approx", [](double x) { return std::exp2(x); }, 0x1p-23, tiny},
      {"lg2.approx", [](double x) { return std::log2(x); }, 0x1p-23, tiny},
      {"sin.approx", [](double x) { return std::sin(x); }, 0x1p-23, tiny},
      {"cos.approx", [](double x) { return std::cos(x); }, 0x1p-23, tiny},
      {"tanh.approx", [](double x) { return std::tanh(x); }, 0x1p-23, tiny},
      {"rsqrt.approx", [](double x) { return 1 / std::sqrt(x); }, 0x1p-23, tiny},
      {"rcp.approx", [](double x) { return 1 / x; }, 0x1p-23, tiny},
      {"sqrt.approx", [](double x) { return std::sqrt(x); }, 0x1p-23, tiny}};
  std::vector<uint64_t> values = float_edges();
  uint64_t state = 5;
  for (int i = 0; i < 3000; ++i) values.push_back(next_random(state) >> 32);
  for (int i = 0; i < 1000; ++i) values.push_back(bits(static_cast<float>(i) * 0.137f - 60));
  for (const Approximation& f : list) {
    for (const bool ftz : {false, true}) {
      if (ftz && std::string(f.name) == "tanh.approx") continue;
      const std::string code = std::string(f.name) + (ftz ? ".ftz" : "") + ".f32 %d, %a;";
      const auto got = evaluate(code, "f32 f32", singles(values));
      int bad = 0;
      for (size_t i = 0; i < values.size() && bad < 5; ++i) {
        const float a = ftz ? flush(f32(values[i])) : f32(values[i]);
        const double want = f.exact(static_cast<double>(a));
        const float r = f32(got[i]);
        bool ok = false;
        if (std::isnan(want)) {
          ok = got[i] == kNan;
        } else if (std::isinf(static_cast<float>(want)) || want == 0) {
          ok = r == static_cast<float>(want) && std::signbit(r) == std::signbit(want);
        } else if (ftz && std::fabs(want) < 0x1.000001p-126) {
          ok = r == 0 || std::fabs(static_cast<double>(r)) >= 0x1p-126;
        } else {
          ok =
              std::fabs(static_cast<double>(r) - want) <= f.relative * std::fabs(want) + f.absolute;
        }
        if (!ok) {
          ++bad;
          ADD_FAILURE() << code << " of " << a << ": got " << r << ", want " << want;
        }
      }
    }
  }
}

TEST(Float, GrossApproximations) {
  const auto upper = [](double a) {
    const double t = f64(bits(a) & 0xffffffff00000000);
    return std::fpclassify(t) == FP_SUBNORMAL ? std::copysign(0.0, t) : t;
  };
  const auto close = [](double got, double want) {
    return std::fabs(got - want) <= std::fabs(want) * 0x1p-20;
  };
  const auto values = double_edges();
  const auto rcp = evaluate("rcp.approx.ftz.f64 %d, %a;", "f64 f64", singles(values));
  const auto rsqrt = evaluate("rsqrt.approx.ftz.f64 %d, %a;", "f64 f64", singles(values));
  for (size_t i = 0; i < values.size(); ++i) {
    const double a = upper(f64(values[i]));
    for (const bool root : {false, true}) {
      const uint64_t got = root ? rsqrt[i] : rcp[i];
      const double want = root ? 1 / std::sqrt(a) : 1 / a;
      EXPECT_EQ(got & 0xffffffff, 0u);
      if (std::isnan(want) || std::isnan(f64(values[i]))) {
        EXPECT_EQ(got, 0x7fffffff00000000u) << std::hex << values[i];
      } else if (std::isinf(want) || std::fabs(want) < 0x1p-1022) {
        EXPECT_EQ(f64(got), std::isinf(want) ? want : 0.0) << std::hex << values[i];
      } else {
        EXPECT_TRUE(close(f64(got), want)) << std::hex << values[i] << " " << got;
      }
    }
  }
}

}  // namespace
}  // namespace simcuda::test::float_test
