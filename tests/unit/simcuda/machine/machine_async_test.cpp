// Copies that go on by themselves, the barriers that count them, clusters, and what a cooperative
// launch gives its blocks.
#include <algorithm>
#include <array>

#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::async_test {
namespace {

constexpr uint32_t kThreads = 64;

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> list(count);
  for (size_t i = 0; i < count; ++i) list[i] = static_cast<uint32_t>(1000 + i * 3);
  return list;
}

constexpr const char* kBegin = R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .pred %p, %q; .reg .b32 %r<30>; .reg .b64 %x<20>;
  .shared .align 128 .b8 sh[4096]; .shared .align 8 .b8 bar[16];
  ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; mov.u32 %r0, %tid.x;
  cvta.to.global.u64 %x1, %x1; mad.wide.u32 %x3, %r0, 16, %x1; mad.wide.u32 %x4, %r0, 16, %x2;
  mov.u32 %r1, sh; mad.lo.u32 %r2, %r0, 16, %r1; mov.u32 %r3, bar;
)";
constexpr const char* kEnd = R"(
  ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r2];
  st.global.v4.u32 [%x4], {%r20, %r21, %r22, %r23}; ret; }
)";

std::vector<uint32_t> run(const std::string& code, const std::vector<uint32_t>& in,
                          const char* end = kEnd) {
  Machine machine(kBegin + code + end);
  EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  if (!machine.ok()) return std::vector<uint32_t>(kThreads * 4);
  const uint64_t from = machine.buffer(in), to = machine.buffer(kThreads * 16);
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {kThreads, 1, 1}, {from, to}).message, "");
  return machine.read<uint32_t>(to, kThreads * 4);
}

TEST(Async, CopiesToSharedMemory) {
  const auto in = numbers(kThreads * 4);
  EXPECT_EQ(run("cp.async.cg.shared.global [%r2], [%x3], 16; cp.async.commit_group;"
                "cp.async.wait_group 0; bar.sync 0;",
                in),
            in);
  EXPECT_EQ(run("cp.async.ca.shared::cta.global.L2::128B [%r2], [%x3], 8;"
                "cp.async.ca.shared.global [%r2+8], [%x3+8], 4;"
                "cp.async.ca.shared.global [%r2+12], [%x3+12], 4; cp.async.wait_all; bar.sync 0;",
                in),
            in);
  // A generic address of shared memory.
  EXPECT_EQ(
      run("mov.u64 %x8, sh; cvta.shared.u64 %x8, %x8; mad.wide.u32 %x8, %r0, 16, %x8; "
          "cvta.to.shared.u64 %x8, %x8;"
          "createpolicy.fractional.L2::evict_first.b64 %x9, 1.0;"
          "cp.async.cg.shared.global.L2::cache_hint [%x8], [%x3], 16, %x9; cp.async.wait_all;",
          in),
      in);
}

// Only so many bytes of the source are looked at, the rest is zero; a thread's number are copied.
TEST(Async, CopiesLessThanAll) {
  std::vector<uint32_t> in = numbers(kThreads * 4);
  const auto got =
      run("and.b32 %r4, %r0, 31; cp.async.cg.shared.global [%r2], [%x3], 16, %r4;", in);
  for (uint32_t t = 0; t < kThreads; ++t) {
    std::array<std::byte, 16> want{};
    std::memcpy(want.data(), &in[t * 4], std::min(t & 31, 16u));
    EXPECT_EQ(std::memcmp(want.data(), &got[t * 4], 16), 0) << t;
  }
  const auto some =
      run("and.b32 %r4, %r0, 1; setp.eq.u32 %p, %r4, 1;"
          "cp.async.ca.shared.global [%r2], [%x3], 16, !%p;",
          in);
  for (uint32_t t = 0; t < kThreads; ++t)
    EXPECT_EQ(some[t * 4], (t & 1) != 0 ? in[t * 4] : 0u) << t;
  // Bytes that are not copied may lie beyond the end of memory.
  in.resize((kThreads - 1) * 4 + 1);
  const auto last =
      run("mov.u32 %r4, 16; setp.eq.u32 %p, %r0, 63; @%p mov.u32 %r4, 4;"
          "cp.async.cg.shared.global [%r2], [%x3], 16, %r4;",
          in);
  EXPECT_EQ(last[(kThreads - 1) * 4], in.back());
}

