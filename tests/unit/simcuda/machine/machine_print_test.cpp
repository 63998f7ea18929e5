// Printing by kernels, and assertions that fail.
#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::print_test {
namespace {

std::string bytes_of(const std::string& text) {
  std::string list;
  for (const char c : text) list += std::to_string(static_cast<int>(c)) + ", ";
  return "{" + list + "0}";
}

// Two threads print `format`; `arguments` fills the 64 bytes at [%x9], whose lane is in %r0.
std::string printed(const std::string& format, const std::string& arguments) {
  Machine machine(
      ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
      ".global .align 1 .b8 format[] = " +
      bytes_of(format) +
      ";\n"
      ".global .align 1 .b8 word[] = " +
      bytes_of("word") +
      ";\n"
      ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %x<12>; .reg .f64 %d<3>;\n"
      ".local .align 8 .b8 place[64]; .reg .b64 %SP;\n"
      "ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mov.u64 %x9, place; mov.u64 %x2, word; "
      "cvta.global.u64 %x2, %x2;\n" +
      arguments +
      "cvta.local.u64 %x9, %x9; mov.u64 %x8, format; cvta.global.u64 %x8, %x8;\n"
      "{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %x8; st.param.b64 [p1], "
      "%x9;\n"
      "call.uni (q), vprintf, (p0, p1); ld.param.b32 %r1, [q]; }\n"
      "mad.wide.u32 %x1, %r0, 4, %x1; st.global.u32 [%x1], %r1; ret; }");
  EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  if (!machine.ok()) return {};
  const uint64_t out = machine.buffer(8);
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {2, 1, 1}, {out}).message, "");
  return machine.printed + " " + std::to_string(machine.read<int32_t>(out, 2)[1]);
}

TEST(Print, Text) {
  EXPECT_EQ(printed("a\n", ""), "a\na\n 0");
  EXPECT_EQ(printed("100%% %y\n", ""), "100% %y\n100% %y\n 0");
}

TEST(Print, Numbers) {
  EXPECT_EQ(printed("%d,%5u|%-4x|%c;",
                    "sub.u32 %r2, %r0, 3; st.local.u32 [%x9], %r2; st.local.u32 [%x9+4], 77;"
                    "st.local.u32 [%x9+8], 255; st.local.u32 [%x9+12], 65;"),
            "-3,   77|ff  |A;-2,   77|ff  |A; 4");
  // Arguments of eight bytes lie at multiples of eight.
  EXPECT_EQ(printed("%d %lld %f %.2e %g\n",
                    "st.local.u32 [%x9], %r0; mov.u64 %x3, -5000000000; st.local.u64 [%x9+8], %x3;"
                    "mov.f64 %d1, 1.5; st.local.f64 [%x9+16], %d1; st.local.f64 [%x9+24], %d1; "
                    "st.local.f64 [%x9+32], %d1;"),
            "0 -5000000000 1.500000 1.50e+00 1.5\n1 -5000000000 1.500000 1.50e+00 1.5\n 5");
  EXPECT_EQ(printed("[%*d|%.*f]",
                    "st.local.u32 [%x9], 6; st.local.u32 [%x9+4], 42; st.local.u32 [%x9+8], 3;"
                    "mov.f64 %d1, 0.25; st.local.f64 [%x9+16], %d1;"),
            "[    42|0.250][    42|0.250] 4");
}

TEST(Print, StringsAndPointers) {
  EXPECT_EQ(
      printed("<%s|%6s|%.2s>",
              "st.local.u64 [%x9], %x2; st.local.u64 [%x9+8], %x2; st.local.u64 [%x9+16], %x2;"),
      "<word|  word|wo><word|  word|wo> 3");
  EXPECT_EQ(
      printed("%s %p.", "st.local.u64 [%x9], 0; mov.u64 %x3, 4096; st.local.u64 [%x9+8], %x3;"),
      "(null) 0x1000.(null) 0x1000. 2");
  // A text that is nowhere is no reason to fail.
  EXPECT_EQ(printed("%s.", "mov.u64 %x3, 12345; st.local.u64 [%x9], %x3;"), "?.?. 1");
}

}  // namespace
}  // namespace simcuda::test::print_test
