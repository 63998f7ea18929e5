// Products of matrices by the tensor cores' instructions, and moves of matrices. Where elements are
// in registers is written down here once more, from the tables of the PTX ISA.
#include <cmath>
#include <functional>
#include <sstream>

#include "tests/unit/simcuda/machine/half_values.h"
#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::matrix_test {
namespace {

constexpr uint32_t kLanes = 32;

struct Cell {
  uint32_t row, column;
};

// A kind of element: how many bits, and its value from them.
struct Kind {
  const char* name;
  uint32_t bits;
  std::function<double(uint64_t)> value;
  std::function<uint64_t(uint32_t)> sample;  // bits, from a number
};

double f16_value(uint64_t bits) {
  return half_value(bits & 0xffff, kFormats[0]);
}
double bf16_value(uint64_t bits) {
  return half_value(bits & 0xffff, kFormats[1]);
}
double single_value(uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  float f = 0;
  std::memcpy(&f, &word, sizeof f);
  return static_cast<double>(f);
}
uint64_t single_bits(float f) {
  uint32_t word = 0;
  std::memcpy(&word, &f, sizeof f);
  return word;
}
uint64_t double_bits(double d) {
  uint64_t word = 0;
  std::memcpy(&word, &d, sizeof d);
  return word;
}
double double_value(uint64_t bits) {
  double d = 0;
  std::memcpy(&d, &bits, sizeof d);
  return d;
}

uint32_t scramble(uint32_t n) {
  n = (n ^ 61) * 0x9e3779b1u;
  return (n ^ n >> 15) * 0x85ebca6bu >> 7;
}

// Small numbers, so that sums are exact in any order.
const Kind kF16{"f16", 16, f16_value, [](uint32_t n) {
                  const uint64_t small[] = {0x3c00, 0xbc00, 0x4000, 0x3800, 0x0000, 0xc200};
                  return small[scramble(n) % 6];
                }};
const Kind kBF16{"bf16", 16, bf16_value, [](uint32_t n) {
                   const uint64_t small[] = {0x3f80, 0xbf80, 0x4000, 0x3f00, 0x0000, 0xc040};
                   return small[scramble(n) % 6];
                 }};
// Bits below its 10 bits of mantissa do not count.
const Kind kTF32{"tf32", 32, [](uint64_t bits) { return single_value(bits & ~uint64_t{0x1fff}); },
                 [](uint32_t n) {
                   return single_bits(static_cast<float>(scramble(n) % 9) / 4 - 1) | (n & 0x1fff);
                 }};
const Kind kF32{"f32", 32, single_value, [](uint32_t n) {
                  return single_bits(static_cast<float>(scramble(n) % 33) / 2 - 8);
                }};
const Kind kF64{"f64", 64, double_value, [](uint32_t n) {
                  return double_bits(static_cast<double>(scramble(n) % 1001) / 8 - 60);
                }};
const Kind kS8{"s8", 8, [](uint64_t b) { return static_cast<double>(static_cast<int8_t>(b)); },
               [](uint32_t n) { return uint64_t{scramble(n) & 0xff}; }};
const Kind kU8{"u8", 8, [](uint64_t b) { return static_cast<double>(b & 0xff); },
               [](uint32_t n) { return uint64_t{scramble(n) & 0xff}; }};
const Kind kS4{
    "s4", 4,
    [](uint64_t b) { return (b & 8) != 0 ? static_cast<double>(b) - 16 : static_cast<double>(b); },
    [](uint32_t n) { return uint64_t{scramble(n) & 15}; }};
const Kind kU4{"u4", 4, [](uint64_t b) { return static_cast<double>(b); },
               [](uint32_t n) { return uint64_t{scramble(n) & 15}; }};
const Kind kB1{"b1", 1, [](uint64_t b) { return static_cast<double>(b); },
               [](uint32_t n) { return uint64_t{scramble(n) & 1}; }};
const Kind kS32{"s32", 32, [](uint64_t b) { return static_cast<double>(static_cast<int32_t>(b)); },
                [](uint32_t n) { return (uint64_t{scramble(n) % 2000} - 1000) & 0xffffffff; }};
const Kind kE4M3{"e4m3", 8,
                 [](uint64_t b) {
                   const double m = (b & 7) / 8.0 + ((b & 0x78) != 0 ? 1 : 0);
                   const int e = (b & 0x78) != 0 ? static_cast<int>(b >> 3 & 15) - 7 : -6;
                   return ((b & 0x80) != 0 ? -1 : 1) * std::ldexp(m, e);
                 },
                 [](uint32_t n) {
                   const uint64_t small[] = {0x38, 0xb8, 0x40, 0x30, 0x00, 0xc4, 0x01};
                   return small[scramble(n) % 7];
                 }};
const Kind kE5M2{"e5m2", 8, [](uint64_t b) { return f16_value(b << 8); },
                 [](uint32_t n) {
                   const uint64_t small[] = {0x3c, 0xbc, 0x40, 0x38, 0x00, 0xc2};
                   return small[scramble(n) % 6];
                 }};

uint32_t width(const Kind& k) {
  return k.bits == 64 ? 64 : 32;
}

// Element i of a lane, in the order of its registers, as the ISA's tables for mma.m16n8 and m8n8
// say.
Cell cell_of_a(uint32_t rows, const Kind& k, uint32_t lane, uint32_t i) {
  const uint32_t each = width(k) / k.bits, group = lane >> 2, within = lane & 3;
  const uint32_t run = i / each;  // registers that came before
  if (rows == 8) return {group, within * each + i % each};
  return {group + (run % 2 == 0 ? 0 : 8), within * each + i % each + run / 2 * 4 * each};
}
Cell cell_of_b(const Kind& k, uint32_t lane, uint32_t i) {
  const uint32_t each = width(k) / k.bits;
  return {(lane & 3) * each + i % each + i / each * 4 * each, lane >> 2};
}
Cell cell_of_c(uint32_t lane, uint32_t i) {
  return {(lane >> 2) + (i < 2 ? 0 : 8), (lane & 3) * 2 + (i & 1)};
}

std::string registers(const char* prefix, size_t first, size_t count) {
  std::string list = "{";
  for (size_t i = 0; i < count; ++i)
    list += (i == 0 ? "" : ", ") + (prefix + std::to_string(first + i));
  return list + "}";
}

struct Product {
  const Kind *a, *b, *c;
  uint32_t m, n, k;
  std::string more;   // modifiers before the types
  std::string after;  // and after them
};

std::vector<uint64_t> packed(const Kind& k, uint32_t count, uint32_t lane,
                             const std::function<uint64_t(uint32_t lane, uint32_t i)>& element) {
  const uint32_t each = width(k) / k.bits;
  std::vector<uint64_t> words(count);
  for (uint32_t i = 0; i < count * each; ++i) {
    words[i / each] |= element(lane, i) << (i % each * k.bits);
  }
  return words;
}

// mma with each lane's registers from memory and to it, against a product done here.
void check_mma(const Product& p) {
  const auto count_of = [](const Kind& k, uint32_t cells) {
    return cells * k.bits / kLanes / width(k);
  };
  const uint32_t na = count_of(*p.a, p.m * p.k), nb = count_of(*p.b, p.k * p.n);
  const uint32_t nc = count_of(*p.c, p.m * p.n);
  const bool doubles = p.a->bits == 64;
  const char* const r = doubles ? "%d" : "%r";
  std::ostringstream code;
  code
      << ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b32 %r<40>; .reg .f64 "
         "%d<40>; "
         ".reg .b64 %x<9>;\nld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; mov.u32 %r0, %tid.x;\n"
         "mad.wide.u32 %x1, %r0, 256, %x1; mad.wide.u32 %x2, %r0, 256, %x2;\n";
  for (uint32_t i = 0; i < na + nb + nc; ++i) {
    code << "ld.global." << (doubles ? "f64 %d" : "b32 %r") << i + 1 << ", [%x1+" << i * 8
         << "];\n";
  }
  code << "mma.sync.aligned.m" << p.m << "n" << p.n << "k" << p.k << ".row.col" << p.more << "."
       << p.c->name << "." << p.a->name << "." << p.b->name << "." << p.c->name << p.after << " "
       << registers(r, 1 + na + nb, nc) << ", " << registers(r, 1, na) << ", "
       << registers(r, 1 + na, nb) << ", " << registers(r, 1 + na + nb, nc) << ";\n";
  for (uint32_t i = 0; i < nc; ++i) {
    code << "st.global." << (doubles ? "f64" : "b32") << " [%x2+" << i * 8 << "], " << r
         << 1 + na + nb + i << ";\n";
  }
  code << "ret; }\n";
  Machine machine(code.str());
  ASSERT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;

  const auto a_at = [&](uint32_t row, uint32_t k) { return p.a->sample(row * 300 + k); };
  const auto b_at = [&](uint32_t k, uint32_t column) {
    return p.b->sample(70000 + column * 300 + k);
  };
  const auto c_at = [&](uint32_t row, uint32_t column) {
    return p.c->sample(90000 + row * 300 + column);
  };
  std::vector<uint64_t> in(kLanes * 32);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    std::vector<uint64_t> words = packed(*p.a, na, lane, [&](uint32_t l, uint32_t i) {
      const Cell cell = cell_of_a(p.m, *p.a, l, i);
      return a_at(cell.row, cell.column);
    });
    const auto b = packed(*p.b, nb, lane, [&](uint32_t l, uint32_t i) {
      const Cell cell = cell_of_b(*p.b, l, i);
      return b_at(cell.row, cell.column);
    });
    const auto c = packed(*p.c, nc, lane, [&](uint32_t l, uint32_t i) {
      const Cell cell = cell_of_c(l, i);
      return c_at(cell.row, cell.column);
    });
    words.insert(words.end(), b.begin(), b.end());
    words.insert(words.end(), c.begin(), c.end());
    std::copy(words.begin(), words.end(), in.begin() + lane * 32);
  }
  const uint64_t from = machine.buffer(in), to = machine.buffer(in.size() * 8);
  ASSERT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {from, to}).message, "");
  const auto out = machine.read<uint64_t>(to, in.size());
  const uint32_t each = width(*p.c) / p.c->bits;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < nc * each; ++i) {
      const Cell cell = cell_of_c(lane, i);
      double want = p.c->value(c_at(cell.row, cell.column));
      for (uint32_t k = 0; k < p.k; ++k) {
        const double x = p.a->value(a_at(cell.row, k)), y = p.b->value(b_at(k, cell.column));
        const bool both = x != 0 && y != 0;
        want += p.after == ".and.popc" ? (both ? 1 : 0) : p.after == ".xor.popc" ? (x != y) : x * y;
      }
      const uint64_t mask = p.c->bits == 64 ? UINT64_MAX : (uint64_t{1} << p.c->bits) - 1;
      const uint64_t bits = out[lane * 32 + i / each] >> (i % each * p.c->bits) & mask;
      ASSERT_EQ(p.c->value(bits), want)
          << p.a->name << " m" << p.m << "n" << p.n << "k" << p.k << ", lane " << lane << " " << i;
    }
  }
}