TEST(Async, CopiesAreChecked) {
  Machine machine(std::string(kBegin) + "cp.async.ca.shared.global [%r2+4], [%x3], 8;" + kEnd);
  ASSERT_TRUE(machine.ok()) << machine.error().reason;
  const uint64_t from = machine.buffer(numbers(256)), to = machine.buffer(kThreads * 16);
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {kThreads, 1, 1}, {from, to}).kind,
            Fault::Kind::kMisalignedAddress);
  Machine beyond(std::string(kBegin) + "cp.async.cg.shared.global [%r2], [%x3], 16;" + kEnd);
  const uint64_t small = beyond.buffer(numbers(kThreads * 4 - 1));
  const uint64_t out = beyond.buffer(kThreads * 16);
  EXPECT_EQ(beyond.launch("k", {1, 1, 1}, {kThreads, 1, 1}, {small, out}).kind,
            Fault::Kind::kIllegalAddress);
}

constexpr const char* kInit =
    "setp.eq.u32 %q, %r0, 0; @%q mbarrier.init.shared::cta.b64 [%r3], 64; bar.sync 0;\n";

// Each thread writes, arrives, waits, and reads what another wrote.
TEST(Async, BarriersOrderWritesAndReads) {
  const char* const kSwap =
      "xor.b32 %r9, %r0, 33; mad.lo.u32 %r9, %r9, 16, %r1; ld.shared.u32 %r20, [%r9];\n"
      "bar.sync 0; st.shared.u32 [%r2], %r20;\n";
  for (const char* wait :
       {"mbarrier.arrive.shared::cta.b64 %x9, [%r3];\nW: mbarrier.test_wait.shared.b64 %p, [%r3], "
        "%x9; @!%p bra W;\n",
        "mbarrier.arrive.release.cta.shared::cta.b64 %x9, [%r3], 1;\nW: "
        "mbarrier.try_wait.shared.b64 %p, [%r3], %x9, 20; @!%p bra W;\n",
        "mbarrier.arrive.shared.b64 _, [%r3];\nW: "
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p, [%r3], 0; @!%p bra W;\n",
        "cp.async.mbarrier.arrive.shared.b64 [%r3]; cp.async.mbarrier.arrive.noinc.shared.b64 "
        "[%r3];\n"
        "W: mbarrier.test_wait.parity.shared.b64 %p, [%r3], 0; @!%p bra W;\n"}) {
    const auto got = run(
        std::string(kInit) + "mul.lo.u32 %r10, %r0, 7; st.shared.u32 [%r2], %r10;\n" + wait + kSwap,
        numbers(256));
    for (uint32_t t = 0; t < kThreads; ++t) ASSERT_EQ(got[t * 4], (t ^ 33) * 7) << wait << t;
  }
}

// The answers of the instructions on a barrier, step by step, for one thread.
TEST(Async, BarriersCountArrivalsAndBytes) {
  Machine machine(R"(
.visible .entry k(.param .u64 out) {
  .reg .pred %p; .reg .b32 %r<20>; .reg .b64 %x<20>; .shared .align 8 .b8 bar[8];
  ld.param.u64 %x1, [out]; mov.u32 %r3, bar;
  mbarrier.init.shared.b64 [%r3], 3;
  mbarrier.arrive.shared.b64 %x2, [%r3];
  mbarrier.pending_count.b64 %r1, %x2; st.global.u32 [%x1], %r1;
  mbarrier.arrive.noComplete.shared.b64 %x2, [%r3], 1;
  mbarrier.pending_count.b64 %r1, %x2; st.global.u32 [%x1+4], %r1;
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+8], %r1;
  mbarrier.arrive.expect_tx.shared::cta.b64 %x2, [%r3], 32;
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+12], %r1;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 16;
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+16], %r1;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 16;
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+20], %r1;
  mbarrier.test_wait.parity.shared.b64 %p, [%r3], 1; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+24], %r1;
  mbarrier.arrive_drop.shared.b64 %x2, [%r3];
  mbarrier.arrive.shared.b64 %x2, [%r3], 2;
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+28], %r1;
  mbarrier.arrive.shared.b64 %x2, [%r3];
  mbarrier.pending_count.b64 %r1, %x2; st.global.u32 [%x1+32], %r1;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 8;
  mbarrier.arrive.shared.b64 %x2, [%r3];
  mbarrier.test_wait.shared.b64 %p, [%r3], %x2; selp.u32 %r1, 1, 0, %p; st.global.u32 [%x1+36], %r1;
  mbarrier.inval.shared.b64 [%r3]; ret; }
)");
  ASSERT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  const uint64_t out = machine.buffer(40);
  ASSERT_EQ(machine.launch("k", {1, 1, 1}, {1, 1, 1}, {out}).message, "");
  EXPECT_EQ(machine.read<uint32_t>(out, 10), (std::vector<uint32_t>{3, 2, 0, 0, 0, 1, 0, 1, 2, 0}));
}

