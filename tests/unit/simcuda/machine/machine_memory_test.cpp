// Loads, stores, atomics, state spaces, and what happens to accesses that are wrong.
#include <gtest/gtest-spi.h>

#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::memory_test {
namespace {

TEST(Harness, SeesADifference) {
  EXPECT_NONFATAL_FAILURE(check("add.u32 %d, %a, %b;", "b32 b32 b32", {{1, 2, 0, 0}},
                                [](const Inputs&) { return uint64_t{4}; }),
                          "got 3, want 4");
}

// One thread for each of `threads`; parameters are addresses.
Fault launch(Machine& m, const std::vector<uint64_t>& parameters, uint32_t threads = 64) {
  EXPECT_TRUE(m.ok()) << m.error().instruction << ": " << m.error().reason;
  return m.ok() ? m.launch("k", {1, 1, 1}, {threads, 1, 1}, parameters) : Fault{};
}

const std::string kBegin = R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %i, %o, %x<8>; .reg .b32 %t, %r<16>; .reg .b16 %h<8>; .reg .f32 %f<8>; .reg .f64 %d<8>;
  .reg .pred %q;
  ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
)";

TEST(Memory, SmallTypesAreExtended) {
  Machine m(kBegin + R"(
  mul.wide.u32 %x0, %t, 8; add.u64 %x1, %i, %x0; mul.wide.u32 %x0, %t, 48; add.u64 %x2, %o, %x0;
  ld.global.s8 %x3, [%x1]; st.global.u64 [%x2], %x3;
  ld.global.u8 %x3, [%x1]; st.global.u64 [%x2+8], %x3;
  ld.global.s16 %x3, [%x1]; st.global.u64 [%x2+16], %x3;
  ld.global.u16 %r1, [%x1]; st.global.u32 [%x2+24], %r1;
  ld.global.s32 %x3, [%x1]; st.global.u64 [%x2+32], %x3;
  ld.global.s8 %h1, [%x1]; st.global.u16 [%x2+40], %h1;
  ld.global.u32 %r2, [%x1+4]; st.global.u8 [%x2+42], %r2; st.global.u16 [%x2+44], %r2;
  ret; })");
  const auto in = integer_edges(64);
  const uint64_t i = m.buffer(in);
  const uint64_t o = m.buffer(in.size() * 48);
  ASSERT_EQ(launch(m, {i, o}, static_cast<uint32_t>(in.size())).message, "");
  for (size_t k = 0; k < in.size(); ++k) {
    const auto r = m.read<uint64_t>(o, in.size() * 6);
    EXPECT_EQ(r[k * 6], static_cast<uint64_t>(static_cast<int8_t>(in[k])));
    EXPECT_EQ(r[k * 6 + 1], in[k] & 0xff);
    EXPECT_EQ(r[k * 6 + 2], static_cast<uint64_t>(static_cast<int16_t>(in[k])));
    EXPECT_EQ(r[k * 6 + 3], in[k] & 0xffff);
    EXPECT_EQ(r[k * 6 + 4], static_cast<uint64_t>(static_cast<int32_t>(in[k])));
    const uint64_t top = in[k] >> 32;
    const auto h = static_cast<uint16_t>(static_cast<int8_t>(in[k]));
    EXPECT_EQ(r[k * 6 + 5], h | (top & 0xff) << 16 | (top & 0xffff) << 32);
  }
}

