// Branches, loops, calls, barriers and what the lanes of a warp do together.
#include <algorithm>
#include <array>
#include <bit>
#include <thread>

#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::control_test {
namespace {

// Runs a kernel of one parameter, an array of words, one thread for each.
std::vector<uint32_t> run_words(const std::string& text, Dim3 grid, Dim3 block, size_t count,
                                uint64_t shared = 0, Fault* fault_out = nullptr) {
  Machine m(text);
  EXPECT_TRUE(m.ok()) << m.error().line << " " << m.error().instruction << ": " << m.error().reason;
  if (!m.ok()) return std::vector<uint32_t>(count);
  const uint64_t p = m.buffer(count * 4);
  const Fault fault = m.launch("k", grid, block, {p}, shared);
  if (fault_out != nullptr) {
    *fault_out = fault;
  } else {
    EXPECT_EQ(fault.kind, Fault::Kind::kNone) << fault.message;
  }
  return m.read<uint32_t>(p, count);
}

// Begins a kernel: %t the thread in the block, %i in the grid, %p its word's address.
const std::string kBegin = R"(
.visible .entry k(.param .u64 p) {
  .reg .pred %q<9>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b64 %p; .reg .b32 %t, %i, %l;
  mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; mov.u32 %r0, %ntid.x; mad.lo.u32 %i, %i, %r0, %t;
  mov.u32 %l, %laneid;
  ld.param.u64 %p, [p]; mul.wide.u32 %rd0, %i, 4; add.u64 %p, %p, %rd0;
)";

TEST(Control, LoopsOfDifferentLengths) {
  const auto r = run_words(kBegin + R"(
  mov.u32 %r1, 0; mov.u32 %r2, 0;
LOOP: setp.ge.u32 %q1, %r1, %i; @%q1 bra OUT;
  add.u32 %r1, %r1, 1; add.u32 %r2, %r2, %r1; bra.uni LOOP;
OUT: st.global.u32 [%p], %r2; ret; })",
                           {2, 1, 1}, {96, 1, 1}, 192);
  for (uint32_t i = 0; i < 192; ++i) EXPECT_EQ(r[i], i * (i + 1) / 2);
}

TEST(Control, NestedBranchesMeetAgain) {
  // After the branches all 32 lanes are together: activemask says so.
  const auto r = run_words(kBegin + R"(
  and.b32 %r1, %t, 1; setp.eq.u32 %q1, %r1, 0; @%q1 bra EVEN;
  and.b32 %r2, %t, 2; setp.eq.u32 %q2, %r2, 0; @%q2 bra A;
  mov.u32 %r3, 30; bra B;
A: mov.u32 %r3, 10;
B: bra JOIN;
EVEN: mov.u32 %r3, 20;
JOIN: activemask.b32 %r4; setp.eq.u32 %q3, %r4, -1; @!%q3 mov.u32 %r3, 0;
  st.global.u32 [%p], %r3; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], i % 2 == 0 ? 20u : i & 2 ? 30u : 10u);
}

TEST(Control, BranchByIndex) {
  const std::string text = kBegin + R"(
  and.b32 %r1, %t, 3;
TS: .branchtargets L0, L1, L2, L3;
  brx.idx %r1, TS;
L0: mov.u32 %r2, 100; bra.uni E;
L1: mov.u32 %r2, 101; bra.uni E;
L2: mov.u32 %r2, 102; bra.uni E;
L3: mov.u32 %r2, 103;
E: st.global.u32 [%p], %r2; ret; })";
  const auto r = run_words(text, {1, 1, 1}, {64, 1, 1}, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(r[i], 100 + i % 4);
}

TEST(Control, BranchIndexBeyondTheListIsAFault) {
  Fault fault;
  run_words(kBegin + R"(
TS: .branchtargets L0, L1;
  brx.idx %t, TS;
L0: ret;
L1: ret; })",
            {1, 1, 1}, {32, 1, 1}, 32, 0, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalInstruction);
}

const std::string kFibonacci = R"(
.func (.param .b32 result) fib(.param .b32 n) {
  .reg .pred %q; .reg .b32 %r<6>;
  ld.param.b32 %r1, [n];
  setp.lt.u32 %q, %r1, 2; @%q bra SMALL;
  { .param .b32 a; .param .b32 x; sub.u32 %r2, %r1, 1; st.param.b32 [a], %r2;
    call.uni (x), fib, (a); ld.param.b32 %r3, [x]; }
  { .param .b32 a; .param .b32 x; sub.u32 %r2, %r1, 2; st.param.b32 [a], %r2;
    call.uni (x), fib, (a); ld.param.b32 %r4, [x]; }
  add.u32 %r1, %r3, %r4;
SMALL: st.param.b32 [result], %r1; ret;
}
)";