TEST(Matrix, ProductsInTheLayoutsOfTheIsa) {
  for (const uint32_t k : {8u, 16u}) {
    check_mma({&kF16, &kF16, &kF32, 16, 8, k, "", ""});
    check_mma({&kF16, &kF16, &kF16, 16, 8, k, "", ""});
    check_mma({&kBF16, &kBF16, &kF32, 16, 8, k, "", ""});
  }
  for (const uint32_t k : {4u, 8u}) check_mma({&kTF32, &kTF32, &kF32, 16, 8, k, "", ""});
  for (const uint32_t k : {4u, 8u, 16u}) check_mma({&kF64, &kF64, &kF64, 16, 8, k, "", ""});
  check_mma({&kF64, &kF64, &kF64, 8, 8, 4, "", ""});
  for (const Kind* a : {&kS8, &kU8}) {
    for (const Kind* b : {&kS8, &kU8}) {
      check_mma({a, b, &kS32, 8, 8, 16, "", ""});
      check_mma({a, b, &kS32, 16, 8, 16, "", ""});
      check_mma({a, b, &kS32, 16, 8, 32, ".satfinite", ""});
    }
  }
  for (const Kind* a : {&kS4, &kU4}) {
    check_mma({a, &kS4, &kS32, 8, 8, 32, "", ""});
    check_mma({a, &kU4, &kS32, 16, 8, 32, "", ""});
    check_mma({a, &kS4, &kS32, 16, 8, 64, "", ""});
  }
  for (const char* how : {".xor.popc", ".and.popc"}) {
    check_mma({&kB1, &kB1, &kS32, 8, 8, 128, "", how});
    check_mma({&kB1, &kB1, &kS32, 16, 8, 128, "", how});
    check_mma({&kB1, &kB1, &kS32, 16, 8, 256, "", how});
  }
  check_mma({&kE4M3, &kE5M2, &kF32, 16, 8, 32, "", ""});
  check_mma({&kE5M2, &kE4M3, &kF32, 16, 8, 32, "", ""});
}