TEST(Memory, VectorsWithAndWithoutGaps) {
  for (const char* order :
       {"mul.wide.u32 %x0, %t, 16;", "xor.b32 %r9, %t, 21; mul.wide.u32 %x0, %r9, 16;"}) {
    Machine m(kBegin + order + R"(
  add.u64 %x1, %i, %x0; add.u64 %x2, %o, %x0;
  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x1];
  st.global.v4.u32 [%x2], {%r4, %r3, %r2, %r1};
  ld.global.v2.u64 {%x3, _}, [%x1]; st.global.v2.u64 [%x2+1024], {%x3, 7};
  ld.global.nc.v4.u8 {%h1, %h2, %h3, %h4}, [%x1];
  st.global.v4.u8 [%x2+2048], {%h4, %h3, %h2, %h1};
  ret; })");
    std::vector<uint32_t> in(256);
    for (uint32_t k = 0; k < in.size(); ++k) in[k] = k * 0x01030507;
    const uint64_t i = m.buffer(in);
    const uint64_t o = m.buffer(4096);
    ASSERT_EQ(launch(m, {i, o}).message, "");
    const auto r = m.read<uint32_t>(o, 1024);
    for (size_t k = 0; k < 64; ++k) {
      for (size_t e = 0; e < 4; ++e) EXPECT_EQ(r[4 * k + e], in[4 * k + 3 - e]);
      EXPECT_EQ(r[256 + 4 * k], in[4 * k]);
      EXPECT_EQ(r[256 + 4 * k + 1], in[4 * k + 1]);
      EXPECT_EQ(r[256 + 4 * k + 2], 7u);
      EXPECT_EQ(r[512 + 4 * k], __builtin_bswap32(in[4 * k]));
    }
  }
}

TEST(Memory, SpacesAndGenericAddresses) {
  Machine m(R"(
.const .align 4 .u32 table[4] = {10, 20, 30, 40};
.global .align 8 .u64 where = generic(table)+4;
.global .u32 counters[64];
)" + kBegin +
            R"(
  .local .align 8 .b8 mine[64]; .shared .align 8 .b8 ours[1024];
  and.b32 %r1, %t, 3; mul.wide.u32 %x0, %r1, 4; mov.u64 %x1, table; add.u64 %x1, %x1, %x0;
  ld.const.u32 %r2, [%x1];
  mov.u64 %x2, mine; cvta.local.u64 %x2, %x2; mul.wide.u32 %x0, %r1, 8; add.u64 %x2, %x2, %x0;
  st.u32 [%x2], %t; ld.u32 %r3, [%x2]; isspacep.local %q, %x2; @!%q trap;
  cvta.to.local.u64 %x3, %x2; ld.local.u32 %r4, [%x3]; setp.ne.u32 %q, %r3, %r4; @%q trap;
  mov.u64 %x3, ours; mul.wide.u32 %x0, %t, 4; add.u64 %x3, %x3, %x0; cvta.shared.u64 %x4, %x3;
  st.u32 [%x4], %r3; isspacep.shared %q, %x4; @!%q trap; isspacep.global %q, %x4; @%q trap;
  bar.sync 0; ld.shared.u32 %r5, [%x3];
  mov.u64 %x5, counters; add.u64 %x5, %x5, %x0; st.global.u32 [%x5], %r5; isspacep.global %q, %x5; @!%q trap;
  // Lanes of one load in different spaces.
  setp.lt.u32 %q, %t, 20; selp.b64 %x6, %x4, %x5, %q; ld.u32 %r6, [%x6];
  ld.global.u64 %x7, [where]; ld.u32 %r7, [%x7];
  add.u32 %r6, %r6, %r2; add.u32 %r6, %r6, %r7;
  add.u64 %x5, %o, %x0; st.global.u32 [%x5], %r6; ret; })");
  const uint64_t o = m.buffer(256);
  ASSERT_EQ(launch(m, {0, o}).message, "");
  const auto r = m.read<uint32_t>(o, 64);
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(r[t], t + 10 * (t % 4 + 1) + 20);
}

// Instructions for generic addresses that name a variable of another space.
TEST(Memory, NamesOfSharedAndLocalVariablesAreGeneric) {
  check(
      "{.shared .align 8 .b32 ours[2]; .local .align 8 .b32 mine[2];"
      "st.u32 [ours+4], %a; st.v2.u32 [mine], {%b, %a}; bar.warp.sync 0xffffffff;"
      ".reg .b32 %x, %y, %z; ld.u32 %x, [mine+4]; ld.u32 %y, [mine]; sub.u32 %x, %x, %y;"
      ".reg .b64 %w; mov.u64 %w, mine; cvta.local.u64 %w, %w; ld.u32 %z, [%w]; sub.u32 %x, %x, %z; "
      "mov.b32 %d, %x;}",
      "b32 b32 b32", {{50, 7, 0, 0}}, [](const Inputs& x) { return (x.a - 2 * x.b) & 0xffffffff; });
  check("{.shared .b32 ours; st.u32 [ours], %a; atom.add.u32 %d, [ours], %b; ld.u32 %d, [ours];}",
        "b32 b32 b32", {{50, 7, 0, 0}}, [](const Inputs& x) { return x.a + x.b; });
}

