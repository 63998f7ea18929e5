// Video instructions against what the PTX ISA says of them, done input by input with 128-bit
// numbers. GPUSNAP_SOAK=1 tries 2^20 random inputs and more of each instruction and its types.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::video_test {
namespace {

__extension__ typedef __int128 Big;

constexpr const char* kTypes[] = {"u32", "s32"};
constexpr const char* kParts[] = {"", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};
constexpr const char* kWords = "b32 b32 b32 b32";

bool is_signed(const std::string& type) {
  return type[0] == 's';
}
Big power(uint32_t exponent) {
  return Big{1} << exponent;
}
// The low bits, as a number.
Big as_number(Big value, uint32_t width, bool sign) {
  Big low = value % power(width);
  if (low < 0) low += power(width);
  return sign && low >= power(width - 1) ? low - power(width) : low;
}
uint64_t low_word(Big value) {
  return static_cast<uint64_t>(as_number(value, 32, false));
}
Big clamped(Big value, uint32_t width, bool sign) {
  const Big least = sign ? -power(width - 1) : 0;
  const Big most = sign ? power(width - 1) - 1 : power(width) - 1;
  return value < least ? least : value > most ? most : value;
}
uint32_t width_of_part(const std::string& part) {
  return part.empty() ? 32 : part[1] == 'b' ? 8 : 16;
}
uint32_t begin_of_part(const std::string& part) {
  return part.empty() ? 0 : static_cast<uint32_t>(part[2] - '0') * width_of_part(part);
}
Big part_of(uint64_t word, const std::string& part, const std::string& type) {
  return as_number(static_cast<Big>(word >> begin_of_part(part)), width_of_part(part),
                   is_signed(type));
}
uint64_t put_part(uint64_t word, const std::string& part, Big value) {
  const uint64_t mask = (uint64_t{1} << width_of_part(part)) - 1;
  const uint32_t at = begin_of_part(part);
  return (word & ~(mask << at)) | (static_cast<uint64_t>(value) & mask) << at;
}

// Edges of words and of their parts.
std::vector<uint64_t> word_edges() {
  std::vector<uint64_t> edges = integer_edges(32);
  constexpr uint64_t kMore[] = {0x7f80ff01, 0x80808080, 0x7f7f7f7f, 0x80007fff, 0xffff0000,
                                0x00ff8000, 0x7fff8000, 0x01000001, 0x00200020, 0x20212240};
  edges.insert(edges.end(), std::begin(kMore), std::end(kMore));
  return edges;
}

std::vector<Inputs> words_to_try() {
  std::vector<Inputs> in = triples(word_edges(), word_edges(), word_edges());
  // Hundreds of forms have these inputs. A combination of types comes with four selectors of parts
  // or more: together that is 2^20 random inputs and more in a soak.
  const bool soak = std::getenv("GPUSNAP_SOAK") != nullptr;
  if (!soak) in.resize(400);
  uint64_t state = 4711;
  for (size_t i = 0; i < (soak ? size_t{1} << 18 : 300); ++i) {
    const auto draw = [&] { return next_random(state) & 0xffffffff; };
    in.push_back({draw(), draw(), draw(), 0});
  }
  return in;
}

struct Operation {
  const char* name;
  Big (*apply)(Big a, Big b);
};
constexpr Operation kOperations[] = {
    {"vadd", [](Big a, Big b) { return a + b; }},
    {"vsub", [](Big a, Big b) { return a - b; }},
    {"vabsdiff", [](Big a, Big b) { return a > b ? a - b : b - a; }},
    {"vmin", [](Big a, Big b) { return a < b ? a : b; }},
    {"vmax", [](Big a, Big b) { return a > b ? a : b; }},
};
constexpr Operation kComparisons[] = {
    {"eq", [](Big a, Big b) { return Big{a == b}; }},
    {"ne", [](Big a, Big b) { return Big{a != b}; }},
    {"lt", [](Big a, Big b) { return Big{a < b}; }},
    {"le", [](Big a, Big b) { return Big{a <= b}; }},
    {"gt", [](Big a, Big b) { return Big{a > b}; }},
    {"ge", [](Big a, Big b) { return Big{a >= b}; }},
};

uint64_t second(const std::string& how, Big t, uint64_t c, bool sign) {
  const Big number = as_number(static_cast<Big>(c), 32, sign);
  if (how == ".min") return low_word(t < number ? t : number);
  if (how == ".max") return low_word(t > number ? t : number);
  return low_word(how == ".add" ? t + number : t);
}

// A scalar instruction: the name with all but the second operation, and what it computes of the
// parts, before that is clamped.
struct Scalar {
  std::string head, dtype, atype, btype, apart, bpart;
  bool saturates;
  std::function<Big(Big, Big)> apply;
};

void try_scalar(const Scalar& s, const std::vector<Inputs>& in, bool may_overflow) {
  const bool sign = is_signed(s.dtype);
  const auto result = [&](const Inputs& x, uint32_t width) {
    const Big t = s.apply(part_of(x.a, s.apart, s.atype), part_of(x.b, s.bpart, s.btype));
    return s.saturates ? clamped(t, width, sign) : t;
  };
  const std::string sources = ", %a" + s.apart + ", %b" + s.bpart;
  check(s.head + " %d" + sources + ";", kWords, in,
        [&](const Inputs& x) { return low_word(result(x, 32)); });
  for (const std::string how : {".add", ".min", ".max"}) {
    if (how != ".add" && may_overflow) continue;
    check(s.head + how + " %d" + sources + ", %c;", kWords, in,
          [&](const Inputs& x) { return second(how, result(x, 32), x.c, sign); });
  }
  for (const std::string to : {".b0", ".b1", ".b2", ".b3", ".h0", ".h1"}) {
    // Not every place with every form.
    if (std::hash<std::string>()(s.head + sources + to) % 3 != 0) continue;
    check(s.head + " %d" + to + sources + ", %c;", kWords, in,
          [&](const Inputs& x) { return put_part(x.c, to, result(x, width_of_part(to))); });
  }
}

// Every combination of types, and of parts those in which no source has been.
template <class Each>
void for_types_and_parts(const Each& each) {
  size_t number = 0;
  for (const std::string atype : kTypes) {
    for (const std::string btype : kTypes) {
      for (const std::string apart : kParts) {
        const size_t turn = number++;
        each(atype, btype, apart, std::string(kParts[turn % std::size(kParts)]));
      }
      each(atype, btype, std::string(), std::string());
    }
  }
}

TEST(Video, ScalarArithmetic) {
  const auto in = words_to_try();
  for (const Operation& op : kOperations) {
    for (const std::string dtype : kTypes) {
      for (const bool saturates : {false, true}) {
        for_types_and_parts([&](const std::string& atype, const std::string& btype,
                                const std::string& apart, const std::string& bpart) {
          const std::string head = std::string(op.name) + "." + dtype + "." + atype + "." + btype +
                                   (saturates ? ".sat" : "");
          // Sums of parts, and what is no sum of one type, are inside of 32 bits.
          const bool small = !apart.empty() && !bpart.empty() && is_signed(dtype);
          try_scalar({head, dtype, atype, btype, apart, bpart, saturates, op.apply}, in,
                     !saturates && !small);
        });
      }
    }
  }
}

TEST(Video, ScalarComparison) {
  const auto in = words_to_try();
  for (const Operation& op : kComparisons) {
    for_types_and_parts([&](const std::string& atype, const std::string& btype,
                            const std::string& apart, const std::string& bpart) {
      try_scalar({"vset." + atype + "." + btype + "." + op.name, "u32", atype, btype, apart, bpart,
                  false, op.apply},
                 in, false);
    });
  }
}

TEST(Video, ScalarShifts) {
  const auto in = words_to_try();
  for (const std::string mode : {"clamp", "wrap"}) {
    const auto amount = [&](Big b) {
      return static_cast<uint32_t>(mode == "wrap" ? b % 32 : b > 32 ? Big{32} : b);
    };
    // A negative number is rounded towards the lesser one.
    const auto right = [&](Big a, Big b) {
      const Big by = power(amount(b));
      return a >= 0 ? a / by : -((-a + by - 1) / by);
    };
    const auto left = [&](Big a, Big b) { return a * power(amount(b)); };
    for (const std::string dtype : kTypes) {
      for_types_and_parts([&](const std::string& atype, const std::string& btype,
                              const std::string& apart, const std::string& bpart) {
        if (is_signed(btype)) return;
        const std::string types = "." + dtype + "." + atype + "." + btype;
        try_scalar({"vshl" + types + "." + mode, dtype, atype, btype, apart, bpart, false, left},
                   in, true);
        for (const bool saturates : {false, true}) {
          try_scalar({"vshr" + types + (saturates ? ".sat." : ".") + mode, dtype, atype, btype,
                      apart, bpart, saturates, right},
                     in, !saturates && atype != dtype);
        }
      });
    }
  }
}

struct Mad {
  const char *a, *b, *c, *modifiers;
};
// The operands whose sign changes.
constexpr Mad kMads[] = {{"%a", "%b", "%c", ""},   {"-%a", "%b", "%c", ""},
                         {"%a", "-%b", "%c", ""},  {"%a", "%b", "-%c", ""},
                         {"-%a", "-%b", "%c", ""}, {"-%a", "-%b", "-%c", ""},
                         {"%a", "%b", "%c", ".po"}};

TEST(Video, ScalarProducts) {
  const auto in = words_to_try();
  for (const Mad& mad : kMads) {
    const bool minus_product = (mad.a[0] == '-') != (mad.b[0] == '-');
    const bool minus_sum = mad.c[0] == '-';
    for_types_and_parts([&](const std::string& atype, const std::string& btype,
                            const std::string& apart, const std::string& bpart) {
      const bool product_sign = is_signed(atype) || is_signed(btype) || minus_product;
      const bool sign = product_sign || minus_sum;
      for (const std::string rest : {"", ".sat", ".shr7", ".sat.shr15"}) {
        // Where the PTX ISA contradicts itself: see the refused ones.
        if (!rest.empty() && !is_signed(atype) && !is_signed(btype) &&
            (minus_product || minus_sum)) {
          continue;
        }
        const uint32_t scale = rest.ends_with("7") ? 7 : rest.ends_with("15") ? 15 : 0;
        const std::string code = "vmad." + std::string(sign ? "s32." : "u32.") + atype + "." +
                                 btype + mad.modifiers + rest + " %d, " + mad.a + apart + ", " +
                                 mad.b + bpart + ", " + mad.c + ";";
        check(code, kWords, in, [&](const Inputs& x) {
          const Big product = part_of(x.a, apart, atype) * part_of(x.b, bpart, btype);
          const Big c = as_number(static_cast<Big>(x.c), 32, product_sign);
          Big sum = (minus_product ? -product : product) + (minus_sum ? -c : c) +
                    (mad.modifiers[0] != 0 ? 1 : 0);
          Big scaled = sum / power(scale);
          if (sum < 0 && scaled * power(scale) != sum) --scaled;
          return low_word(rest.starts_with(".sat") ? clamped(scaled, 32, sign) : scaled);
        });
      }
    });
  }
}

Big average(Big a, Big b) {
  const Big sum = a + b;
  // Halves away from zero; other than the shift of the definition.
  return sum >= 0 ? (sum + 1) / 2 : -((-sum + 1) / 2);
}

// The elements that a selector such as ".b7604" names, the first one last; without one from
// `first`.
std::vector<uint32_t> chosen(const std::string& selector, uint32_t count, uint32_t first) {
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < count; ++i) {
    places.push_back(selector.empty()
                         ? first + i
                         : static_cast<uint32_t>(selector[selector.size() - 1 - i] - '0'));
  }
  return places;
}