// Integers wrap around, or stop at the ends.
TEST(Matrix, SaturatesOnlyWhereItSays) {
  for (const bool stops : {false, true}) {
    const std::string how = stops ? ".satfinite" : "";
    Machine machine(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %x<3>;\n"
        "ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %x1, %r0, 4, %x1;\n"
        "mov.u32 %r1, 0x7f7f7f7f; mov.u32 %r2, 0x7f7f7f7f; mov.u32 %r3, 0x7fffffff;\n"
        "mma.sync.aligned.m8n8k16.row.col" +
        how +
        ".s32.s8.s8.s32 {%r4, %r5}, {%r1}, {%r2}, {%r3, %r3};\n"
        "st.global.b32 [%x1], %r5; ret; }");
    ASSERT_TRUE(machine.ok()) << machine.error().reason;
    const uint64_t out = machine.buffer(kLanes * 4);
    ASSERT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {out}).message, "");
    const uint32_t wrapped = 0x7fffffffu + 16 * 127 * 127;
    EXPECT_EQ(machine.read<uint32_t>(out, 1)[0], stops ? 0x7fffffffu : wrapped);
  }
}

struct Fragments {
  const char *shape, *type, *sum;
  uint32_t m, n, k;
  uint32_t na, nb, nc;  // registers
  const Kind *element, *result;
  const char* types;  // of the product
};