TEST(Memory, NumberedVariables) {
  check(
      "{.param .b32 %P<2>; st.param.b32 [%P0], %a; st.param.b32 [%P1], %b;"
      ".reg .b32 %x, %y; ld.param.b32 %x, [%P0]; ld.param.b32 %y, [%P1]; sub.u32 %d, %x, %y;}",
      "b32 b32 b32", {{50, 7, 0, 0}}, [](const Inputs& x) { return x.a - x.b; });
  for (const char* bad : {".param .b32 %P<2;", ".param .b32 %P<99999999>;", ".param %P<2>;",
                          ".param .b32 %P1; .param .b32 %P<2>;"}) {
    EXPECT_NE(decode_error(bad, "b32"), "") << bad;
  }
}

TEST(Memory, MovesOfVectors) {
  check("{.reg .v2 .b32 %v<2>; mov.v2.b32 %v0, {%a, %b}; mov.v2.u32 {%d, %b}, {%v0.y, %v0.x};}",
        "b32 b32 b32", {{50, 7, 0, 0}}, [](const Inputs& x) { return x.b; });
  // Elements change places.
  check("mov.v2.u32 {%a, %b}, {%b, %a}; sub.u32 %d, %a, %b;", "b32 b32 b32", {{50, 57, 0, 0}},
        [](const Inputs&) { return 7; });
  check("{.reg .b64 %x<3>; mov.v4.u64 {%x0, %x1, %x2, %d}, {%b, %b, %b, %a};}", "b64 b64 b64",
        {{50, 7, 0, 0}}, [](const Inputs& x) { return x.a; });
  for (const char* bad : {"mov.v2.u32 {%d, %a}, {%a};", "mov.v2.u32 %d, %a;",
                          "mov.v4.u32 {%d, %d}, {%a, %a};", "mov.v2.pred {%d, %d}, {%a, %a};"}) {
    EXPECT_NE(decode_error(bad, "b32 b32"), "") << bad;
  }
}

TEST(Memory, ParametersByValueAndTheirAddress) {
  Machine m(R"(
.visible .entry k(.param .align 8 .b8 s[24], .param .u64 out) {
  .reg .b64 %x<6>; .reg .b32 %r<4>; .reg .b32 %t;
  ld.param.u64 %x1, [out]; mov.u32 %t, %tid.x;
  mov.b64 %x2, s; and.b32 %r1, %t, 1; mul.wide.u32 %x3, %r1, 4; add.u64 %x2, %x2, %x3;
  ld.param.u32 %r2, [%x2]; cvta.param.u64 %x4, %x2; ld.u32 %r3, [%x4];
  add.u32 %r2, %r2, %r3; mul.wide.u32 %x3, %t, 4; add.u64 %x1, %x1, %x3; st.global.u32 [%x1], %r2; ret; })");
  ASSERT_TRUE(m.ok()) << m.error().reason;
  const auto& where = info(*m.program().kernel("k")).parameters;
  ASSERT_EQ(where.size(), 2u);
  EXPECT_EQ(where[1].offset, 24u);
  const uint64_t o = m.buffer(256);
  ASSERT_EQ(launch(m, {5 | uint64_t{9} << 32, o}).message, "");
  const auto r = m.read<uint32_t>(o, 64);
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(r[t], t % 2 == 0 ? 10u : 18u);
}