TEST(Control, RecursionOfDifferentDepths) {
  const auto r = run_words(kFibonacci + kBegin + R"(
  and.b32 %r1, %t, 15;
  { .param .b32 a; .param .b32 x; st.param.b32 [a], %r1; call (x), fib, (a); ld.param.b32 %r2, [x]; }
  st.global.u32 [%p], %r2; ret; })",
                           {1, 1, 1}, {64, 1, 1}, 64);
  uint32_t fib[16] = {0, 1};
  for (int i = 2; i < 16; ++i) fib[i] = fib[i - 1] + fib[i - 2];
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(r[i], fib[i % 16]);
}

TEST(Control, EndlessRecursionIsAStackOverflow) {
  Fault fault;
  run_words(R"(
.func down(.param .b32 n) {
  .reg .b32 %r<2>; .local .b32 x[64];
  ld.param.b32 %r1, [n]; st.local.b32 [x], %r1;
  { .param .b32 a; st.param.b32 [a], %r1; call down, (a); } ret; }
)" + kBegin + "{ .param .b32 a; st.param.b32 [a], %t; call down, (a); } ret; }",
            {1, 1, 1}, {32, 1, 1}, 32, 0, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kStackOverflow) << fault.message;
}

TEST(Control, CallsThroughAddresses) {
  const auto r = run_words(R"(
.func (.param .b32 o) twice(.param .b32 n) { .reg .b32 %r1; ld.param.b32 %r1, [n]; shl.b32 %r1, %r1, 1; st.param.b32 [o], %r1; ret; }
.func (.param .b32 o) square(.param .b32 n) { .reg .b32 %r1; ld.param.b32 %r1, [n]; mul.lo.u32 %r1, %r1, %r1; st.param.b32 [o], %r1; ret; }
.global .u64 table[2] = {twice, square};
)" + kBegin + R"(
  and.b32 %r1, %t, 1; mov.u64 %rd1, table; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2;
  ld.global.u64 %rd3, [%rd1];
PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);
  { .param .b32 a; .param .b32 x; st.param.b32 [a], %t; call (x), %rd3, (a), PROTO; ld.param.b32 %r2, [x]; }
  activemask.b32 %r3; setp.ne.u32 %q1, %r3, -1; @%q1 mov.u32 %r2, 7;
  st.global.u32 [%p], %r2; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], i % 2 == 0 ? 2 * i : i * i);
}

TEST(Control, RegistersAsParameters) {
  const auto r = run_words(R"(
.func (.reg .b32 o) plus(.reg .b32 a, .reg .b32 b) { add.u32 o, a, b; ret; }
)" + kBegin + "call (%r1), plus, (%t, 5); st.global.u32 [%p], %r1; ret; }",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], i + 5);
}

TEST(Control, AddressOfAParameterAndOfLocalMemory) {
  const auto r = run_words(R"(
.func (.param .b32 o) pick(.param .align 4 .b8 s[16], .param .b32 n) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  mov.b64 %rd1, s; ld.param.b32 %r1, [n]; and.b32 %r1, %r1, 3; mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2; cvta.local.u64 %rd1, %rd1; ld.u32 %r2, [%rd1];
  st.param.b32 [o], %r2; ret; }
)" + kBegin + R"(
  { .param .align 4 .b8 s[16]; .param .b32 n; .param .b32 x;
    st.param.b32 [s], 10; st.param.b32 [s+4], 11; st.param.b32 [s+8], %t; st.param.b32 [s+12], 13;
    st.param.b32 [n], %t; call (x), pick, (s, n); ld.param.b32 %r1, [x]; }
  st.global.u32 [%p], %r1; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], i % 4 == 2 ? i : 10 + i % 4);
}

TEST(Control, BarrierMakesSharedMemoryVisible) {
  const auto r = run_words(".extern .shared .align 4 .b8 dyn[];\n" + kBegin + R"(
  .shared .align 4 .b32 tile[128];
  mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t;
  mov.u32 %r5, dyn; add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %t;
  bar.sync 0;
  sub.u32 %r3, 127, %t; shl.b32 %r3, %r3, 2; mov.u32 %r4, tile; add.u32 %r4, %r4, %r3;
  ld.shared.u32 %r6, [%r4];
  mov.u32 %r4, dyn; add.u32 %r4, %r4, %r3; ld.shared.u32 %r7, [%r4];
  mad.lo.u32 %r6, %r7, 1000, %r6; st.global.u32 [%p], %r6; ret; })",
                           {3, 1, 1}, {128, 1, 1}, 384, 512);
  for (uint32_t i = 0; i < 384; ++i) EXPECT_EQ(r[i], (127 - i % 128) * 1001);
}