// wmma: through memory only, since where elements are in registers is nobody's business.
void check_wmma(const Fragments& f, bool a_row, bool b_row, bool d_row) {
  const auto layout = [](bool row) { return row ? "row" : "col"; };
  const bool doubles = f.element->bits == 64;
  const char* const r = doubles ? "%d" : "%r";
  const uint32_t lda = (a_row ? f.k : f.m) + 32, ldb = (b_row ? f.n : f.k) + 32, ldc = f.n + 8;
  const uint32_t ldd = (d_row ? f.n : f.m) + 8;
  std::ostringstream code;
  code << ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
          ".reg .b32 %r<60>; .reg .f64 %d<60>; .reg .b64 %x<9>;\nld.param.u64 %x1, [a]; "
          "ld.param.u64 "
          "%x2, [b]; ld.param.u64 %x3, [c]; ld.param.u64 %x4, [d];\n"
       << "wmma.load.a.sync.aligned." << layout(a_row) << "." << f.shape << ".global." << f.type
       << " " << registers(r, 1, f.na) << ", [%x1], " << lda << ";\n"
       << "wmma.load.b.sync.aligned." << layout(b_row) << "." << f.shape << ".global." << f.type
       << " " << registers(r, 11, f.nb) << ", [%x2], " << ldb << ";\n"
       << "wmma.load.c.sync.aligned.row." << f.shape << "." << f.sum << " "
       << registers(r, 21, f.nc) << ", [%x3], " << ldc << ";\n"
       << "wmma.mma" << (f.element->bits == 1 ? ".xor.popc" : "") << ".sync.aligned."
       << layout(a_row) << "." << layout(b_row) << "." << f.shape << "." << f.types << " "
       << registers(r, 31, f.nc) << ", " << registers(r, 1, f.na) << ", " << registers(r, 11, f.nb)
       << ", " << registers(r, 21, f.nc) << ";\n"
       << "wmma.store.d.sync.aligned." << layout(d_row) << "." << f.shape << ".global." << f.sum
       << " [%x4], " << registers(r, 31, f.nc) << ", " << ldd << ";\nret; }\n";
  Machine machine(code.str());
  ASSERT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  // Element number n of a matrix in memory.
  const auto filled = [](const Kind& k, size_t count, uint32_t salt) {
    std::vector<uint8_t> bytes((count * k.bits + 7) / 8 + 16);
    for (uint32_t n = 0; n < count; ++n) {
      const uint64_t bits = k.sample(n + salt);
      for (uint32_t b = 0; b < k.bits; ++b) {
        const size_t at = size_t{n} * k.bits + b;
        bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] | (bits >> b & 1) << at % 8);
      }
    }
    return bytes;
  };
  const uint64_t a = machine.buffer(filled(*f.element, lda * 64, 0));
  const uint64_t b = machine.buffer(filled(*f.element, ldb * 256, 50000));
  const uint64_t c = machine.buffer(filled(*f.result, ldc * 64, 90000));
  const uint64_t d = machine.buffer(ldd * 64 * 8);
  ASSERT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {a, b, c, d}).message, "");
  const auto out = machine.read<uint8_t>(d, ldd * 64 * 8);
  for (uint32_t row = 0; row < f.m; ++row) {
    for (uint32_t column = 0; column < f.n; ++column) {
      double want = f.result->value(f.result->sample(row * ldc + column + 90000));
      for (uint32_t k = 0; k < f.k; ++k) {
        const double x = f.element->value(f.element->sample(a_row ? row * lda + k : k * lda + row));
        const double y = f.element->value(
            f.element->sample(50000 + (b_row ? k * ldb + column : column * ldb + k)));
        want += f.element->bits == 1 ? (x != y ? 1 : 0) : x * y;
      }
      uint64_t bits = 0;
      const uint32_t bytes = f.result->bits / 8;
      std::memcpy(&bits, &out[(d_row ? row * ldd + column : column * ldd + row) * bytes], bytes);
      ASSERT_EQ(f.result->value(bits), want)
          << f.shape << " " << f.types << " " << row << "," << column;
    }
  }
}