// Registers of 32 bits that hold negative numbers, with offsets that lead back into the space.
TEST(Memory, NarrowAddressesWrap) {
  Machine m(R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 8 .b8 words[16]) {
  .reg .b64 %i, %o, %x<8>; .reg .b32 %t, %r<24>; .reg .pred %q;
  .shared .align 16 .b8 ours[2048]; .local .align 16 .b8 mine[64];
  ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
  mul.wide.u32 %x0, %t, 64; add.u64 %o, %o, %x0;
  mov.u32 %r1, ours; shl.b32 %r2, %t, 5; add.u32 %r1, %r1, %r2;
  // 4096 below its 32 bytes: wraps for all; and 4096 above.
  sub.u32 %r2, %r1, 4096; add.u32 %r3, %r1, 4096;
  st.shared.u32 [%r2+4096], %t; ld.volatile.shared.u32 %r4, [%r3+-4096]; st.global.u32 [%o], %r4;
  atom.shared.add.u32 %r4, [%r2+4096], 5; st.global.u32 [%o+4], %r4;
  red.shared.add.u32 [%r2+4096], 2; ld.shared.u32 %r4, [%r1]; st.global.u32 [%o+8], %r4;
  atom.shared.cas.b32 %r4, [%r2+4096], %r4, 77; ld.shared.u32 %r4, [%r2+4096]; st.global.u32 [%o+12], %r4;
  st.shared.v4.u32 [%r2+4112], {%t, 1, 2, 3}; ld.shared.v2.u32 {%r5, %r6}, [%r2+4120];
  st.global.v2.u32 [%o+16], {%r5, %r6};
  // Half of the lanes only.
  and.b32 %r7, %t, 1; setp.eq.u32 %q, %r7, 0; mov.u32 %r8, 9;
  @%q ld.shared.u32 %r8, [%r2+4112]; st.global.u32 [%o+24], %r8;
  mov.u32 %r9, mine; sub.u32 %r9, %r9, 68; st.local.u32 [%r9+72], %t; ld.local.u32 %r10, [%r9+72];
  st.global.u32 [%o+28], %r10;
  mov.u32 %r11, words; sub.u32 %r11, %r11, 100; ld.param.u32 %r12, [%r11+104]; st.global.u32 [%o+32], %r12;
  // As a generic address, and by other instructions.
  cp.async.ca.shared.global [%r2+4100], [%i], 4; cp.async.wait_all; ld.shared.u32 %r13, [%r1+4];
  st.global.u32 [%o+36], %r13;
  mbarrier.init.shared.b64 [%r2+4104], 3; mbarrier.arrive.shared.b64 %x1, [%r2+4104];
  mbarrier.pending_count.b64 %r14, %x1; st.global.u32 [%o+40], %r14;
  ret; })");
  const uint64_t i = m.buffer(std::vector<uint32_t>{4242});
  const uint64_t o = m.buffer(64 * 64);
  ASSERT_TRUE(m.ok()) << m.error().instruction << ": " << m.error().reason;
  ASSERT_EQ(m.launch("k", {1, 1, 1}, {64, 1, 1}, {i, o, uint64_t{31} << 32}).message, "");
  const auto r = m.read<uint32_t>(o, 64 * 16);
  for (uint32_t t = 0; t < 64; ++t) {
    const std::vector<uint32_t> got(&r[t * 16], &r[t * 16] + 11);
    EXPECT_EQ(got,
              (std::vector<uint32_t>{t, t, t + 7, 77, 2, 3, t % 2 == 0 ? t : 9, t, 31, 4242, 3}))
        << t;
  }
}

struct AtomicCase {
  const char* op;
  uint32_t bits;
  uint64_t (*apply)(uint64_t old, uint64_t b);
};

uint64_t add_floats(uint64_t a, uint64_t b) {
  return bits(f32(a) + f32(b));
}
uint64_t add_doubles(uint64_t a, uint64_t b) {
  return bits(f64(a) + f64(b));
}