struct Elements {
  std::string mask, a, b;
};
const std::vector<Elements>& selectors(uint32_t count) {
  static const std::vector<Elements> kHalves = {
      {"", "", ""}, {".h0", ".h33", ".h01"}, {".h1", ".h20", ""}, {".h10", "", ".h12"}};
  static const std::vector<Elements> kBytes = {
      {"", "", ""},           {".b0", ".b7654", ".b0123"},   {".b3", "", ".b4567"},
      {".b20", ".b7070", ""}, {".b321", ".b1111", ".b2604"}, {".b3210", ".b5432", ".b6666"}};
  return count == 2 ? kHalves : kBytes;
}

void try_elements(const std::string& head, uint32_t count, const std::string& dtype,
                  const std::string& atype, const std::string& btype, bool saturates, bool adds,
                  Big (*apply)(Big, Big), const std::vector<Inputs>& in) {
  const uint32_t width = 32 / count;
  for (const Elements& each : selectors(count)) {
    const std::vector<uint32_t> from_a = chosen(each.a, count, 0);
    const std::vector<uint32_t> from_b = chosen(each.b, count, count);
    const std::string mask =
        each.mask.empty() ? (count == 2 ? std::string("10") : "3210") : each.mask.substr(2);
    const std::string code = head + " %d" + each.mask + ", %a" + each.a + ", %b" + each.b + ", %c;";
    check(code, kWords, in, [&](const Inputs& x) {
      const auto element = [&](uint32_t place, const std::string& type) {
        const uint64_t word = place < count ? x.a : x.b;
        return as_number(static_cast<Big>(word >> (place % count * width)), width, is_signed(type));
      };
      uint64_t d = x.c;
      for (const char digit : mask) {
        const auto i = static_cast<uint32_t>(digit - '0');
        Big t = apply(element(from_a[i], atype), element(from_b[i], btype));
        if (saturates) t = clamped(t, width, is_signed(dtype));
        if (adds) {
          d = low_word(static_cast<Big>(d) + t);
        } else {
          const uint64_t part = (uint64_t{1} << width) - 1;
          d = (d & ~(part << (i * width))) | (static_cast<uint64_t>(t) & part) << (i * width);
        }
      }
      return d;
    });
  }
}