TEST(Control, NamedBarriersAndReductions) {
  // Half of the warps meet at barrier 1; then all reduce.
  const auto r = run_words(kBegin + R"(
  .shared .b32 word;
  setp.ge.u32 %q1, %t, 64; @%q1 bra ALL;
  setp.ne.u32 %q2, %t, 63; @!%q2 st.shared.u32 [word], 5;
  bar.sync 1, 64;
  ld.shared.u32 %r1, [word];
ALL:
  setp.lt.u32 %q3, %t, 10;
  bar.red.popc.u32 %r2, 0, %q3;
  bar.red.and.pred %q4, 0, %q3;
  bar.red.or.pred %q5, 0, !%q3;
  selp.b32 %r3, 1, 0, %q4; selp.b32 %r4, 2, 0, %q5; or.b32 %r3, %r3, %r4;
  mad.lo.u32 %r2, %r2, 10, %r3;
  setp.ge.u32 %q1, %t, 64; @!%q1 mad.lo.u32 %r2, %r1, 1000, %r2;
  st.global.u32 [%p], %r2; ret; })",
                           {1, 1, 1}, {128, 1, 1}, 128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(r[i], (i < 64 ? 5000u : 0u) + 102u) << i;
}

TEST(Control, ThreadsThatExitDoNotHoldABarrier) {
  const auto r = run_words(kBegin + R"(
  setp.ge.u32 %q1, %t, 40; @%q1 exit;
  bar.sync 0; st.global.u32 [%p], 9; ret; })",
                           {1, 1, 1}, {96, 1, 1}, 96);
  for (uint32_t i = 0; i < 96; ++i) EXPECT_EQ(r[i], i < 40 ? 9u : 0u);
}

TEST(Control, ABarrierThatCannotCompleteIsReported) {
  Fault fault;
  run_words(kBegin + "bar.sync 0, 128; ret; }", {1, 1, 1}, {64, 1, 1}, 64, 0, &fault);
  EXPECT_NE(fault.kind, Fault::Kind::kNone);
  EXPECT_NE(fault.message.find("waits"), std::string::npos) << fault.message;
}

TEST(Control, SpinLockBetweenLanes) {
  const auto r = run_words(R"(
.global .u32 lock; .global .u32 total;
)" + kBegin + R"(
AGAIN: atom.global.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %q1, %r1, 0; @%q1 bra AGAIN;
  ld.volatile.global.u32 %r2, [total]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [total], %r2;
  membar.gl; atom.global.exch.b32 %r1, [lock], 0;
  st.global.u32 [%p], %r2; ret; })",
                           {4, 1, 1}, {64, 1, 1}, 256);
  uint64_t sum = 0;
  for (const uint32_t v : r) sum += v;
  EXPECT_EQ(sum, 256u * 257 / 2);  // every value from 1 to 256 once
}

TEST(Control, AWarpMayWaitForAnotherAndABlockForALaterOne) {
  const auto r = run_words(R"(
.global .u32 flag;
)" + kBegin + R"(
  .shared .u32 ready;
  setp.ge.u32 %q1, %t, 32; @%q1 bra SECOND;
W: ld.volatile.shared.u32 %r1, [ready]; setp.eq.u32 %q2, %r1, 0; @%q2 bra W;
  bra BLOCKS;
SECOND: st.volatile.shared.u32 [ready], 1;
BLOCKS: mov.u32 %r2, %ctaid.x; setp.eq.u32 %q3, %r2, 2; @%q3 bra SET;
V: ld.volatile.global.u32 %r1, [flag]; setp.eq.u32 %q2, %r1, 0; @%q2 bra V;
  bra DONE;
SET: st.volatile.global.u32 [flag], 1;
DONE: st.global.u32 [%p], 4; ret; })",
                           {3, 1, 1}, {64, 1, 1}, 192);
  for (const uint32_t v : r) EXPECT_EQ(v, 4u);
}

// Exchanges words in shared memory without any synchronisation: lanes of one parity do `work`,
// which leaves %r9 at 0, then write, and all read what their neighbour has.
std::string exchange(const char* parity, const std::string& before, const std::string& work) {
  return kBegin + R"(
  .shared .b32 s[32];
  mov.u32 %r10, s; shl.b32 %r11, %l, 2; add.u32 %r10, %r10, %r11; st.volatile.shared.u32 [%r10], 0;
  xor.b32 %r11, %r11, 4; mov.u32 %r12, s; add.u32 %r11, %r12, %r11;
  and.b32 %r1, %l, 1; setp.eq.u32 %q1, %r1, )" +
         parity + "; mov.u32 %r2, 0; mov.u32 %r8, 0;" + before + R"(