// All threads on one word, in order of their lanes: old values and the last one are known.
TEST(Memory, Atomics) {
  const AtomicCase cases[] = {
      {"add.u32", 32, [](uint64_t o, uint64_t b) { return o + b; }},
      {"add.s32", 32, [](uint64_t o, uint64_t b) { return o + b; }},
      {"add.u64", 64, [](uint64_t o, uint64_t b) { return o + b; }},
      {"add.f32", 32, add_floats},
      {"add.f64", 64, add_doubles},
      {"and.b32", 32, [](uint64_t o, uint64_t b) { return o & b; }},
      {"or.b32", 32, [](uint64_t o, uint64_t b) { return o | b; }},
      {"xor.b64", 64, [](uint64_t o, uint64_t b) { return o ^ b; }},
      {"min.u32", 32, [](uint64_t o, uint64_t b) { return o < b ? o : b; }},
      {"max.u64", 64, [](uint64_t o, uint64_t b) { return o > b ? o : b; }},
      {"min.s32", 32, [](uint64_t o, uint64_t b) { return int32_t(o) < int32_t(b) ? o : b; }},
      {"max.s64", 64, [](uint64_t o, uint64_t b) { return int64_t(o) > int64_t(b) ? o : b; }},
      {"exch.b32", 32, [](uint64_t, uint64_t b) { return b; }},
      {"exch.b64", 64, [](uint64_t, uint64_t b) { return b; }},
      {"exch.u32", 32, [](uint64_t, uint64_t b) { return b; }},
      {"exch.s64", 64, [](uint64_t, uint64_t b) { return b; }},
      {"add.s64", 64, [](uint64_t o, uint64_t b) { return o + b; }},
      {"and.b64", 64, [](uint64_t o, uint64_t b) { return o & b; }},
      {"or.b64", 64, [](uint64_t o, uint64_t b) { return o | b; }},
      {"xor.b32", 32, [](uint64_t o, uint64_t b) { return o ^ b; }},
      {"max.u32", 32, [](uint64_t o, uint64_t b) { return o > b ? o : b; }},
      {"min.u64", 64, [](uint64_t o, uint64_t b) { return o < b ? o : b; }},
      {"max.s32", 32, [](uint64_t o, uint64_t b) { return int32_t(o) > int32_t(b) ? o : b; }},
      {"min.s64", 64, [](uint64_t o, uint64_t b) { return int64_t(o) < int64_t(b) ? o : b; }},
      {"inc.u32", 32, [](uint64_t o, uint64_t b) { return o >= b ? 0 : o + 1; }},
      {"dec.u32", 32, [](uint64_t o, uint64_t b) { return o == 0 || o > b ? b : o - 1; }}};
  for (const AtomicCase& c : cases) {
    for (const std::string space : {".global", ".shared", ""}) {
      for (const bool reduction : {false, true}) {
        const std::string name = c.op;
        if (reduction && name.substr(0, 4) == "exch") continue;
        const std::string w = std::to_string(c.bits);
        const std::string b = name.find(".f") != std::string::npos ? (c.bits == 32 ? "%f1" : "%d1")
                                                                   : (c.bits == 32 ? "%r1" : "%x1");
        const std::string old = name.find(".f") != std::string::npos
                                    ? (c.bits == 32 ? "%f2" : "%d2")
                                    : (c.bits == 32 ? "%r2" : "%x2");
        const std::string word = space == ".shared" ? "%x7" : "%o";
        std::string text = kBegin +
                           ".shared .align 8 .b64 ours; mov.u64 %x7, ours; mul.wide.u32 %x3, %t, "
                           "8; add.u64 %x4, %i, %x3;";
        text +=
            "ld.global.b64 %x5, [%o]; setp.eq.u32 %q, %t, 0; @%q st.shared.b64 [ours], %x5; "
            "bar.sync 0;";
        text += "ld.global.b" + w + " " + b + ", [%x4];";
        text += reduction ? "red" + space + "." + name + " [" + word + "], " + b + ";"
                          : "atom" + space + "." + name + " " + old + ", [" + word + "], " + b +
                                "; st.global.b" + w + " [%x4], " + old + ";";
        text += "bar.sync 0; ld.shared.b64 %x5, [ours];";
        if (space == ".shared") text += "@%q st.global.b64 [%o], %x5;";
        Machine m(text + "ret; }");
        ASSERT_TRUE(m.ok()) << text << m.error().reason;
        std::vector<uint64_t> in(32);
        for (size_t k = 0; k < in.size(); ++k) {
          in[k] = name == "add.f32"   ? bits(0.5f * static_cast<float>(k))
                  : name == "add.f64" ? bits(0.25 * static_cast<double>(k))
                                      : (k * 2654435761u) % 97 | (k % 5 == 0 ? 0x80000000u : 0) |
                                            (k % 7 == 3 ? uint64_t{1} << 63 : 0);
        }
        uint64_t value = name == "add.f32" ? bits(1.0f) : name == "add.f64" ? bits(1.0) : 50;
        const uint64_t i = m.buffer(in);
        const uint64_t o = m.buffer(std::vector<uint64_t>{value});
        ASSERT_EQ(launch(m, {i, o}, 32).message, "") << text;
        const uint64_t low = c.bits == 64 ? ~uint64_t{0} : 0xffffffff;
        const auto olds = m.read<uint64_t>(i, 32);
        for (size_t k = 0; k < in.size(); ++k) {
          if (!reduction) {
            EXPECT_EQ(olds[k] & low, value & low) << name << space << " lane " << k;
          }
          value = c.apply(value, in[k] & low) & low;
        }
        EXPECT_EQ(m.read<uint64_t>(o, 1)[0] & low, value) << name << space;
      }
    }
  }
}

