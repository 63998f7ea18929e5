// SPDX-License-Identifier: Apache-2.0
// malloc() and free() of kernels.
#include <map>
#include <random>

#include "tests/unit/simcuda/machine/harness.h"
#include "tools/simcuda/machine/kernel_heap.h"

namespace simcuda::test::heap_test {
namespace {

constexpr const char* kDeclared =
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
    ".extern .func free (.param .b64 p);\n";

// Each thread takes memory of its own size and keeps a number in its last word, until all have
// theirs.
constexpr const char* kKernel =
    ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %x<12>; .reg .pred %p<2>;\n"
    "ld.param.u64 %x1, [out]; mov.u32 %r0, %tid.x; mad.wide.u32 %x2, %r0, 8, 8;\n"
    "{ .param .b64 n; .param .b64 q; st.param.b64 [n], %x2;\n"
    "call.uni (q), malloc, (n); ld.param.b64 %x3, [q]; }\n"
    "add.u64 %x4, %x3, %x2; add.u32 %r1, %r0, 500; st.u32 [%x4+-4], %r1; bar.sync 0;\n"
    "ld.u32 %r2, [%x4+-4]; mad.wide.u32 %x5, %r0, 4, %x1; st.global.u32 [%x5], %r2;\n"
    "setp.lt.u32 %p1, %r0, 60;\n"
    "{ .param .b64 a; st.param.b64 [a], %x3; @%p1 call free, (a); }\n"
    "ret; }\n";

TEST(Heap, MemoryOfEachThreadIsItsOwn) {
  Machine machine(std::string(kDeclared) + kKernel);
  ASSERT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  EXPECT_TRUE(machine.program().uses_heap());
  KernelHeap heap(machine.buffer(65536), 65536);
  machine.heap = &heap;
  const uint64_t out = machine.buffer(64 * sizeof(uint32_t));
  ASSERT_EQ(machine.launch("k", {1, 1, 1}, {64, 1, 1}, {out}).message, "");
  const auto kept = machine.read<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(kept[i], 500 + i);
  EXPECT_EQ(heap.blocks(), 4u) << "the last four do not free theirs";
}

// One thread; `ask`: code that uses %x2.
Fault run_one(const std::string& code, uint64_t number, uint64_t* answer) {
  Machine machine(std::string(kDeclared) +
                  ".visible .entry k(.param .u64 out, .param .u64 number) { .reg .b64 %x<12>;\n"
                  "ld.param.u64 %x1, [out]; ld.param.u64 %x2, [number];\n" +
                  code + "st.global.u64 [%x1], %x3; ret; }\n");
  EXPECT_TRUE(machine.ok()) << machine.error().instruction << ": " << machine.error().reason;
  KernelHeap heap(machine.buffer(4096), 4096);
  machine.heap = &heap;
  const uint64_t out = machine.buffer(8);
  Fault fault = machine.launch("k", {1, 1, 1}, {1, 1, 1}, {out, number});
  *answer = machine.read<uint64_t>(out, 1)[0];
  return fault;
}

TEST(Heap, IsNullWhereThereIsNoRoom) {
  const std::string ask =
      "{ .param .b64 n; .param .b64 q; st.param.b64 [n], %x2;\n"
      "call.uni (q), malloc, (n); ld.param.b64 %x3, [q]; }\n";
  uint64_t address = 1;
  for (const uint64_t bytes : {uint64_t{4097}, uint64_t{0}, UINT64_MAX}) {
    EXPECT_EQ(run_one(ask, bytes, &address).message, "");
    EXPECT_EQ(address, 0u) << bytes;
  }
  EXPECT_EQ(run_one(ask, 4096, &address).message, "");
  EXPECT_NE(address, 0u);
}

TEST(Heap, FreesNullAndNothingElseThatItHasNotGiven) {
  const std::string free =
      "mov.u64 %x3, 7; { .param .b64 a; st.param.b64 [a], %x2; call.uni free, (a); }\n";
  uint64_t answer = 0;
  EXPECT_EQ(run_one(free, 0, &answer).message, "");
  EXPECT_EQ(answer, 7u);
  const Fault fault = run_one(free, 4711, &answer);
  EXPECT_EQ(fault.kind, Fault::Kind::kIllegalAddress);
  EXPECT_NE(fault.message.find("free()"), std::string::npos) << fault.message;
}

TEST(Heap, OtherProgramsHaveNone) {
  Machine machine(".visible .entry k() { ret; }\n");
  ASSERT_TRUE(machine.ok());
  EXPECT_FALSE(machine.program().uses_heap());
}

TEST(Heap, RandomHistoriesOverlapNowhere) {
  std::mt19937 random(11);
  constexpr uint64_t kBase = 4096, kBytes = 8192;
  KernelHeap heap(kBase, kBytes);
  std::map<uint64_t, uint64_t> mine;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !mine.empty()) {
      const auto one = std::next(mine.begin(), static_cast<long>(random() % mine.size()));
      ASSERT_TRUE(heap.free(one->first));
      mine.erase(one);
    } else {
      const uint64_t bytes = 1 + random() % 700;
      const uint64_t address = heap.allocate(bytes);
      if (address == 0) continue;
      ASSERT_EQ(address % 16, 0u);
      ASSERT_GE(address, kBase);
      ASSERT_LE(address + bytes, kBase + kBytes);
      const auto after = mine.lower_bound(address);
      if (after != mine.end()) {
        ASSERT_LE(address + bytes, after->first);
      }
      if (after != mine.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, address);
      }
      mine[address] = bytes;
    }
    ASSERT_EQ(heap.blocks(), mine.size());
  }
  for (const auto& [address, bytes] : mine) ASSERT_TRUE(heap.free(address));
  EXPECT_EQ(heap.allocate(kBytes), kBase) << "all of it is one hole again";
}

}  // namespace
}  // namespace simcuda::test::heap_test
