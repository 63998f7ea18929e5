// Integer instructions against 128-bit arithmetic on the host.
#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::integer_test {
namespace {

__extension__ typedef __int128 Big;

struct IntegerType {
  const char* name;
  uint32_t bits;
  bool sign;
};
constexpr IntegerType kTypes[] = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                                  {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

uint64_t wrap(Big value, uint32_t width) {
  const auto low = static_cast<uint64_t>(value);
  return width == 64 ? low : low & ((uint64_t{1} << width) - 1);
}
// The number that the bits stand for.
Big number(uint64_t raw, const IntegerType& t) {
  raw = wrap(static_cast<Big>(raw), t.bits);
  if (t.sign && (raw >> (t.bits - 1)) & 1) return static_cast<Big>(raw) - (Big{1} << t.bits);
  return static_cast<Big>(raw);
}

std::string of(const char* text, const IntegerType& t) {
  std::string s = text;
  for (size_t at; (at = s.find('@')) != std::string::npos;) s.replace(at, 1, t.name);
  return s;
}
std::string regs(uint32_t d, std::initializer_list<uint32_t> sources) {
  std::string s = "b" + std::to_string(d);
  for (const uint32_t w : sources) s += " b" + std::to_string(w);
  return s;
}

TEST(Integer, Binary) {
  for (const IntegerType& t : kTypes) {
    const auto in = pairs(integer_edges(t.bits), integer_edges(t.bits));
    const std::string r = regs(t.bits, {t.bits, t.bits});
    const auto run = [&](const char* code, auto f) {
      check(of(code, t), r, in,
            [&](const Inputs& x) { return wrap(f(number(x.a, t), number(x.b, t)), t.bits); });
    };
    run("add.@ %d, %a, %b;", [](Big a, Big b) { return a + b; });
    run("sub.@ %d, %a, %b;", [](Big a, Big b) { return a - b; });
    run("mul.lo.@ %d, %a, %b;", [](Big a, Big b) {
      return static_cast<Big>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    });
    run("min.@ %d, %a, %b;", [](Big a, Big b) { return a < b ? a : b; });
    run("max.@ %d, %a, %b;", [](Big a, Big b) { return a > b ? a : b; });
    // Division by zero is not specified; the machine gives all ones and the dividend.
    run("div.@ %d, %a, %b;", [](Big a, Big b) { return b == 0 ? Big{-1} : a / b; });
    run("rem.@ %d, %a, %b;", [](Big a, Big b) { return b == 0 ? a : a % b; });
    if (t.sign) {
      run("neg.@ %d, %a;", [](Big a, Big) { return -a; });
      run("abs.@ %d, %a;", [](Big a, Big) { return a < 0 ? -a : a; });
    }
  }
}

__extension__ typedef unsigned __int128 UnsignedBig;

Big high_product(Big a, Big b, const IntegerType& t) {
  if (t.bits == 64 && !t.sign) {
    return static_cast<Big>((static_cast<UnsignedBig>(a) * static_cast<UnsignedBig>(b)) >> 64);
  }
  return (a * b) >> t.bits;
}

TEST(Integer, ProductsHighAndWide) {
  for (const IntegerType& t : kTypes) {
    const auto in = pairs(integer_edges(t.bits), integer_edges(t.bits));
    check(of("mul.hi.@ %d, %a, %b;", t), regs(t.bits, {t.bits, t.bits}), in, [&](const Inputs& x) {
      return wrap(high_product(number(x.a, t), number(x.b, t), t), t.bits);
    });
    const auto in3 = triples(integer_edges(t.bits), integer_edges(t.bits), integer_edges(t.bits));
    const std::string r3 = regs(t.bits, {t.bits, t.bits, t.bits});
    check(of("mad.lo.@ %d, %a, %b, %c;", t), r3, in3,
          [&](const Inputs& x) { return wrap(static_cast<Big>(x.a * x.b + x.c), t.bits); });
    check(of("mad.hi.@ %d, %a, %b, %c;", t), r3, in3, [&](const Inputs& x) {
      return wrap(high_product(number(x.a, t), number(x.b, t), t) + number(x.c, t), t.bits);
    });
    check(of("sad.@ %d, %a, %b, %c;", t), r3, in3, [&](const Inputs& x) {
      const Big a = number(x.a, t), b = number(x.b, t);
      return wrap(number(x.c, t) + (a < b ? b - a : a - b), t.bits);
    });
    if (t.bits == 64) continue;
    check(of("mul.wide.@ %d, %a, %b;", t), regs(t.bits * 2, {t.bits, t.bits}), in,
          [&](const Inputs& x) { return wrap(number(x.a, t) * number(x.b, t), t.bits * 2); });
    const auto wide =
        triples(integer_edges(t.bits), integer_edges(t.bits), integer_edges(t.bits * 2));
    check(of("mad.wide.@ %d, %a, %b, %c;", t), regs(t.bits * 2, {t.bits, t.bits, t.bits * 2}), wide,
          [&](const Inputs& x) {
            return wrap(number(x.a, t) * number(x.b, t) + static_cast<Big>(x.c), t.bits * 2);
          });
  }
}

TEST(Integer, TwentyFourBits) {
  for (const IntegerType& t : {kTypes[2], kTypes[3]}) {
    const IntegerType low{t.name, 24, t.sign};
    const auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
    for (const bool high : {false, true}) {
      const auto product = [&](const Inputs& x) {
        const Big p = number(x.a, low) * number(x.b, low);
        return high ? p >> 16 : p;
      };
      const char* mul = high ? "mul24.hi.@ %d, %a, %b;" : "mul24.lo.@ %d, %a, %b;";
      const char* mad = high ? "mad24.hi.@ %d, %a, %b, %c;" : "mad24.lo.@ %d, %a, %b, %c;";
      check(of(mul, t), "b32 b32 b32", in, [&](const Inputs& x) { return wrap(product(x), 32); });
      check(of(mad, t), "b32 b32 b32 b32", in,
            [&](const Inputs& x) { return wrap(product(x) + number(x.c, t), 32); });
    }
  }
}

uint64_t saturated(Big v) {
  const Big most = INT32_MAX, least = INT32_MIN;
  return wrap(v > most ? most : v < least ? least : v, 32);
}

TEST(Integer, Saturation) {
  const IntegerType t = kTypes[3];
  const auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
  check("add.sat.s32 %d, %a, %b;", "b32 b32 b32", in,
        [&](const Inputs& x) { return saturated(number(x.a, t) + number(x.b, t)); });
  check("sub.sat.s32 %d, %a, %b;", "b32 b32 b32", in,
        [&](const Inputs& x) { return saturated(number(x.a, t) - number(x.b, t)); });
  check("mad.hi.sat.s32 %d, %a, %b, %c;", "b32 b32 b32 b32", in, [&](const Inputs& x) {
    return saturated((number(x.a, t) * number(x.b, t) >> 32) + number(x.c, t));
  });
  const IntegerType low{t.name, 24, true};
  check("mad24.hi.sat.s32 %d, %a, %b, %c;", "b32 b32 b32 b32", in, [&](const Inputs& x) {
    return saturated((number(x.a, low) * number(x.b, low) >> 16) + number(x.c, t));
  });
}

TEST(Integer, TwoHalvesOfAWord) {
  std::vector<uint64_t> twos;
  const auto edges = integer_edges(16);
  for (const uint64_t x : edges) {
    for (const uint64_t y : edges) twos.push_back(x << 16 | y);
  }
  const auto in = triples(twos, twos, twos);
  for (const IntegerType& t : {kTypes[0], kTypes[1]}) {
    const auto halves = [&](const Inputs& x, auto apply) {
      const auto one = [&](uint32_t s) {
        return wrap(apply(number(x.a >> s & 0xffff, t), number(x.b >> s & 0xffff, t)), 16);
      };
      return one(16) << 16 | one(0);
    };
    const char* types = "b32 b32 b32";
    check(of("add.@x2 %d, %a, %b;", t), types, in,
          [&](const Inputs& x) { return halves(x, [](Big a, Big b) { return a + b; }); });
    check(of("min.@x2 %d, %a, %b;", t), types, in,
          [&](const Inputs& x) { return halves(x, [](Big a, Big b) { return a < b ? a : b; }); });
    check(of("max.@x2 %d, %a, %b;", t), types, in,
          [&](const Inputs& x) { return halves(x, [](Big a, Big b) { return a > b ? a : b; }); });
  }
}

// On hardware the flag of a subtraction says that nothing was borrowed, and a sum adds it as it is.
void check_mixed_carries(uint32_t w) {
  const std::string b = ".b" + std::to_string(w), u = ".u" + std::to_string(w);
  const std::string types = regs(w, {w, w, w});
  const std::string begin = "{.reg " + b + " %y; ";
  auto in = triples(integer_edges(w), integer_edges(w), integer_edges(w));
  append_random(in, w);
  const auto carry = [w](const Inputs& x) {
    return static_cast<uint64_t>((static_cast<UnsignedBig>(x.a) + x.b) >> w);
  };
  const auto cut = [w](uint64_t x) { return w == 64 ? x : x & 0xffffffff; };
  check(begin + "sub.cc" + u + " %y, %a, %b; addc" + u + " %d, %c, 0;}", types, in,
        [&](const Inputs& x) { return cut(x.c + (x.a >= x.b)); });
  check(begin + "add.cc" + u + " %y, %a, %b; subc" + u + " %d, %c, 0;}", types, in,
        [&](const Inputs& x) { return cut(x.c - (1 - carry(x))); });
  check(begin + "add.cc" + u + " %y, %a, %b; subc.cc" + u + " %y, %c, %a; addc" + u + " %d, 0, 0;}",
        types, in, [&](const Inputs& x) { return uint64_t{carry(x) ? x.c >= x.a : x.c > x.a}; });
}

// Four limbs with carries: the 128-bit sum and product.
TEST(Integer, Carries) {
  const auto in = triples(integer_edges(64), integer_edges(64), integer_edges(64));
  const std::string split = ".reg .b32 %x<16>; mov.b64 {%x0,%x1}, %a; mov.b64 {%x2,%x3}, %b;";
  check(split + "add.cc.u32 %x4, %x0, %x2; addc.u32 %x5, %x1, %x3; mov.b64 %d, {%x4,%x5};",
        "b64 b64 b64", in, [](const Inputs& x) { return x.a + x.b; });
  check(split + "sub.cc.u32 %x4, %x0, %x2; subc.u32 %x5, %x1, %x3; mov.b64 %d, {%x4,%x5};",
        "b64 b64 b64", in, [](const Inputs& x) { return x.a - x.b; });
  check("{.reg .b64 %y; add.cc.u64 %y, %a, %b; addc.u64 %d, 0, 0;}", "b64 b64 b64", in,
        [](const Inputs& x) {
          return static_cast<uint64_t>((static_cast<UnsignedBig>(x.a) + x.b) >> 64);
        });
  check("{.reg .b64 %y; sub.cc.u64 %y, %a, %b; subc.cc.u64 %y, %c, 0; subc.u64 %d, 0, 0;}",
        "b64 b64 b64 b64", in, [](const Inputs& x) {
          const bool borrow = x.a < x.b;
          return borrow && x.c == 0 ? ~uint64_t{0} : 0;
        });
  for (const uint32_t w : {32u, 64u}) check_mixed_carries(w);
  check(
      split +
          "mul.lo.u32 %x4, %x0, %x2; mul.hi.u32 %x5, %x0, %x2;"
          "mad.lo.cc.u32 %x5, %x0, %x3, %x5; madc.hi.u32 %x6, %x0, %x3, 0;"
          "mad.lo.cc.u32 %x5, %x1, %x2, %x5; madc.hi.cc.u32 %x6, %x1, %x2, %x6; addc.u32 %x7, 0, 0;"
          "mad.lo.cc.u32 %x6, %x1, %x3, %x6; madc.hi.u32 %x7, %x1, %x3, %x7;"
          "mov.b64 %d, {%x6,%x7};",
      "b64 b64 b64", in, [](const Inputs& x) {
        return static_cast<uint64_t>((static_cast<UnsignedBig>(x.a) * x.b) >> 64);
      });
}

TEST(Integer, Logic) {
  for (const uint32_t w : {16u, 32u, 64u}) {
    const std::string b = ".b" + std::to_string(w);
    const auto in = pairs(integer_edges(w), integer_edges(w));
    const std::string r = regs(w, {w, w});
    check("and" + b + " %d, %a, %b;", r, in, [](const Inputs& x) { return x.a & x.b; });
    check("or" + b + " %d, %a, %b;", r, in, [](const Inputs& x) { return x.a | x.b; });
    check("xor" + b + " %d, %a, %b;", r, in, [](const Inputs& x) { return x.a ^ x.b; });
    check("not" + b + " %d, %a;", r, in,
          [&](const Inputs& x) { return wrap(static_cast<Big>(~x.a), w); });
    check("cnot" + b + " %d, %a;", r, in, [](const Inputs& x) { return uint64_t{x.a == 0}; });
    check("mov" + b + " %d, %a;", r, in, [](const Inputs& x) { return x.a; });
  }
  const auto p = pairs({0, 1}, {0, 1});
  check("and.pred %d, %a, %b;", "pred pred pred", p, [](const Inputs& x) { return x.a & x.b; });
  check("or.pred %d, !%a, %b;", "pred pred pred", p,
        [](const Inputs& x) { return (x.a ^ 1) | x.b; });
  check("xor.pred %d, %a, !%b;", "pred pred pred", p,
        [](const Inputs& x) { return x.a ^ x.b ^ 1; });
  check("not.pred %d, %a;", "pred pred pred", p, [](const Inputs& x) { return x.a ^ 1; });
  check("mov.pred %d, %a;", "pred pred pred", p, [](const Inputs& x) { return x.a; });
}

TEST(Integer, Shifts) {
  for (const IntegerType& t : kTypes) {
    const auto in = pairs(integer_edges(t.bits), integer_edges(32));
    const std::string r = regs(t.bits, {t.bits, 32});
    check(of("shr.@ %d, %a, %b;", t), r, in,
          [&](const Inputs& x) { return wrap(number(x.a, t) >> (x.b < 100 ? x.b : 100), t.bits); });
    if (t.sign) continue;
    check("shl.b" + std::to_string(t.bits) + " %d, %a, %b;", r, in, [&](const Inputs& x) {
      return x.b >= t.bits ? 0 : wrap(static_cast<Big>(x.a << x.b), t.bits);
    });
  }
  const auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
  for (const bool clamp : {false, true}) {
    const std::string mode = clamp ? ".clamp" : ".wrap";
    const auto amount = [&](const Inputs& x) { return clamp ? (x.c < 32 ? x.c : 32) : x.c % 32; };
    check("shf.l" + mode + ".b32 %d, %a, %b, %c;", "b32 b32 b32 b32", in, [&](const Inputs& x) {
      return wrap(static_cast<Big>((((x.b << 32) | x.a) << amount(x)) >> 32), 32);
    });
    check("shf.r" + mode + ".b32 %d, %a, %b, %c;", "b32 b32 b32 b32", in, [&](const Inputs& x) {
      return wrap(static_cast<Big>(((x.b << 32) | x.a) >> amount(x)), 32);
    });
  }
}

// The instruction set's own pseudo code, but for position and length of 64-bit forms, of which
// hardware uses all bits.
uint64_t extract(uint64_t a, uint64_t position, uint64_t length, const IntegerType& t) {
  if (t.bits == 32) position &= 255, length &= 255;
  const uint64_t msb = t.bits - 1;
  const uint64_t sign_at = position + length - 1 < msb ? position + length - 1 : msb;
  const uint64_t sign = !t.sign || length == 0 ? 0 : (a >> sign_at) & 1;
  uint64_t d = 0;
  for (uint64_t i = 0; i <= msb; ++i) {
    const uint64_t bit = i < length && position + i <= msb ? (a >> (position + i)) & 1 : sign;
    d |= bit << i;
  }
  return d;
}

uint64_t insert(uint64_t a, uint64_t b, uint64_t position, uint64_t length, uint32_t width) {
  if (width == 32) position &= 255, length &= 255;
  for (uint64_t i = 0; i < length && position + i < width; ++i) {
    const uint64_t bit = uint64_t{1} << (position + i);
    b = (a >> i) & 1 ? b | bit : b & ~bit;
  }
  return b;
}

TEST(Integer, BitFields) {
  const std::vector<uint64_t> small = {
      0,  1,  2,  5,   8,   15,  16,  31,         32,         33,         48,
      63, 64, 65, 200, 255, 256, 261, 0x7fffffff, 0x80000000, 0xffffffe0, 0xffffffff};
  for (size_t k = 2; k < 6; ++k) {
    const IntegerType& t = kTypes[k];
    auto in = triples(integer_edges(t.bits), small, small);
    append_random(in, t.bits);
    check(of("bfe.@ %d, %a, %b, %c;", t), regs(t.bits, {t.bits, 32, 32}), in, [&](const Inputs& x) {
      return extract(x.a, static_cast<uint32_t>(x.b), static_cast<uint32_t>(x.c), t);
    });
  }
  for (const uint32_t w : {32u, 64u}) {
    auto in = triples(integer_edges(w), integer_edges(w), small);
    for (size_t i = 0; i < in.size(); ++i) in[i].d = small[(in[i].d >> 8) % small.size()];
    append_random(in, w);
    check("bfi.b" + std::to_string(w) + " %d, %a, %b, %c, %f;", regs(w, {w, w, 32, 32}), in,
          [&](const Inputs& x) {
            return insert(x.a, x.b, static_cast<uint32_t>(x.c), static_cast<uint32_t>(x.d), w);
          });
  }
}

TEST(Integer, CountingBits) {
  for (const uint32_t w : {32u, 64u}) {
    const std::string b = ".b" + std::to_string(w);
    const auto in = singles(integer_edges(w));
    const auto count = [](uint64_t x) {
      uint64_t n = 0;
      for (; x; x >>= 1) n += x & 1;
      return n;
    };
    const auto leading = [&](uint64_t x) {
      uint64_t n = 0;
      while (n < w && !((x >> (w - 1 - n)) & 1)) ++n;
      return n;
    };
    check("popc" + b + " %d, %a;", regs(32, {w}), in, [&](const Inputs& x) { return count(x.a); });
    check("clz" + b + " %d, %a;", regs(32, {w}), in, [&](const Inputs& x) { return leading(x.a); });
    check("brev" + b + " %d, %a;", regs(w, {w}), in, [&](const Inputs& x) {
      uint64_t r = 0;
      for (uint32_t i = 0; i < w; ++i) r |= ((x.a >> i) & 1) << (w - 1 - i);
      return r;
    });
    for (const bool sign : {false, true}) {
      const std::string type = (sign ? ".s" : ".u") + std::to_string(w);
      const auto find = [&](uint64_t a) -> uint64_t {
        if (sign && (a >> (w - 1)) & 1) a = wrap(static_cast<Big>(~a), w);
        return a == 0 ? 0xffffffff : w - 1 - leading(a);
      };
      check("bfind" + type + " %d, %a;", regs(32, {w}), in,
            [&](const Inputs& x) { return find(x.a); });
      check("bfind.shiftamt" + type + " %d, %a;", regs(32, {w}), in, [&](const Inputs& x) {
        const uint64_t at = find(x.a);
        return at == 0xffffffff ? at : w - 1 - at;
      });
    }
  }
  const auto in = triples(
      integer_edges(32), {0, 1, 5, 16, 30, 31},
      {0, 1, 2, 3, 31, uint64_t(uint32_t(-1)), uint64_t(uint32_t(-2)), uint64_t(uint32_t(-9))});
  check("fns.b32 %d, %a, %b, %c;", "b32 b32 b32 b32", in, [](const Inputs& x) -> uint64_t {
    const auto offset = static_cast<int32_t>(x.c);
    int pos = static_cast<int>(x.b);
    if (offset == 0) return (x.a >> pos) & 1 ? x.b : 0xffffffff;
    int64_t count = std::llabs(int64_t{offset}) - 1;
    for (; pos >= 0 && pos<32; pos += offset> 0 ? 1 : -1) {
      if (!((x.a >> pos) & 1)) continue;
      if (count == 0) return static_cast<uint64_t>(pos);
      --count;
    }
    return 0xffffffff;
  });
}

TEST(Integer, PermuteAndTruthTables) {
  const auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
  const auto permute = [](uint64_t a, uint64_t b, uint64_t selectors) {
    uint8_t bytes[8];
    for (int i = 0; i < 4; ++i) {
      bytes[i] = static_cast<uint8_t>(a >> (8 * i));
      bytes[4 + i] = static_cast<uint8_t>(b >> (8 * i));
    }
    uint64_t r = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t s = (selectors >> (4 * i)) & 15;
      uint64_t byte = bytes[s & 7];
      if (s & 8) byte = byte & 0x80 ? 0xff : 0;
      r |= byte << (8 * i);
    }
    return r;
  };
  check("prmt.b32 %d, %a, %b, %c;", "b32 b32 b32 b32", in,
        [&](const Inputs& x) { return permute(x.a, x.b, x.c); });
  const struct {
    const char* mode;
    uint32_t selectors[4];
  } modes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  for (const auto& m : modes) {
    check(std::string("prmt.b32.") + m.mode + " %d, %a, %b, %c;", "b32 b32 b32 b32", in,
          [&](const Inputs& x) { return permute(x.a, x.b, m.selectors[x.c & 3]); });
  }
  for (const uint32_t table : {0x00u, 0xffu, 0x80u, 0x96u, 0xe8u, 0xcau, 0x1eu}) {
    check("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";", "b32 b32 b32 b32", in,
          [&](const Inputs& x) {
            uint64_t r = 0;
            for (int i = 0; i < 32; ++i) {
              const uint64_t k = ((x.a >> i) & 1) << 2 | ((x.b >> i) & 1) << 1 | ((x.c >> i) & 1);
              r |= uint64_t{(table >> k) & 1} << i;
            }
            return r;
          });
  }
}

TEST(Integer, DotProducts) {
  const auto in = triples(integer_edges(32), integer_edges(32), integer_edges(32));
  for (const bool sa : {false, true}) {
    for (const bool sb : {false, true}) {
      const std::string types = std::string(sa ? ".s32" : ".u32") + (sb ? ".s32" : ".u32");
      const auto part = [](uint64_t v, int at, uint32_t width, bool sign) {
        return number(v >> at, {"", width, sign});
      };
      check("dp4a" + types + " %d, %a, %b, %c;", "b32 b32 b32 b32", in, [&](const Inputs& x) {
        Big s = static_cast<Big>(x.c);
        for (int k = 0; k < 32; k += 8) s += part(x.a, k, 8, sa) * part(x.b, k, 8, sb);
        return wrap(s, 32);
      });
      for (const bool high : {false, true}) {
        check(std::string("dp2a") + (high ? ".hi" : ".lo") + types + " %d, %a, %b, %c;",
              "b32 b32 b32 b32", in, [&](const Inputs& x) {
                Big s = static_cast<Big>(x.c);
                for (int k = 0; k < 2; ++k) {
                  s += part(x.a, 16 * k, 16, sa) * part(x.b, 8 * k + (high ? 16 : 0), 8, sb);
                }
                return wrap(s, 32);
              });
      }
    }
  }
}

TEST(Integer, Comparisons) {
  const char* names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (const IntegerType& t : kTypes) {
    const auto in = pairs(integer_edges(t.bits), integer_edges(t.bits));
    for (int k = 0; k < 6; ++k) {
      const auto holds = [&](const Inputs& x) {
        const Big a = number(x.a, t), b = number(x.b, t);
        return k == 0   ? a == b
               : k == 1 ? a != b
               : k == 2 ? a < b
               : k == 3 ? a <= b
               : k == 4 ? a > b
                        : a >= b;
      };
      const std::string name = std::string(names[k]) + "." + t.name;
      check("setp." + name + " %d, %a, %b;",
            "pred b" + std::to_string(t.bits) + " b" + std::to_string(t.bits), in,
            [&](const Inputs& x) { return uint64_t{holds(x)}; });
      check(std::string("set.") + names[k] + ".u32." + t.name + " %d, %a, %b;",
            regs(32, {t.bits, t.bits}), in,
            [&](const Inputs& x) { return holds(x) ? 0xffffffffu : 0u; });
      check(std::string("set.") + names[k] + ".f32." + t.name + " %d, %a, %b;",
            regs(32, {t.bits, t.bits}), in,
            [&](const Inputs& x) { return holds(x) ? 0x3f800000u : 0u; });
    }
  }
  // Both destinations, combined with a predicate.
  std::vector<Inputs> in = triples({1, 2}, {1, 2}, {0, 1});
  for (const bool negated : {false, true}) {
    const std::string c = negated ? "!%c" : "%c";
    const struct {
      const char* name;
      bool (*f)(bool, bool);
    } combine[] = {{"and", [](bool a, bool b) { return a && b; }},
                   {"or", [](bool a, bool b) { return a || b; }},
                   {"xor", [](bool a, bool b) { return a != b; }}};
    for (const auto& f : combine) {
      const std::string setp = std::string("setp.eq.") + f.name + ".u32 ";
      check(setp + "%d|_, %a, %b, " + c + ";", "pred b32 b32 pred", in,
            [&](const Inputs& x) { return uint64_t{f.f(x.a == x.b, (x.c != 0) != negated)}; });
      check(setp + "_|%d, %a, %b, " + c + ";", "pred b32 b32 pred", in,
            [&](const Inputs& x) { return uint64_t{f.f(x.a != x.b, (x.c != 0) != negated)}; });
    }
  }
}

TEST(Integer, SelectionAndVectors) {
  for (const uint32_t w : {16u, 32u, 64u}) {
    const auto in = triples(integer_edges(w), integer_edges(w), {0, 1});
    const std::string b = std::to_string(w);
    check("selp.b" + b + " %d, %a, %b, %c;", "b" + b + " b" + b + " b" + b + " pred", in,
          [](const Inputs& x) { return x.c ? x.a : x.b; });
    const auto by = triples(integer_edges(w), integer_edges(w), integer_edges(32));
    check("slct.b" + b + ".s32 %d, %a, %b, %c;", regs(w, {w, w, 32}), by,
          [](const Inputs& x) { return static_cast<int32_t>(x.c) >= 0 ? x.a : x.b; });
  }
  const auto in = pairs(integer_edges(32), integer_edges(32));
  check("mov.b64 %d, {%a, %b};", "b64 b32 b32", in,
        [](const Inputs& x) { return x.b << 32 | x.a; });
  check("{.reg .b32 %x; mov.b64 {%x, %d}, %a;}", "b32 b64", singles(integer_edges(64)),
        [](const Inputs& x) { return x.a >> 32; });
  check("{.reg .b16 %x<4>; mov.b64 {%x0,%x1,%x2,%x3}, %a; mov.b64 %d, {%x3,%x2,%x1,%x0};}",
        "b64 b64", singles(integer_edges(64)), [](const Inputs& x) {
          return (x.a >> 48) | (x.a >> 16 & 0xffff0000) | (x.a << 16 & 0xffff00000000) | x.a << 48;
        });
  check("{.reg .b16 %x<2>; mov.b32 {%x0,%x1}, %a; mov.b32 %d, {%x1,%x0};}", "b32 b32",
        singles(integer_edges(32)),
        [](const Inputs& x) { return (x.a >> 16) | (x.a << 16 & 0xffffffff); });
}

TEST(Integer, GuardsProtectTheirDestination) {
  std::vector<Inputs> in = triples(integer_edges(32), integer_edges(32), {0, 1});
  check("mov.b32 %d, 77; @%c add.s32 %d, %a, %b;", "b32 b32 b32 pred", in,
        [](const Inputs& x) { return x.c ? (x.a + x.b) & 0xffffffff : 77; });
  check("mov.b32 %d, 77; @!%c mul.lo.s32 %d, %a, %b;", "b32 b32 b32 pred", in,
        [](const Inputs& x) { return x.c ? 77 : (x.a * x.b) & 0xffffffff; });
}

TEST(Integer, ConversionsBetweenIntegers) {
  const IntegerType all[] = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                             {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                             {"u64", 64, false}, {"s64", 64, true}};
  const auto slot = [](uint32_t w) { return w == 8 ? 16 : w; };
  for (const IntegerType& from : all) {
    for (const IntegerType& to : all) {
      // Exactly wide registers, and wider ones on both sides.
      for (const uint32_t fw : {16u, 32u, 64u}) {
        for (const uint32_t tw : {16u, 32u, 64u}) {
          if (fw < slot(from.bits) || tw < slot(to.bits)) continue;
          const std::string code = std::string(to.name) + "." + from.name + " %d, %a;";
          const auto in = singles(integer_edges(fw));
          check("cvt." + code, regs(tw, {fw}), in, [&](const Inputs& x) {
            return wrap(number(wrap(number(x.a, from), to.bits), to), tw);
          });
          const Big least = to.sign ? -(Big{1} << (to.bits - 1)) : Big{0};
          const Big most = (Big{1} << (to.sign ? to.bits - 1 : to.bits)) - 1;
          const bool holds_all = from.sign ? to.sign && to.bits >= from.bits
                                           : to.bits >= from.bits + (to.sign ? 1 : 0);
          if (holds_all) continue;
          check("cvt.sat." + code, regs(tw, {fw}), in, [&](const Inputs& x) {
            Big v = number(x.a, from);
            v = v < least ? least : v > most ? most : v;
            return wrap(v, tw);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace simcuda::test::integer_test