TEST(Video, ElementsAreComputed) {
  const auto in = words_to_try();
  std::vector<Operation> operations(std::begin(kOperations), std::end(kOperations));
  operations.push_back({"vavrg", average});
  for (const Operation& op : operations) {
    for (const uint32_t count : {2u, 4u}) {
      for (int types = 0; types < 8; ++types) {
        const std::string d = kTypes[types & 1], a = kTypes[types >> 1 & 1], b = kTypes[types >> 2];
        for (const std::string last : {"", ".sat", ".add"}) {
          const std::string head =
              op.name + std::to_string(count) + "." + d + "." + a + "." + b + last;
          try_elements(head, count, d, a, b, last == ".sat", last == ".add", op.apply, in);
        }
      }
    }
  }
}

TEST(Video, ElementsAreCompared) {
  const auto in = words_to_try();
  for (const Operation& op : kComparisons) {
    for (const uint32_t count : {2u, 4u}) {
      for (int types = 0; types < 4; ++types) {
        const std::string a = kTypes[types & 1], b = kTypes[types >> 1];
        for (const std::string last : {"", ".add"}) {
          const std::string head =
              "vset" + std::to_string(count) + "." + a + "." + b + "." + op.name + last;
          try_elements(head, count, "u32", a, b, false, last == ".add", op.apply, in);
        }
      }
    }
  }
}