TEST(Matrix, FragmentsFromAndToMemory) {
  for (int layouts = 0; layouts < 8; ++layouts) {
    const bool a = layouts & 1, b = layouts & 2, d = layouts & 4;
    for (const auto& [shape, m, n] :
         {std::tuple{"m16n16k16", 16u, 16u}, {"m32n8k16", 32u, 8u}, {"m8n32k16", 8u, 32u}}) {
      check_wmma({shape, "f16", "f32", m, n, 16, 8, 8, 8, &kF16, &kF32, "f32.f32"}, a, b, d);
      check_wmma({shape, "f16", "f16", m, n, 16, 8, 8, 4, &kF16, &kF16, "f16.f16"}, a, b, d);
      check_wmma(
          {shape, "bf16", "f32", m, n, 16, m / 4, n / 4, 8, &kBF16, &kF32, "f32.bf16.bf16.f32"}, a,
          b, d);
      check_wmma({shape, "s8", "s32", m, n, 16, m / 8, n / 8, 8, &kS8, &kS32, "s32.s8.s8.s32"}, a,
                 b, d);
      check_wmma(
          {shape, "u8", "s32", m, n, 16, m / 8, n / 8, 8, &kU8, &kS32, "s32.u8.u8.s32.satfinite"},
          a, b, d);
    }
    check_wmma({"m16n16k8", "tf32", "f32", 16, 16, 8, 4, 4, 8, &kTF32, &kF32, "f32.tf32.tf32.f32"},
               a, b, d);
    check_wmma({"m8n8k4", "f64", "f64", 8, 8, 4, 1, 1, 2, &kF64, &kF64, "rn.f64.f64.f64.f64"}, a, b,
               d);
    check_wmma({"m8n8k32", "s4", "s32", 8, 8, 32, 1, 1, 2, &kS4, &kS32, "s32.s4.s4.s32"}, true,
               false, d);
    check_wmma({"m8n8k128", "b1", "s32", 8, 8, 128, 1, 1, 2, &kB1, &kS32, "s32.b1.b1.s32"}, true,
               false, d);
  }
}

// Row r of matrix m holds 100 * m + 10 * r + column.
constexpr const char* kRows = R"(
.visible .entry k(.param .u64 out) {
  .reg .pred %p; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %x<9>;
  .shared .align 16 .b8 sh[512];
  ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x;
  mov.u32 %r1, sh; mad.lo.u32 %r2, %r0, 16, %r1; mov.u32 %r3, 0;
LOOP:
  shr.u32 %r4, %r0, 3; mul.lo.u32 %r4, %r4, 100; and.b32 %r5, %r0, 7; mad.lo.u32 %r4, %r5, 10, %r4;
  add.u32 %r4, %r4, %r3; cvt.u16.u32 %h1, %r4; mad.lo.u32 %r5, %r3, 2, %r2; st.shared.u16 [%r5], %h1;
  add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 8; @%p bra LOOP;
  bar.warp.sync -1;
)";