ROUND:
  @%q1 bra MEET;
)" + work +
         R"(
  ld.volatile.shared.u32 %r3, [%r10]; add.u32 %r3, %r3, 1; add.u32 %r3, %r3, %r9;
  st.volatile.shared.u32 [%r10], %r3;
MEET:
  ld.volatile.shared.u32 %r4, [%r11]; ld.volatile.shared.u32 %r5, [%r10];
  add.u32 %r6, %r4, %r5; mad.lo.u32 %r8, %r8, 10, %r6;
  add.u32 %r2, %r2, 1; setp.lt.u32 %q2, %r2, 5; @%q2 bra ROUND;
  st.global.u32 [%p], %r8; ret; })";
}

void expect_exchanged(const std::string& before, const std::string& work) {
  for (const char* parity : {"0", "1"}) {
    const auto r = run_words(exchange(parity, before, work), {2, 1, 1}, {32, 1, 1}, 64);
    for (const uint32_t v : r) EXPECT_EQ(v, 12345u) << "lanes that skip: " << parity;
  }
}

TEST(Divergence, WhatTheWarpDidBeforeCountsForNobody) {
  expect_exchanged(R"(
  mov.u32 %r7, 0;
TOGETHER: add.u32 %r7, %r7, 1; setp.lt.u32 %q3, %r7, 5000; @%q3 bra TOGETHER;
)",
                   "mov.u32 %r9, 0;");
}

TEST(Divergence, LanesWaitForThoseThatTakeLong) {
  expect_exchanged("", R"(
  mov.u32 %r9, 20000;
APART: sub.u32 %r9, %r9, 1; setp.ne.u32 %q3, %r9, 0; @%q3 bra APART;
)");
}

TEST(Divergence, LanesWaitForThoseThatReadAndAddInALoop) {
  const auto r = run_words(R"(
.global .u32 total;
)" + exchange("0", "", R"(
  mov.u32 %r9, 5000;
APART: ld.volatile.shared.u32 %r3, [%r11]; atom.global.add.u32 %r4, [total], %r3;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %q3, %r9, 0; @%q3 bra APART;
)"),
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (const uint32_t v : r) EXPECT_EQ(v, 12345u);
}

// One lane takes the lock for its warp; the others do not look at it.
TEST(Divergence, ALockOfWholeWarps) {
  for (const char* pause : {"", "nanosleep.u32 100;"}) {
    const auto r = run_words(R"(
.global .u32 lock; .global .u32 total[32];
)" + kBegin + R"(
  setp.ne.u32 %q1, %l, 0; mov.u64 %rd3, total; mul.wide.u32 %rd4, %l, 4; add.u64 %rd3, %rd3, %rd4;
  @%q1 bra LOCKED;
AGAIN: )" + pause + R"(
  atom.global.cas.b32 %r1, [lock], 0, 1; setp.ne.u32 %q2, %r1, 0; @%q2 bra AGAIN;
LOCKED:
  ld.volatile.global.u32 %r2, [%rd3]; mov.u32 %r3, 0;
LONG: add.u32 %r3, %r3, 1; setp.lt.u32 %q3, %r3, 20000; @%q3 bra LONG;
  add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd3], %r2;
  @%q1 bra UNLOCKED;
  membar.gl; atom.global.exch.b32 %r1, [lock], 0;
UNLOCKED: st.global.u32 [%p], %r2; ret; })",
                             {2, 1, 1}, {128, 1, 1}, 256);
    uint64_t sum = 0;
    for (const uint32_t v : r) sum += v;
    EXPECT_EQ(sum, 32u * 36) << pause;  // each lane has had 1 to 8
  }
}

// A lane of the warp waits for another, which is behind it: what it does while it waits.
void expect_progress(const std::string& functions, const std::string& wait) {
  const auto r = run_words(functions + kBegin + R"(
  .shared .b32 flag; .shared .b32 other;
  mov.u32 %r1, 0; mov.u32 %r2, 0; setp.eq.u32 %q1, %l, 7; @%q1 bra SET;
WAIT:
)" + wait + R"(
  ld.volatile.shared.u32 %r3, [flag]; setp.eq.u32 %q2, %r3, 0; @%q2 bra WAIT;
  bra.uni MEET;
SET: add.u32 %r2, %r2, 1; setp.lt.u32 %q3, %r2, 3000; @%q3 bra SET;
  st.volatile.shared.u32 [flag], 1;
MEET: st.global.u32 [%p], 1; ret; })",
                           {2, 1, 1}, {64, 1, 1}, 128);
  for (const uint32_t v : r) EXPECT_EQ(v, 1u) << wait;
}