TEST(Memory, CompareAndSwap) {
  Machine m(kBegin + R"(
  add.u32 %r1, %t, 1; atom.global.cas.b32 %r2, [%o], %t, %r1;
  cvt.u64.u32 %x1, %t; add.u64 %x2, %x1, 3; atom.cas.b64 %x3, [%o+8], %x1, %x2; ret; })");
  const uint64_t o = m.buffer(16);
  ASSERT_EQ(launch(m, {0, o}).message, "");
  EXPECT_EQ(m.read<uint32_t>(o, 1)[0], 64u);
  // 0 -> 3 -> 6 -> ... as the lanes come: lane 3 finds 3.
  EXPECT_EQ(m.read<uint64_t>(o, 2)[1], 66u);
}

TEST(Memory, AtomicFloatsFlushInGlobalMemoryOnly) {
  Machine m(kBegin + R"(
  .shared .f32 ours; setp.eq.u32 %q, %t, 0; @!%q bra E;
  mov.f32 %f1, 0f00000003; st.shared.f32 [ours], 0f00000001;
  red.global.add.f32 [%o], %f1; red.shared.add.f32 [ours], %f1; ld.shared.f32 %f2, [ours]; st.global.f32 [%o+4], %f2;
E: ret; })");
  const uint64_t o = m.buffer(std::vector<uint32_t>{1, 0});
  ASSERT_EQ(launch(m, {0, o}).message, "");
  EXPECT_EQ(m.read<uint32_t>(o, 2), (std::vector<uint32_t>{0, 4}));
}

TEST(Fault, OutOfBoundsIsLocated) {
  Machine m(kBegin +
            "mul.wide.u32 %x1, %t, 4; add.u64 %x1, %x1, %i;\nst.global.u32 [%x1], %t;\nret; }");
  const uint64_t i = m.buffer(40 * 4);
  const Fault fault = launch(m, {i, 0});
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
  for (const char* part :
       {"kernel k", "line ", "st.global.u32 [%x1], %t", "block (0,0,0)", "thread (40,0,0)",
        "write of 4 bytes", "0xa000000000a0", "0 bytes after the end of allocation", "160 bytes"}) {
    EXPECT_NE(fault.message.find(part), std::string::npos) << part << " in: " << fault.message;
  }
  // The work before the fault, in the block's order, was done.
  EXPECT_EQ(m.read<uint32_t>(i, 32)[31], 31u);
}

struct WrongAccess {
  const char* code;
  Fault::Kind kind;
  const char* part;
};