TEST(Video, ADestinationMayBeASource) {
  const auto in = words_to_try();
  check("mov.b32 %d, %c; vadd.u32.u32.u32 %d.b1, %d.b0, %a.b3, %d;", kWords, in,
        [](const Inputs& x) {
          const uint64_t sum = (x.c & 0xff) + (x.a >> 24);
          return (x.c & ~uint64_t{0xff00}) | (sum & 0xff) << 8;
        });
}

TEST(Video, WhatIsLeftOpenIsRefused) {
  const auto refused = [](const char* code) {
    EXPECT_FALSE(decode_error(code, kWords).empty()) << code;
  };
  refused("vshl.u32.u32.u32.sat.clamp %d, %a, %b;");
  refused("vshl.u32.u32.u32.clamp.min %d, %a, %b, %c;");
  refused("vadd.u32.u32.u32.min %d, %a, %b, %c;");
  refused("vsub.u32.u32.u32.max %d, %a.b0, %b.b0, %c;");
  refused("vmin.u32.s32.u32.max %d, %a, %b, %c;");
  refused("vmad.s32.u32.u32.sat %d, %a, %b, -%c;");
  refused("vmad.s32.u32.u32.shr7 %d, %a, %b, -%c;");
  refused("vmad.s32.u32.u32.sat %d, -%a, %b, %c;");
  refused("vmad.s32.u32.u32.sat %d, %a, %b, -5;");
  EXPECT_EQ(decode_error("vmin.u32.u32.u32.max %d, %a, %b, %c;", kWords), "");
  EXPECT_EQ(decode_error("vsub.s32.u32.u32.max %d, %a.b0, %b.b0, %c;", kWords), "");
}