TEST(Divergence, LanesThatWaitForOthersLetThemRun) {
  expect_progress("", "");
  expect_progress("", "nanosleep.u32 100;");
  // Registers change each time.
  expect_progress("", "add.u32 %r1, %r1, 1;");
  // In a function, and in two places at once.
  expect_progress(
      ".shared .b32 seen;\n.func look() { .reg .b32 %r; ld.volatile.shared.u32 %r, [seen]; ret; "
      "}\n",
      "call look;");
  expect_progress("", R"(
  and.b32 %r5, %l, 1; setp.eq.u32 %q4, %r5, 0; @%q4 bra EVEN;
  ld.volatile.shared.u32 %r4, [other]; bra.uni BOTH;
EVEN: ld.volatile.shared.u32 %r6, [other]; add.u32 %r6, %r6, 1;
BOTH:
)");
}

// A lane that needs many turns is not kept waiting for each of them as long as for the first.
TEST(Divergence, LanesThatWaitTakeTurnsWithTheOthers) {
  Machine m(kBegin + R"(
  .shared .b32 flag;
  mov.u32 %r1, 0; mov.u32 %r2, 0; setp.eq.u32 %q1, %l, 7; @%q1 bra SET;
WAIT: add.u32 %r1, %r1, 1;
  ld.volatile.shared.u32 %r3, [flag]; setp.eq.u32 %q2, %r3, 0; @%q2 bra WAIT;
  bra.uni MEET;
SET: add.u32 %r2, %r2, 1; setp.lt.u32 %q3, %r2, 50000; @%q3 bra SET;
  st.volatile.shared.u32 [flag], 1;
MEET: st.global.u32 [%p], 1; ret; })");
  ASSERT_TRUE(m.ok()) << m.error().reason;
  const uint64_t p = m.buffer(32 * 4);
  ASSERT_EQ(m.launch("k", {1, 1, 1}, {32, 1, 1}, {p}).message, "");
  EXPECT_EQ(m.read<uint32_t>(p, 32), std::vector<uint32_t>(32, 1));
  EXPECT_LT(m.counters.thread_instructions.load(), 31u * 2'000'000);
}

// The same program with its parts in every order. Each part says where it goes.
TEST(Divergence, LanesMeetWhateverTheOrderOfTheCode) {
  const std::string begin = kBegin + R"(
  .shared .b32 s[64];
  mov.u32 %r10, s; shl.b32 %r11, %t, 2; add.u32 %r10, %r10, %r11; st.volatile.shared.u32 [%r10], 0;
  xor.b32 %r11, %r11, 4; mov.u32 %r12, s; add.u32 %r11, %r12, %r11;
  and.b32 %r1, %l, 1; setp.eq.u32 %q1, %r1, 0; mov.u32 %r2, 0; mov.u32 %r8, 0;
  setp.eq.u32 %q4, %t, 31; and.b32 %r1, %l, 3; setp.eq.u32 %q5, %r1, 3;
  bra ROUND;
)";
  // Odd lanes add one to their words, each in its own way, and one of them leaves; then all read
  // their neighbours' words.
  std::array<std::string, 6> parts = {
      R"(
ROUND: selp.b32 %r1, 1, 0, %q1; mov.u32 %r9, 50;
WAYS: .branchtargets APART, MEET;
  brx.idx %r1, WAYS;)",
      R"(
APART: sub.u32 %r9, %r9, 1; setp.ne.u32 %q3, %r9, 0; @%q3 bra APART; @%q5 bra SELDOM;
  ld.volatile.shared.u32 %r3, [%r10]; add.u32 %r3, %r3, 1;
STORE: st.volatile.shared.u32 [%r10], %r3; bra MEET;)",
      R"(
SELDOM: @%q4 bra QUIT;
  ld.volatile.shared.u32 %r3, [%r10]; add.u32 %r3, %r3, 2; sub.u32 %r3, %r3, 1; bra STORE;)",
      R"(
MEET: ld.volatile.shared.u32 %r4, [%r11]; ld.volatile.shared.u32 %r5, [%r10];
  add.u32 %r6, %r4, %r5; mad.lo.u32 %r8, %r8, 10, %r6; add.u32 %r2, %r2, 1;
  setp.lt.u32 %q2, %r2, 5; @%q2 bra ROUND; bra DONE;)",
      R"(
QUIT: st.global.u32 [%p], 7; ret;)",
      R"(
DONE: st.global.u32 [%p], %r8; ret;)"};
  std::sort(parts.begin(), parts.end());
  std::vector<uint32_t> expected(64, 12345);
  expected[30] = 0;  // its neighbour has left
  expected[31] = 7;
  do {
    std::string text = begin;
    for (const std::string& part : parts) text += part;
    ASSERT_EQ(run_words(text + "}", {1, 1, 1}, {64, 1, 1}, 64), expected) << text;
  } while (std::next_permutation(parts.begin(), parts.end()));
}