TEST(Fault, EveryKindOfWrongAccess) {
  const auto address = Fault::Kind::kIllegalAddress;
  const WrongAccess cases[] = {
      {"ld.global.u32 %r1, [%i+2];", Fault::Kind::kMisalignedAddress, "misaligned"},
      {"ld.global.v2.u32 {%r1,%r2}, [%i+4];", Fault::Kind::kMisalignedAddress, "misaligned"},
      {"ld.global.u64 %x1, [%i+64];", address, "after the end"},
      {"ld.global.u32 %r1, [%i+-4];", address, "before allocation"},
      {"st.global.u32 [%o], %r1;", address, "read-only"},
      {"atom.global.add.u32 %r1, [%o], 1;", address, "read-only"},
      {"mov.u64 %x1, 0; ld.u32 %r1, [%x1];", address, "address 0x0"},
      {"st.shared.u32 [%r0+1024], %r1;", address, "shared address 0x400"},
      {"mov.u32 %r1, 64; ld.local.u32 %r2, [%r1];", address, "local address"},
      {"mov.u64 %x1, 16; ld.param.u32 %r2, [%x1];", address, "parameter offset 0x10"},
      {"mov.u32 %r1, -4; ld.shared.u32 %r2, [%r1];", address, "shared address 0xfffffffc"},
      {"mov.u32 %r1, -68; ld.shared.u32 %r2, [%r1+64];", address, "shared address 0xfffffffc"},
      {"mov.u32 %r1, 60; ld.shared.u32 %r2, [%r1-64];", address, "shared address 0xfffffffc"},
      {"mov.u32 %r1, -68; ld.shared.u32 %r2, [%r1+1092];", address, "shared address 0x400"},
      {"mov.u32 %r1, -8; st.shared.v2.u32 [%r1], {%r2, %r2};", address,
       "shared address 0xfffffff8"},
      {"mov.u32 %r1, -4; atom.shared.add.u32 %r2, [%r1+1028], 1;", address, "shared address 0x400"},
      {"mov.u32 %r1, -4; red.shared.add.u32 [%r1], 1;", address, "shared address 0xfffffffc"},
      {"mov.u32 %r1, -4; cp.async.ca.shared.global [%r1+1028], [%i], 4;", address,
       "shared address 0x400"},
      {"mov.u32 %r1, -4; st.local.u32 [%r1], %r2;", address, "local address 0xfffffffc"},
      {"mov.u32 %r1, -4; ld.param.u32 %r2, [%r1+20];", address, "parameter offset 0x10"},
      // Other addresses have 64 bits.
      {"mov.u32 %r1, -64; ld.global.u32 %r2, [%r1+68];", address, "address 0x100000004"},
      {"mov.u64 %x1, 4294967232; ld.shared.u32 %r2, [%x1+68];", address, "address"},
  };
  for (const WrongAccess& c : cases) {
    Machine m(kBegin +
              ".shared .b8 ours[1024]; .local .b8 mine[16]; mov.u64 %x7, ours; mov.u64 %x7, mine;" +
              c.code + " ret; }");
    const uint64_t i = m.buffer(64);
    const uint64_t o = m.buffer(64, false);
    const Fault fault = launch(m, {i, o});
    EXPECT_EQ(fault.kind, c.kind) << c.code << ": " << fault.message;
    EXPECT_NE(fault.message.find(c.part), std::string::npos) << c.code << ": " << fault.message;
    EXPECT_EQ(fault.message.find('\n'), std::string::npos);
  }
}

TEST(Fault, LanesThatAreSwitchedOffDoNotFault) {
  Machine m(kBegin + R"(
  setp.eq.u32 %q, %t, 37; mov.u64 %x1, 0; selp.b64 %x2, %o, %x1, %q; @%q st.global.u32 [%x2], %t;
  @!%q bra E; ld.u32 %r1, [%x2]; add.u32 %r1, %r1, 1; st.u32 [%x2], %r1;
E: ret; })");
  const uint64_t o = m.buffer(4);
  ASSERT_EQ(launch(m, {0, o}).message, "");
  EXPECT_EQ(m.read<uint32_t>(o, 1)[0], 38u);
}