TEST(Video, WhatPtxDoesNotHaveIsRefused) {
  for (const char* code : {"vadd.u32.u32.u32 %d.b0, %a, %b;",
                           "vadd.u32.u32.u32.add %d.b0, %a, %b, %c;",
                           "vadd.u32.u32.u32 %d, %a, %b, %c;",
                           "vadd.u32.u32.u32 %d, %a.b4, %b;",
                           "vadd.u32.u32.u32 %d, %a.h2, %b;",
                           "vadd.u32.u32.u32 %d, %a.h10, %b;",
                           "vadd.b32.u32.u32 %d, %a, %b;",
                           "vadd.u32.u32.u32 %d, -%a, %b;",
                           "vadd2.u32.u32.u32.sat.add %d, %a, %b, %c;",
                           "vadd2.u32.u32.u32 %d, %a, %b;",
                           "vadd2.u32.u32.u32 %d.h01, %a, %b, %c;",
                           "vadd2.u32.u32.u32 %d, %a.h4, %b, %c;",
                           "vadd2.u32.u32.u32 %d, %a.h41, %b, %c;",
                           "vadd4.u32.u32.u32 %d.b00, %a, %b, %c;",
                           "vadd4.u32.u32.u32 %d, %a.b8000, %b, %c;",
                           "vadd4.u32.u32.u32.max %d, %a, %b, %c;",
                           "vset4.u32.u32.lt.max %d, %a, %b, %c;",
                           "vset.u32.u32.lo %d, %a, %b;",
                           "vshl.u32.u32.s32.clamp %d, %a, %b;",
                           "vshr.u32.u32.u32 %d, %a, %b;",
                           "vmad.u32.u32.u32 %d.h0, %a, %b, %c;",
                           "vmad.s32.s32.u32 %d, -%a, %b, -%c;",
                           "vmad.s32.u32.u32.po %d, -%a, %b, %c;",
                           "vavrg.u32.u32.u32 %d, %a, %b;",
                           "add.u32 %d, %a.b0, %b;"}) {
    EXPECT_FALSE(decode_error(code, kWords).empty()) << code;
  }
}

}  // namespace
}  // namespace simcuda::test::video_test