// A loop goes on from its middle for some lanes; others leave the kernel early.
TEST(Divergence, LanesMeetAtTheStartOfALoop) {
  const auto r = run_words(kBegin + R"(
  .shared .b32 s[32];
  setp.ge.u32 %q5, %l, 30; mov.u32 %r10, s; shl.b32 %r11, %l, 2; add.u32 %r10, %r10, %r11;
  st.volatile.shared.u32 [%r10], 0; xor.b32 %r11, %r11, 4; mov.u32 %r12, s; add.u32 %r11, %r12, %r11;
  mov.u32 %r2, 0; mov.u32 %r8, 0;
NEXT:
  ld.volatile.shared.u32 %r4, [%r11]; ld.volatile.shared.u32 %r5, [%r10];
  add.u32 %r6, %r4, %r5; mad.lo.u32 %r8, %r8, 10, %r6;
  add.u32 %r2, %r2, 1; setp.gt.u32 %q2, %r2, 5; @%q2 bra OUT;
  and.b32 %r1, %l, 1; setp.eq.u32 %q1, %r1, 0; @%q1 bra NEXT;
  @%q5 bra QUIT;
  ld.volatile.shared.u32 %r3, [%r10]; add.u32 %r3, %r3, 1; st.volatile.shared.u32 [%r10], %r3;
  bra NEXT;
QUIT: st.global.u32 [%p], 7; ret;
OUT: st.global.u32 [%p], %r8; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], i == 31 ? 7u : i == 30 ? 0u : 12345u) << i;
}

TEST(Control, CancelEndsAnEndlessKernel) {
  Machine m(".visible .entry k() { L: bra L; }");
  ASSERT_TRUE(m.ok());
  m.cancel = true;
  EXPECT_EQ(m.launch("k", {1, 1, 1}, {32, 1, 1}, {}).kind, Fault::Kind::kCancelled);
}

TEST(Control, ATrapIsAFault) {
  Fault fault;
  run_words(kBegin + "setp.eq.u32 %q1, %t, 33; @%q1 trap; ret; }", {1, 1, 1}, {64, 1, 1}, 64, 0,
            &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kTrap);
  EXPECT_NE(fault.message.find("thread (33,0,0)"), std::string::npos) << fault.message;
}

TEST(Control, AnAssertionTellsWhatFailedWhere) {
  const std::string strings = R"(
.extern .func __assertfail(.param .b64 a0, .param .b64 a1, .param .b32 a2, .param .b64 a3, .param .b64 a4);
.global .align 1 .b8 text[11] = {110, 32, 60, 32, 109, 10, 97, 120, 0, 65, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.const .align 1 .b8 func[4] = {114, 117, 110, 40};
)";
  const auto call = [](const std::string& where) {
    return "cvta.global.u64 %rd2, " + where + R"(; mov.u64 %rd3, file; mov.u64 %rd4, func;
  { .param .b64 a0; .param .b64 a1; .param .b32 a2; .param .b64 a3; .param .b64 a4;
    st.param.b64 [a0], %rd2; st.param.b64 [a1], %rd3; st.param.b32 [a2], 17; st.param.b64 [a3], %rd4;
    st.param.b64 [a4], 1; call __assertfail, (a0, a1, a2, a3, a4); }
OK: ret; })";
  };
  Fault fault;
  run_words(strings + kBegin + "setp.ne.u32 %q1, %t, 37; @%q1 bra OK; " + call("text"), {2, 1, 1},
            {64, 1, 1}, 128, 0, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kAssert);
  // A text without an end ends with its memory; a character that no line can have is shown as '?'.
  EXPECT_NE(fault.message.find("assertion 'n < m?ax' failed at a.cu:17 in run("), std::string::npos)
      << fault.message;
  EXPECT_NE(fault.message.find("thread (37,0,0)"), std::string::npos) << fault.message;
  run_words(strings + kBegin + call("12345"), {1, 1, 1}, {32, 1, 1}, 32, 0, &fault);
  EXPECT_EQ(fault.kind, Fault::Kind::kAssert);
  EXPECT_NE(fault.message.find("assertion '?' failed at a.cu:17"), std::string::npos)
      << fault.message;
}

struct Shuffle {
  const char* mode;
  uint32_t b, c, members;
};

