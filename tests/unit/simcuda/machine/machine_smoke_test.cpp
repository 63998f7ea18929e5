// The machine as a whole: small kernels whose results are known.
#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::smoke_test {
namespace {

TEST(Smoke, AddsOneToEveryElement) {
  Machine m(R"(
.visible .entry inc(.param .u64 p, .param .u32 n) {
  .reg .pred %q; .reg .b32 %r<6>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %q, %r5, %r1;
  @%q bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r4, [%rd4];
  add.s32 %r4, %r4, 1;
  st.global.u32 [%rd4], %r4;
DONE: ret;
})");
  ASSERT_TRUE(m.ok()) << m.error().reason;
  std::vector<uint32_t> values(1000);
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = i * 3;
  const uint64_t p = m.buffer(values);
  const Fault fault = m.launch("inc", {4, 1, 1}, {256, 1, 1}, {p, values.size()});
  ASSERT_EQ(fault.kind, Fault::Kind::kNone) << fault.message;
  const auto after = m.read<uint32_t>(p, values.size());
  for (uint32_t i = 0; i < values.size(); ++i) ASSERT_EQ(after[i], i * 3 + 1);
  EXPECT_EQ(m.counters.launches.load(), 1u);
  EXPECT_GT(m.counters.thread_instructions.load(), 10000u);
}

TEST(Smoke, OneInstruction) {
  const auto r =
      evaluate("add.s32 %d, %a, %b;", "b32 b32 b32", {{1, 2, 0, 0}, {0xffffffff, 1, 0, 0}});
  EXPECT_EQ(r[0], 3u);
  EXPECT_EQ(r[1], 0u);
}

}  // namespace
}  // namespace simcuda::test::smoke_test