TEST(Decode, WhatIsNotKnownIsRefused) {
  for (const char* code :
       {"frobnicate.u32 %d, %a;",
        "add.u32.what %d, %a, %b;",
        "add.b32 %d, %a, %b;",
        "add.u8 %d, %a, %b;",
        "mul.u32 %d, %a, %b;",
        "add.sat.u32 %d, %a, %b;",
        "mul.wide.u64 %d, %a, %b;",
        "shl.u32 %d, %a, %b;",
        "cvt.u32.f32 %d, %a;",
        "cvt.rn.u32.f32 %d, %a;",
        "cvt.f32.s32 %d, %a;",
        "setp.xx.u32 %d, %a, %b;",
        "div.f32.rn.approx %d, %a, %b;",
        "rcp.f32 %d, %a;",
        "sin.f32 %d, %a;",
        "add.u32 %d, %a;",
        "add.u32 %d, %a, %b, %b;",
        "tex.2d.v4.f32.f32 %d, %a;",
        "ld.global.b128 %d, [%a];",
        "wmma.load %d, %a;",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f64 {%d}, [%a], %b;",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%d}, {%a}, {%b}, {%a};",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %d, %a, %b, %a;",
        "wgmma.fence.sync.aligned;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [%b], 16;",
        "cp.async.ca.shared.global [%a], [%b], 12;",
        "cp.async.cg.shared.global [%a], [%b], 8;",
        "cp.async.bulk.tensor.1d.shared::cluster.global [%a], [%b], 16;",
        "multimem.red.relaxed.sys.global.add.u32 [%a], %b;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%a], %b, [%a];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%a], %b, "
        "[%a];",
        "min.xorsign.abs.f32 %d, %a, %b;",
        "alloca.u64 %d, %a;",
        "atom.global.cas.f32 %d, [%a], %b, %b;",
        "st.const.u32 [%a], %b;",
        "add.f32 %d, %a, 1;",
        "mov.u32 %d, %pm0;",
        "neg.u32 %d, %a;",
        "lop3.b32 %d, %a, %b, %a, 300;",
        "call (%d), %a, (%b);",
        "min.b32 %d, %a, %b;",
        "prmt.b32.zzz %d, %a, %b, %a;",
        "fma.f32 %d, %a, %b, %a;",
        "mad.f32 %d, %a, %b, %a;",
        "div.f32 %d, %a, %b;",
        "div.full.rn.f32 %d, %a, %b;",
        "sub.u16x2 %d, %a, %b;",
        "add.sat.s16x2 %d, %a, %b;",
        "add.cc.u16x2 %d, %a, %b;",
        "mad24.lo.sat.s32 %d, %a, %b, %a;",
        "mad24.hi.sat.u32 %d, %a, %b, %a;"}) {
    EXPECT_NE(decode_error(code, "b32 b32 b32"), "") << code;
  }
  // Sizes that do not agree.
  EXPECT_NE(decode_error("add.u32 %d, %a, %b;", "b32 b64 b32"), "");
  EXPECT_NE(decode_error("add.u64 %d, %a, %b;", "b32 b64 b64"), "");
  EXPECT_NE(decode_error("ld.global.u64 %d, [%a];", "b32 b64"), "");
  EXPECT_NE(decode_error("st.global.u64 [%a], %b;", "b32 b64 b32"), "");
}

TEST(Decode, TheErrorNamesLineAndInstruction) {
  Machine m(
      ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n"
      "mov.u32 %r1, 0;\nadd.odd.u32 %r1, %r1, 1;\nret; }");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.error().line, 7u);
  EXPECT_EQ(m.error().instruction, "add.odd.u32 %r1, %r1, 1");
  EXPECT_NE(m.error().reason.find("odd"), std::string::npos);
}

TEST(Decode, SharedMemoryOfKernelsOverlaps) {
  Machine m(R"(
.shared .align 4 .b8 both[100];
.func helper() { .shared .align 4 .b8 inner[40]; .reg .b64 %x; mov.u64 %x, inner; ret; }
.visible .entry one() { .shared .align 16 .b8 a[1000]; .reg .b64 %x; mov.u64 %x, both; mov.u64 %x, a; ret; }
.visible .entry two() { .shared .align 16 .b8 b[2000]; .reg .b64 %x; mov.u64 %x, b; call helper; ret; }
)");
  ASSERT_TRUE(m.ok()) << m.error().reason;
  const uint64_t one = info(*m.program().kernel("one")).static_shared_bytes;
  const uint64_t two = info(*m.program().kernel("two")).static_shared_bytes;
  EXPECT_GE(one, 1100u);
  EXPECT_LT(one, 1200u);
  EXPECT_GE(two, 2040u);
  EXPECT_LT(two, 2200u);
}

}  // namespace
}  // namespace simcuda::test::memory_test