// The rules of shfl as the instruction set's description has them.
void expected_shuffle(const Shuffle& s, uint32_t lane, uint32_t* value, bool* in_range) {
  const uint32_t segments = s.c >> 8 & 31, clamp = s.c & 31, b = s.b & 31;
  const int last = static_cast<int>((lane & segments) | (clamp & ~segments));
  const int first = static_cast<int>(lane & segments);
  int j = 0;
  const std::string mode = s.mode;
  if (mode == "up") {
    j = static_cast<int>(lane) - static_cast<int>(b);
    *in_range = j >= last;
  } else {
    j = mode == "down"   ? static_cast<int>(lane + b)
        : mode == "bfly" ? static_cast<int>(lane ^ b)
                         : first | static_cast<int>(b & ~segments);
    *in_range = j <= last;
  }
  *value = *in_range ? static_cast<uint32_t>(j) * 7 + 1 : lane * 7 + 1;
}

TEST(Control, Shuffles) {
  const Shuffle cases[] = {
      {"down", 1, 31, ~0u},     {"down", 16, 31, ~0u},    {"down", 3, 0x1f | 0x1800, ~0u},
      {"up", 1, 0, ~0u},        {"up", 8, 0, ~0u},        {"up", 2, 0x1800, ~0u},
      {"bfly", 1, 31, ~0u},     {"bfly", 16, 31, ~0u},    {"bfly", 9, 0x1f | 0x1c00, ~0u},
      {"idx", 0, 31, ~0u},      {"idx", 17, 31, ~0u},     {"idx", 5, 0x1f | 0x1800, ~0u},
      {"bfly", 1, 31, 0xffffu}, {"down", 1, 31, 0xfffeu},
  };
  for (const Shuffle& s : cases) {
    for (const bool sync : {true, false}) {
      const std::string op = sync ? "shfl.sync." : "shfl.";
      const auto r = run_words(
          kBegin + "mov.u32 %r9, " + std::to_string(s.members) +
              "; shr.u32 %r1, %r9, %t; and.b32 %r1, %r1, 1; setp.eq.u32 %q1, %r1, 0; @%q1 bra E;" +
              "mad.lo.u32 %r2, %t, 7, 1;" + op + s.mode + ".b32 %r3|%q2, %r2, " +
              std::to_string(s.b) + ", " + std::to_string(s.c) + (sync ? ", %r9" : "") +
              "; selp.b32 %r4, 1000, 0, %q2; add.u32 %r3, %r3, %r4; st.global.u32 [%p], %r3;"
              "E: ret; }",
          {1, 1, 1}, {32, 1, 1}, 32);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        if (!((s.members >> lane) & 1)) continue;
        uint32_t value = 0;
        bool in_range = false;
        expected_shuffle(s, lane, &value, &in_range);
        // A value from a lane that is not there is not defined.
        const uint32_t from = (value - 1) / 7;
        if (!((s.members >> from) & 1)) continue;
        EXPECT_EQ(r[lane], value + (in_range ? 1000 : 0)) << op << s.mode << " lane " << lane;
      }
    }
  }
}

TEST(Control, SynchronisationAcrossDivergedLanes) {
  // The two halves reach the shuffle at different places of the program.
  const auto r = run_words(kBegin + R"(
  setp.lt.u32 %q1, %t, 16; @%q1 bra LOW;
  shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;
  add.u32 %r1, %r1, 100; bra E;
LOW: shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;
E: st.global.u32 [%p], %r1; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(r[i], (i ^ 16) + (i < 16 ? 0 : 100));
}

TEST(Control, VotesMatchesAndReductions) {
  const auto r = run_words(kBegin + R"(
  setp.lt.u32 %q1, %t, 5; mov.u32 %r9, 0;
  vote.sync.all.pred %q2, %q1, -1; selp.b32 %r1, 1, 0, %q2; or.b32 %r9, %r9, %r1;
  vote.sync.any.pred %q2, %q1, -1; selp.b32 %r1, 2, 0, %q2; or.b32 %r9, %r9, %r1;
  vote.sync.uni.pred %q2, %q1, -1; selp.b32 %r1, 4, 0, %q2; or.b32 %r9, %r9, %r1;
  vote.sync.all.pred %q2, !%q1, -1; selp.b32 %r1, 8, 0, %q2; or.b32 %r9, %r9, %r1;
  vote.sync.ballot.b32 %r2, %q1, -1; setp.eq.u32 %q3, %r2, 31; selp.b32 %r1, 16, 0, %q3; or.b32 %r9, %r9, %r1;
  vote.ballot.b32 %r2, !%q1; setp.eq.u32 %q3, %r2, 0xffffffe0; selp.b32 %r1, 32, 0, %q3; or.b32 %r9, %r9, %r1;
  and.b32 %r3, %t, 3; match.any.sync.b32 %r4, %r3, -1;
  mov.u32 %r5, 0x11111111; shl.b32 %r5, %r5, %r3; setp.eq.u32 %q4, %r4, %r5; selp.b32 %r1, 64, 0, %q4; or.b32 %r9, %r9, %r1;
  match.all.sync.b32 %r4|%q5, %r3, -1; selp.b32 %r1, 128, 0, %q5; or.b32 %r9, %r9, %r1;
  redux.sync.add.u32 %r6, %t, -1; setp.eq.u32 %q6, %r6, 496; selp.b32 %r1, 256, 0, %q6; or.b32 %r9, %r9, %r1;
  sub.u32 %r7, 3, %t; redux.sync.min.s32 %r6, %r7, -1; setp.eq.s32 %q6, %r6, -28; selp.b32 %r1, 512, 0, %q6; or.b32 %r9, %r9, %r1;
  redux.sync.xor.b32 %r6, %t, -1; setp.eq.u32 %q6, %r6, 0; selp.b32 %r1, 1024, 0, %q6; or.b32 %r9, %r9, %r1;
  bar.warp.sync -1;
  st.global.u32 [%p], %r9; ret; })",
                           {1, 1, 1}, {32, 1, 1}, 32);
  for (const uint32_t v : r) EXPECT_EQ(v, 2u | 16 | 32 | 64 | 256 | 512 | 1024);
}