TEST(Async, BulkCopiesBothWays) {
  const auto in = numbers(kThreads * 4);
  const std::string wait =
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r3], 0; @!%p bra W;\n";
  const std::string fetch = std::string(kInit) +
                            "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;\n"
                            "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                            "[%r1], [%x1], 1024, [%r3];\n"
                            "@!%q mbarrier.arrive.shared.b64 _, [%r3];\n" +
                            wait;
  EXPECT_EQ(run(fetch, in), in);
  const char* const kStore =
      "fence.proxy.async.shared::cta; bar.sync 0;\n"
      "@%q cp.async.bulk.global.shared::cta.bulk_group [%x2], [%r1], 1024;\n"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; ret; }\n";
  EXPECT_EQ(run(fetch, in, kStore), in);
  // Within the block, to the second kilobyte.
  const std::string within =
      fetch +
      "add.u32 %r5, %r1, 1024; add.u32 %r6, %r3, 8; @%q mbarrier.init.shared.b64 [%r6], 1; "
      "bar.sync 0;\n"
      "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;\n"
      "@%q cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r1], "
      "1024, [%r6];\n"
      "V: mbarrier.try_wait.parity.shared::cta.b64 %p, [%r6], 0; @!%p bra V; add.u32 %r2, %r2, "
      "1024;\n";
  EXPECT_EQ(run(within, in), in);
}

// Lanes that go through one instruction with different members are told only of their own.
TEST(Members, AreThoseThatEachLaneNames) {
  const auto got = run(R"(
  and.b32 %r4, %r0, 31; shr.u32 %r5, %r4, 3; shl.b32 %r5, %r5, 3; mov.u32 %r6, 255; shl.b32 %r6, %r6, %r5;
  redux.sync.add.u32 %r10, %r0, %r6;
  and.b32 %r7, %r0, 3; setp.eq.u32 %p, %r7, 1; vote.sync.ballot.b32 %r11, %p, %r6;
  setp.lt.u32 %p, %r4, 8; vote.sync.all.pred %p, %p, %r6; selp.u32 %r12, 1, 0, %p;
  match.any.sync.b32 %r13, %r7, %r6; elect.sync %r14|%p, %r6; @%p add.u32 %r12, %r12, 2;
  st.shared.v4.u32 [%r2], {%r10, %r11, %r12, %r13};
)",
                       numbers(256));
  for (uint32_t t = 0; t < kThreads; ++t) {
    const uint32_t lane = t % 32, first = t / 8 * 8, shift = lane / 8 * 8;
    EXPECT_EQ(got[t * 4], first * 8 + 28) << t;
    EXPECT_EQ(got[t * 4 + 1], 0x22u << shift) << t;
    EXPECT_EQ(got[t * 4 + 2], (lane < 8 ? 1u : 0u) + (t % 8 == 0 ? 2u : 0u)) << t;
    EXPECT_EQ(got[t * 4 + 3], 0x11u << (t % 4) << shift) << t;
  }
}