uint32_t row_pair(uint32_t matrix, uint32_t lane, bool transposed) {
  const uint32_t group = lane / 4, first = lane % 4 * 2;
  const auto at = [&](uint32_t row, uint32_t column) { return matrix * 100 + row * 10 + column; };
  return transposed ? at(first, group) | at(first + 1, group) << 16
                    : at(group, first) | at(group, first + 1) << 16;
}

std::vector<uint32_t> run_rows(const std::string& code, size_t words) {
  Machine machine(kRows + code + " ret; }");
  EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  if (!machine.ok()) return std::vector<uint32_t>(words);
  const uint64_t out = machine.buffer(words * 4);
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {out}).message, "");
  return machine.read<uint32_t>(out, words);
}

TEST(Matrix, RowsFromSharedMemory) {
  for (const bool transposed : {false, true}) {
    for (const uint32_t count : {1u, 2u, 4u}) {
      std::ostringstream code;
      // The address is in one of the registers that are written.
      code << "ldmatrix.sync.aligned.m8n8.x" << count << (transposed ? ".trans" : "")
           << ".shared.b16 " << registers("%r", 2, count)
           << ", [%r2];\nmad.wide.u32 %x1, %r0, 16, %x1;\n";
      for (uint32_t i = 0; i < count; ++i) {
        code << "st.global.u32 [%x1+" << i * 4 << "], %r" << i + 2 << ";\n";
      }
      const auto got = run_rows(code.str(), kLanes * 4);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        for (uint32_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[lane * 4 + i], row_pair(i, lane, transposed)) << lane << " " << i;
        }
      }
    }
  }
}

TEST(Matrix, RowsToSharedMemoryAndTransposed) {
  // Out of its rows and into them again, once transposed: the transposed matrices.
  for (const char* how :
       {"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r2], {%r10, %r11, %r12, %r13};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10; movmatrix.sync.aligned.m8n8.trans.b16 "
        "%r11, %r11;"
        "movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r12; movmatrix.sync.aligned.m8n8.trans.b16 "
        "%r13, %r13;"
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r10, %r11, %r12, %r13};"}) {
    const auto got = run_rows(
        std::string("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];") +
            how +
            "bar.warp.sync -1; mad.wide.u32 %x1, %r0, 16, %x1; ld.shared.v4.u32 {%r4, %r5, %r6, "
            "%r7}, [%r2];"
            "st.global.v4.u32 [%x1], {%r4, %r5, %r6, %r7};",
        kLanes * 4);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t column = 0; column < 8; ++column) {
        const uint32_t word = got[lane * 4 + column / 2];
        ASSERT_EQ(word >> (column % 2 * 16) & 0xffff, lane / 8 * 100 + column * 10 + lane % 8);
      }
    }
  }
}

TEST(Matrix, AllLanesMustBeThere) {
  Machine machine(
      ".visible .entry k() { .reg .b32 %r<4>; .reg .pred %p; mov.u32 %r0, %tid.x; setp.lt.u32 %p, "
      "%r0, 5;\n"
      "@%p ret; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; ret; }");
  ASSERT_TRUE(machine.ok()) << machine.error().reason;
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {}).kind,
            Fault::Kind::kIllegalInstruction);
}

TEST(Matrix, LanesThatCameApartWaitForOneAnother) {
  Machine machine(
      ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .pred %p; .reg .b64 %x<3>;\n"
      "ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; setp.lt.u32 %p, %r0, 5; mad.wide.u32 %x1, "
      "%r0, 4, %x1;\n"
      "@%p bra SMALL; mov.u32 %r2, 7; bra.uni MEET; SMALL: mov.u32 %r2, 7; add.u32 %r3, %r2, 0;\n"
      "MEET: movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2; st.global.u32 [%x1], %r1; ret; }");
  ASSERT_TRUE(machine.ok()) << machine.error().reason;
  const uint64_t out = machine.buffer(kLanes * 4);
  ASSERT_EQ(machine.launch("k", {1, 1, 1}, {kLanes, 1, 1}, {out}).message, "");
  const auto got = machine.read<uint32_t>(out, kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    // Columns with an odd number were the upper halves.
    EXPECT_EQ(got[lane], lane / 4 % 2 == 0 ? 0x00070007u : 0u) << lane;
  }
}

}  // namespace
}  // namespace simcuda::test::matrix_test