TEST(Control, SpecialRegisters) {
  const auto r = run_words(R"(
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred %q;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
  mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
  mov.u32 %r7, %ctaid.y; mov.u32 %r8, %nctaid.x; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r7, %r7, %r8, %r9;
  mov.u32 %r10, %ntid.z; mul.lo.u32 %r11, %r4, %r5; mul.lo.u32 %r11, %r11, %r10;
  mad.lo.u32 %r12, %r7, %r11, %r6;
  mov.u32 %r13, %laneid; mov.u32 %r14, %warpid; mad.lo.u32 %r15, %r14, 32, %r13;
  setp.ne.u32 %q, %r15, %r6; @%q trap;
  mov.u32 %r16, %lanemask_lt; popc.b32 %r16, %r16; setp.ne.u32 %q, %r16, %r13; @%q trap;
  mov.u32 %r16, %lanemask_ge; popc.b32 %r16, %r16; sub.u32 %r16, 32, %r16; setp.ne.u32 %q, %r16, %r13; @%q trap;
  mov.u32 %r16, %lanemask_eq; shr.u32 %r18, %r16, %r13; setp.ne.u32 %q, %r18, 1; @%q trap;
  mov.u32 %r18, %lanemask_lt; or.b32 %r18, %r18, %r16; mov.u32 %r19, %lanemask_le; setp.ne.u32 %q, %r18, %r19; @%q trap;
  not.b32 %r18, %r19; mov.u32 %r19, %lanemask_gt; setp.ne.u32 %q, %r18, %r19; @%q trap;
  mov.u64 %rd2, %clock64; mov.u64 %rd3, %clock64; setp.ge.u64 %q, %rd2, %rd3; @%q trap;
  mov.u32 %r17, %dynamic_smem_size; setp.ne.u32 %q, %r17, 48; @%q trap;
  ld.param.u64 %rd0, [p]; mul.wide.u32 %rd1, %r12, 4; add.u64 %rd0, %rd0, %rd1;
  st.global.u32 [%rd0], %r12; ret; })",
                           {3, 2, 1}, {5, 4, 3}, 360, 48);
  for (uint32_t i = 0; i < 360; ++i) EXPECT_EQ(r[i], i);
}

TEST(Control, AtomicsOfTwoLaunchesAtOnce) {
  Machine m(R"(
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %q; .reg .f64 %d;
  ld.param.u64 %rd0, [p]; mov.u32 %r1, 0;
L: atom.global.add.u32 %r2, [%rd0], 1; red.global.add.f64 [%rd0+8], 0d3FF0000000000000;
  atom.global.inc.u32 %r2, [%rd0+4], 6;
  add.u32 %r1, %r1, 1; setp.lt.u32 %q, %r1, 50; @%q bra L; ret; })");
  ASSERT_TRUE(m.ok()) << m.error().reason;
  const uint64_t p = m.buffer(16);
  std::thread other([&] { EXPECT_EQ(m.launch("k", {4, 1, 1}, {64, 1, 1}, {p}).message, ""); });
  EXPECT_EQ(m.launch("k", {4, 1, 1}, {64, 1, 1}, {p}).message, "");
  other.join();
  EXPECT_EQ(m.read<uint32_t>(p, 2), (std::vector<uint32_t>{25600, 25600 % 7}));
  EXPECT_EQ(m.read<double>(p, 2)[1], 25600.0);
}

}  // namespace
}  // namespace simcuda::test::control_test