TEST(Cluster, IsOneBlock) {
  const auto got = run(R"(
  mov.u32 %r10, %cluster_ctarank; mov.u32 %r11, %cluster_nctarank; mov.u32 %r12, %nclusterid.x;
  st.shared.u32 [%r2], %r0; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  xor.b32 %r4, %r0, 40; mad.lo.u32 %r5, %r4, 16, %r1; mapa.shared::cluster.u32 %r5, %r5, %r10;
  ld.shared::cluster.u32 %r13, [%r5]; getctarank.shared::cluster.u32 %r14, %r5;
  elect.sync _|%p, -1; selp.u32 %r15, 100, 0, %p;
  barrier.cluster.arrive; barrier.cluster.wait;
  add.u32 %r13, %r13, %r15; st.shared.v4.u32 [%r2], {%r13, %r11, %r12, %r14};
  griddepcontrol.wait; griddepcontrol.launch_dependents;
)",
                       numbers(256));
  for (uint32_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(got[t * 4], (t ^ 40) + (t % 32 == 0 ? 100 : 0)) << t;
    EXPECT_EQ(got[t * 4 + 1], 1u);
    EXPECT_EQ(got[t * 4 + 2], 1u);
    EXPECT_EQ(got[t * 4 + 3], 0u);
  }
}

// Reserved shared memory lies behind the block's own, which is not reached into.
TEST(Cluster, ReservedSharedMemoryIsTheBlocksToUse) {
  const auto got = run(
      "st.shared.u32 [%r2], %r0; mov.u32 %r5, %reserved_smem_offset_1; mad.lo.u32 %r5, %r0, 4, %r5;"
      "shl.b32 %r6, %r0, 8; st.shared.u32 [%r5], %r6; bar.sync 0; ld.shared.u32 %r7, [%r5];"
      "ld.shared.u32 %r8, [%r2]; add.u32 %r7, %r7, %r8; st.shared.u32 [%r2], %r7;",
      numbers(256));
  for (uint32_t t = 0; t < kThreads; ++t) EXPECT_EQ(got[t * 4], t * 256 + t);
}

// As NVIDIA's headers do it: a counter in the workspace that the environment registers point to.
constexpr const char* kGridBarrier = R"(
.visible .entry k(.param .u64 out) {
  .reg .pred %p; .reg .b32 %r<20>; .reg .b64 %x<20>;
  ld.param.u64 %x1, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %tid.x;
  mov.u32 %r3, %envreg1; mov.u32 %r4, %envreg2; mov.b64 %x2, {%r4, %r3};
  setp.eq.u64 %p, %x2, 0; @%p trap;
  ld.u32 %r9, [%x2]; setp.lt.u32 %p, %r9, 8; @%p trap;
  setp.ne.u32 %p, %r2, 0; mad.wide.u32 %x3, %r0, 4, %x1; @%p bra WAIT;
  st.global.u32 [%x3], %r0;
  atom.add.release.gpu.u32 %r5, [%x2+4], 1;
SPIN: ld.acquire.gpu.u32 %r6, [%x2+4]; setp.lt.u32 %p, %r6, %r1; @%p bra SPIN;
WAIT: bar.sync 0;
  setp.ne.u32 %p, %r2, 0; @%p ret;
  add.u32 %r7, %r0, 1; rem.u32 %r7, %r7, %r1; mad.wide.u32 %x4, %r7, 4, %x1; ld.global.u32 %r8, [%x4];
  mad.wide.u32 %x5, %r1, 4, %x3; st.global.u32 [%x5], %r8; ret; }
)";

TEST(Cooperative, BlocksWaitForOneAnother) {
  constexpr uint32_t kBlocks = 24;
  Machine machine(kGridBarrier);
  ASSERT_TRUE(machine.ok()) << machine.error().reason;
  machine.cooperative = true;
  for (int again = 0; again < 2; ++again) {
    const uint64_t out = machine.buffer(kBlocks * 8);
    ASSERT_EQ(machine.launch("k", {kBlocks, 1, 1}, {kThreads, 1, 1}, {out}).message, "");
    const auto got = machine.read<uint32_t>(out, kBlocks * 2);
    for (uint32_t b = 0; b < kBlocks; ++b) EXPECT_EQ(got[kBlocks + b], (b + 1) % kBlocks);
  }
  machine.cooperative = false;
  const uint64_t out = machine.buffer(kBlocks * 8);
  EXPECT_EQ(machine.launch("k", {1, 1, 1}, {kThreads, 1, 1}, {out}).kind, Fault::Kind::kTrap);
}

}  // namespace
}  // namespace simcuda::test::async_test
