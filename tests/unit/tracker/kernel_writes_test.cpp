// The data flow's conclusions from each form of PTX: what is written, and what cannot be told.
#include "tracker/kernel_writes.h"

#include <gtest/gtest.h>

#include "device_code.h"
#include "fat_binary_builder.h"

namespace gpusnap {
namespace {

const std::string kHead = ".version 8.3\n.target sm_90\n.address_size 64\n";
// Words: p 0, q 1, n has none, s 3 (five of them), m 4.
const std::string kKernel =
    ".visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n,\n"
    "  .param .align 8 .b8 s[40], .param .u64 m)\n{\n"
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>;\n"
    ".reg .f32 %f<8>; .reg .f64 %fd<8>;\n";

std::string text_of(const KernelWrites::Word& word) {
  std::string text = std::to_string(word.parameter);
  if (word.offset == KernelWrites::Word::kAny) return text + "+*";
  return word.offset == 0 ? text : text + "+" + std::to_string(word.offset);
}

// "0 1|3+8 @counter #4": stores through parameter 0; through 1 or the word at 8 of 3; to a
// variable; and the number in parameter 4 went into an address. "?" where a store is not resolved.
std::string text_of(const KernelWrites& kernel) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const auto& pointer : kernel.pointers) {
    std::string words;
    for (const auto& word : pointer.words) words += (words.empty() ? "" : "|") + text_of(word);
    add(words);
  }
  for (const std::string& global : kernel.globals) add("@" + global);
  for (const auto& word : kernel.numbers) add("#" + text_of(word));
  if (!kernel.resolved) add("?");
  return text;
}

KernelWrites analyse(const std::string& body, const std::string& before = "") {
  const ImageContents image = read_image(as_bytes(kHead + before + kKernel + body + "ret;\n}\n"));
  const KernelWrites kernel = KernelCode(image, 90).find("k");
  EXPECT_EQ(kernel.reason.find("not understood"), std::string::npos) << kernel.reason;
  EXPECT_EQ(kernel.proven, kernel.reason.empty());
  return kernel;
}

std::string writes(const std::string& body, const std::string& before = "") {
  return text_of(analyse(body, before));
}

std::string why_not(const std::string& body, const std::string& before = "") {
  const KernelWrites kernel = analyse(body, before);
  EXPECT_FALSE(kernel.proven);
  return kernel.reason;
}

const std::string kP = "ld.param.u64 %rd1, [p];\n";
const std::string kQ = "ld.param.u64 %rd2, [q];\n";
const std::string kM = "ld.param.u64 %rd3, [m];\n";

TEST(KernelWrites, Layout) {
  const KernelWrites kernel = analyse("");
  EXPECT_TRUE(kernel.proven);
  EXPECT_TRUE(kernel.layout_known);
  const std::vector<KernelWrites::Parameter> layout = {{0, 8}, {8, 8}, {16, 4}, {24, 40}, {64, 8}};
  EXPECT_EQ(kernel.parameters, layout);
  EXPECT_EQ(text_of(kernel), "");
}

TEST(KernelWrites, EveryInstructionThatWrites) {
  for (const char* store : {
           "st.global.u32 [%rd1], %r1;",
           "st.u32 [%rd1+4], %r1;",
           "st.global.v2.f32 [%rd1], {%f1, %f2};",
           "st.release.gpu.global.u32 [%rd1], %r1;",
           "st.volatile.global.u8 [%rd1], %r1;",
           "@%p1 st.global.u32 [%rd1], %r1;",
           "red.global.add.u32 [%rd1], %r1;",
           "red.add.f32 [%rd1], %f1;",
           "atom.global.add.u32 %r1, [%rd1], %r2;",
           "atom.global.cas.b64 %rd9, [%rd1], %rd8, %rd7;",
           "atom.exch.b32 _, [%rd1], %r2;",
           "multimem.red.global.add.f32 [%rd1], %f1;",
           "multimem.st.global.f32 [%rd1], %f1;",
           "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1,%f2,%f3,%f4,%f5,%f6,"
           "%f7,%f1}, %r1;",
           "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;",
           "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], %r2;",
           "discard.global.L2 [%rd1], 128;",
           "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd8;",
       }) {
    EXPECT_EQ(writes(kP + store), "0") << store;
    EXPECT_EQ(writes(kQ + "mov.u64 %rd1, %rd2;\n" + store), "1") << store;
  }
}

TEST(KernelWrites, WhatDoesNotWrite) {
  for (const char* instruction : {
           "ld.global.u32 %r1, [%rd1];",
           "ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];",
           "prefetch.global.L2 [%rd1];",
           "st.shared.u32 [%r1], %r2;",
           "st.shared::cluster.u32 [%r1], %r2;",
           "atom.shared.add.u32 %r1, [%r2], %r3;",
           "red.shared.add.u32 [%r2], %r3;",
           "cp.async.ca.shared.global [%r1], [%rd1], 16;",
           "cp.async.commit_group;",
           "cp.async.wait_group 0;",
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, "
           "[%r3];",
           "cp.async.bulk.prefetch.L2.global [%rd1], %r2;",
           "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
           "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};",
           "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];",
           "mbarrier.init.shared.b64 [%r1], 1;",
           "mbarrier.arrive.shared.b64 %rd9, [%r1];",
           "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
           "bar.sync 0;",
           "membar.gl;",
           // Surfaces are of arrays, which are copied within a cut.
           "sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3};",
           "sust.p.1d.v2.b32.clamp [%rd1, {%r1}], {%r3, %r4};",
           "sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %r3;",
           "suld.b.a2d.v2.b32.zero {%r3, %r4}, [%rd1, {%r1, %r2, %r5, %r5}];",
           "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%rd1, {%f5, %f6}];",
           "tex.level.3d.v4.u32.f32 {%r1, %r2, _, %r4}, [%rd1, {%f5, %f6, %f1, %f1}], %f2;",
           "tld4.g.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];",
           "txq.width.b32 %r1, [%rd1];",
           "suq.height.b32 %r1, [%rd1];",
       }) {
    EXPECT_EQ(writes(kP + instruction), "") << instruction;
  }
}

TEST(KernelWrites, WhatIsRefusedWhateverTheAddress) {
  EXPECT_NE(why_not(kP + "future.global.u32 [%rd1], %r1;").find("is not known"), std::string::npos);
  EXPECT_NE(why_not(kP + "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1], [%r2];")
                .find("tensor map"),
            std::string::npos);
}

TEST(KernelWrites, AddressesOutOfTexturesAndSurfacesAreLoaded) {
  for (const char* load : {
           "suld.b.1d.b64.trap {%rd5}, [%rd1, {%r1}];",
           "tex.1d.v4.u32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r1}]; mov.b64 %rd5, {%r5, %r6};",
       }) {
    EXPECT_EQ(writes(kP + load + "st.global.u32 [%rd5], %r2;"), "?") << load;
  }
}

// 128 bytes that no one but the device can read say where such a store goes.
TEST(KernelWrites, StoresThroughTensorMapsAreNeverProven) {
  const auto kernel = [](const std::string& body) {
    const std::string text = kHead +
                             ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 p)\n{\n"
                             ".reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
                             "mov.b64 %rd1, map;\ncvta.param.u64 %rd2, %rd1;\n"
                             "ld.param.u64 %rd3, [p];\ncvta.to.global.u64 %rd4, %rd3;\n" +
                             body + "\nret;\n}\n";
    const KernelWrites found = KernelCode(read_image(as_bytes(text)), 90).find("k");
    EXPECT_EQ(found.reason.find("not understood"), std::string::npos) << found.reason;
    return found;
  };
  for (const char* map : {"%rd2", "%rd3", "%rd4"}) {  // a parameter, or in the device's memory
    const std::string in = std::string("[") + map + ", {%r1, %r2}]";
    for (const std::string& store : {
             "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group " + in + ", [%r3];",
             "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group " + in + ", [%r3];",
             "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group " + in +
                 ", [%r3];",
         }) {
      const KernelWrites found = kernel(store);
      EXPECT_FALSE(found.proven) << store;
      EXPECT_FALSE(found.resolved) << store;
      EXPECT_NE(found.reason.find("tensor map"), std::string::npos) << found.reason;
    }
    for (const std::string& load : {
             "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
             "[%r3], " +
                 in + ", [%r4];",
             "cp.async.bulk.prefetch.tensor.2d.L2.global.tile " + in + ";",
             std::string("prefetch.tensormap [") + map + "];",
         }) {
      EXPECT_TRUE(kernel(load).proven) << load << ": " << kernel(load).reason;
    }
  }
  // One that is changed lies in memory that is written.
  EXPECT_EQ(text_of(kernel("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release."
                           "gpu.sync.aligned [%rd4], [%r1], 128;")),
            "1");
}

TEST(KernelWrites, TheReasonNamesLineAndInstruction) {
  EXPECT_EQ(why_not(kP + "ld.global.u64 %rd2, [%rd1];\nst.global.u32\n  [%rd2], %r1;"),
            "line 11: 'st.global.u32 [%rd2], %r1': its address is loaded from memory at line 10");
}

TEST(KernelWrites, AdditionKeepsAPointer) {
  for (const char* arithmetic : {
           "add.s64 %rd5, %rd1, %rd9;",
           "add.s64 %rd5, %rd9, %rd1;",
           "sub.s64 %rd5, %rd1, %rd9;",
           "add.s64 %rd5, %rd1, -64;",
           "mad.lo.s64 %rd5, %rd9, 4, %rd1;",
           "mad.wide.s32 %rd5, %r1, 4, %rd1;",
           "cvta.to.global.u64 %rd5, %rd1;",
           "cvta.global.u64 %rd5, %rd1;",
           "mov.b64 %rd5, %rd1;",
           "cvt.u64.u64 %rd5, %rd1;",
           "and.b64 %rd5, %rd1, -16;",
           "and.b64 %rd5, -256, %rd1;",
           "or.b64 %rd5, %rd1, 4;",
           "or.b64 %rd5, %rd1, %rd9;",
           "xor.b64 %rd5, %rd1, 32;",
           "selp.b64 %rd5, %rd1, %rd1, %p1;",
           "max.u64 %rd5, %rd1, %rd9;",
       }) {
    const std::string index = "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd9, %r1, 4;\n";
    EXPECT_EQ(writes(kP + index + arithmetic + "\nst.global.u32 [%rd5+8], %r1;"), "0")
        << arithmetic;
  }
}

TEST(KernelWrites, APointerMadeOfTwo) {
  const std::string store = "st.global.u32 [%rd5], %r1;";
  for (const char* both : {
           "sub.s64 %rd4, %rd2, %rd1;\nadd.s64 %rd5, %rd1, %rd4;",
           "selp.b64 %rd5, %rd1, %rd2, %p1;",
           "mov.b64 %fd1, %rd1;\nmov.b64 %fd2, %rd2;\nselp.f64 %fd3, %fd1, %fd2, %p1;\n"
           "mov.b64 %rd5, %fd3;",
           "slct.u64.s32 %rd5, %rd1, %rd2, %r1;",
           "min.u64 %rd5, %rd1, %rd2;",
           "mov.u64 %rd5, %rd1;\n@%p1 bra L;\nmov.u64 %rd5, %rd2;\nL:",
           "mov.u64 %rd5, %rd1;\nL:\nadd.s64 %rd5, %rd5, 4;\n@%p1 mov.u64 %rd5, %rd2;\n@%p2 bra L;",
       }) {
    EXPECT_EQ(writes(kP + kQ + both + "\n" + store), "0|1") << both;
  }
  // Each store has its own.
  EXPECT_EQ(writes(kP + kQ + "st.global.u32 [%rd1], 0;\nst.global.u32 [%rd2], 0;"), "0 1");
}

TEST(KernelWrites, AnIntegerParameterMayBeAnything) {
  EXPECT_EQ(writes(kP + kM + "add.s64 %rd5, %rd1, %rd3;\nst.global.u8 [%rd5], 0;"), "0|4");
  EXPECT_EQ(writes(kM + "st.global.u8 [%rd3], 0;"), "4");
  // Scaled it is a number: whether it is one after all is looked at at the launch.
  EXPECT_EQ(writes(kP + kM +
                   "shl.b64 %rd4, %rd3, 2;\nadd.s64 %rd5, %rd1, %rd4;\n"
                   "st.global.u32 [%rd5], 0;"),
            "0 #4");
  EXPECT_EQ(writes(kP + kM +
                   "cvt.u32.u64 %r1, %rd3;\nmad.wide.u32 %rd5, %r1, 4, %rd1;\n"
                   "st.global.u32 [%rd5], 0;"),
            "0 #4");
  EXPECT_EQ(writes(kP + "ld.param.u32 %r1, [n];\nmad.wide.u32 %rd5, %r1, 4, %rd1;\n"
                        "st.global.u32 [%rd5], 0;"),
            "0");
}

TEST(KernelWrites, LowBitsAreNoPointer) {
  EXPECT_EQ(writes(kP + kQ +
                   "and.b64 %rd4, %rd2, 15;\nadd.s64 %rd5, %rd1, %rd4;\n"
                   "st.global.u32 [%rd5], 0;"),
            "0");
  EXPECT_EQ(writes(kP + "cvt.u32.u64 %r1, %rd1;\nand.b32 %r2, %r1, 15;\n"
                        "mad.wide.u32 %rd5, %r2, 4, %rd1;\nst.global.u32 [%rd5], 0;"),
            "0");
}

TEST(KernelWrites, WhatChangesHighBitsIsNotFollowed) {
  for (const char* arithmetic : {
           "shl.b64 %rd5, %rd1, 1;",
           "shr.u64 %rd5, %rd1, 12;",
           "mul.lo.s64 %rd5, %rd1, 3;",
           "and.b64 %rd5, %rd1, 4294967295;",
           "and.b64 %rd5, %rd1, -2097152;",
           "and.b64 %rd5, %rd1, %rd9;",
           "not.b64 %rd5, %rd1;",
           "bfi.b64 %rd5, %rd9, %rd1, 0, 8;",
           "cvt.u32.u64 %r3, %rd1;\ncvt.u64.u32 %rd5, %r3;",
       }) {
    EXPECT_EQ(writes(kP + "mov.u64 %rd9, %clock64;\n" + arithmetic + "\nst.global.u32 [%rd5], 0;"),
              "?")
        << arithmetic;
    // Beside a pointer it is a number, looked at at the launch.
    const std::string both = writes(kP + kQ + "mov.u64 %rd9, %clock64;\n" + arithmetic +
                                    "\nadd.s64 %rd6, %rd2, %rd5;\nst.global.u32 [%rd6], 0;");
    EXPECT_EQ(both, "1 #0") << arithmetic;
  }
}

// A register that was assigned twice may hold either value.
TEST(KernelWrites, ElementsThatChangePlaces) {
  EXPECT_EQ(writes(kP + kQ + "mov.v2.u64 {%rd1, %rd2}, {%rd2, %rd1}; st.global.u32 [%rd2], 1;\n"),
            "0|1");
  EXPECT_EQ(writes(kP + kQ + "mov.v2.u64 {%rd3, %rd4}, {%rd2, %rd1}; st.global.u32 [%rd4], 1;\n"),
            "0");
}

TEST(KernelWrites, NumberedVariables) {
  EXPECT_EQ(writes(kP + kQ +
                   ".param .u64 %P<2>; st.param.u64 [%P0], %rd1; st.param.u64 [%P1], %rd2;\n"
                   "ld.param.u64 %rd3, [%P1]; st.global.u32 [%rd3], 1;\n"),
            "1");
}

TEST(KernelWrites, SharedMemoryByItsGenericName) {
  EXPECT_EQ(writes(".shared .b32 ours[4]; st.u32 [ours+4], 1;\n"), "");
}

TEST(KernelWrites, HalvesOfAPointer) {
  const std::string store = "\nst.global.u32 [%rd5], 0;";
  // Taken apart and put together again, in any way that keeps all of it.
  EXPECT_EQ(writes(kP + "mov.b64 {%r1, %r2}, %rd1;\nmov.b64 %rd5, {%r1, %r2};" + store), "0");
  EXPECT_EQ(writes("ld.param.v2.u32 {%r1, %r2}, [s+16];\nmov.b64 %rd5, {%r1, %r2};" + store),
            "3+16");
  EXPECT_EQ(writes("ld.param.u32 %r1, [s+4];\nld.param.u32 %r2, [s+8];\n"
                   "mov.b64 %rd5, {%r1, %r2};" +
                   store),
            "3+4");
  // Else it is nobody's.
  EXPECT_EQ(writes(kP + kQ +
                   "mov.b64 {%r1, %r2}, %rd1;\nmov.b64 {%r3, %r4}, %rd2;\n"
                   "mov.b64 %rd5, {%r1, %r4};" +
                   store),
            "?");
  EXPECT_EQ(writes(kP + "mov.b64 {%r1, %r2}, %rd1;\nmov.b64 %rd5, {%r2, %r1};" + store), "?");
  EXPECT_EQ(writes(kP +
                   "mov.b64 {%r1, %r2}, %rd1;\nadd.s32 %r1, %r1, 4;\n"
                   "mov.b64 %rd5, {%r1, %r2};" +
                   store),
            "?");
  EXPECT_EQ(writes(kQ +
                   "mov.u32 %r1, %tid.x;\nmov.b64 %rd4, {%r1, %r1};\n"
                   "add.s64 %rd5, %rd2, %rd4;" +
                   store),
            "1 ?");
  EXPECT_EQ(writes(kQ +
                   "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nmov.b64 %rd4, {%r1, %r2};\n"
                   "add.s64 %rd5, %rd2, %rd4;" +
                   store),
            "1");
  EXPECT_EQ(writes(kP +
                   "mov.b64 {%r1, %r2}, %rd1;\nvadd.u32.u32.u32 %r1, %r1.h0, 4;\n"
                   "mov.b64 %rd5, {%r1, %r2};" +
                   store),
            "?");
  // By shifts: nothing says whose upper half it is.
  EXPECT_EQ(writes(kQ +
                   "ld.param.u32 %r1, [n];\ncvt.u64.u32 %rd4, %r1;\nshl.b64 %rd4, %rd4, 32;\n"
                   "add.s64 %rd5, %rd2, %rd4;" +
                   store),
            "1 ?");
}

TEST(KernelWrites, AddressesFromElsewhereAreNotFollowed) {
  const std::string store = "\nst.global.u32 [%rd5], 0;";
  EXPECT_NE(why_not(kP + "ld.global.u64 %rd5, [%rd1];" + store).find("loaded from memory"),
            std::string::npos);
  EXPECT_NE(why_not("ld.shared.u64 %rd5, [%r1];" + store).find("loaded from memory"),
            std::string::npos);
  EXPECT_NE(why_not(kP + "atom.global.exch.b64 %rd5, [%rd1], %rd9;" + store).find("atomic"),
            std::string::npos);
  EXPECT_NE(why_not("mov.u64 %rd5, %clock64;" + store).find("no pointer"), std::string::npos);
  EXPECT_NE(why_not("mov.u64 %rd5, 4096;" + store).find("no pointer"), std::string::npos);
  EXPECT_NE(why_not("st.global.u32 [%rd6], 0;").find("no pointer"), std::string::npos);
  EXPECT_NE(why_not(kP +
                    "mov.b64 {%r1, %r2}, %rd1;\n"
                    "shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\n"
                    "shfl.sync.idx.b32 %r4, %r2, 0, 31, -1;\nmov.b64 %rd5, {%r3, %r4};" +
                    store)
                .find("put together"),
            std::string::npos);
  EXPECT_NE(why_not(kP + "strange.b64 %rd5, %rd1;" + store).find("not followed"),
            std::string::npos);
}

TEST(KernelWrites, IndicesFromMemoryAreNoPointers) {
  EXPECT_EQ(writes(kP + kQ +
                   "ld.global.u32 %r1, [%rd2];\nmad.wide.u32 %rd5, %r1, 4, %rd1;\n"
                   "st.global.u32 [%rd5], 0;"),
            "0");
  EXPECT_EQ(writes(kP + kQ +
                   "ld.global.u64 %rd6, [%rd2];\nshl.b64 %rd4, %rd6, 2;\n"
                   "add.s64 %rd5, %rd1, %rd4;\nst.global.u32 [%rd5], 0;"),
            "0");
  // In bytes it might as well be the distance to other memory.
  EXPECT_EQ(writes(kP + kQ +
                   "ld.global.u64 %rd4, [%rd2];\nadd.s64 %rd5, %rd1, %rd4;\n"
                   "st.global.u8 [%rd5], 0;"),
            "0 ?");
}

TEST(KernelWrites, VideoInstructionsGiveNumbers) {
  for (const char* instruction :
       {"vadd.u32.u32.u32.sat %r1, %r2.b0, %r3.h1;", "vmad.s32.s32.u32.shr7 %r1, %r2, -%r3, %r1;",
        "vset4.u32.u32.lt.add %r1.b20, %r2.b7654, %r3, %r1;",
        "vavrg2.u32.u32.u32 %r1.h1, %r2, %r3, %r1;",
        "vshr.u32.u32.u32.wrap.min %r1, %r2, %r3, %r1;"}) {
    EXPECT_EQ(
        writes(kQ + "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nmov.u32 %r3, %r1;\n" + instruction +
               "\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd2, %rd4;\n"
               "st.global.u32 [%rd5], 0;"),
        "1")
        << instruction;
  }
}

TEST(KernelWrites, PointersInStructures) {
  EXPECT_EQ(writes("ld.param.u64 %rd1, [s+8];\nst.global.u32 [%rd1], 0;"), "3+8");
  EXPECT_EQ(writes("ld.param.v2.u64 {%rd1, %rd2}, [s+16];\nst.global.u32 [%rd2], 0;"), "3+24");
  EXPECT_EQ(writes("mov.b64 %rd1, s;\nadd.s64 %rd2, %rd1, 8;\nld.param.u64 %rd3, [%rd2+16];\n"
                   "st.global.u32 [%rd3], 0;"),
            "3+24");
  EXPECT_EQ(writes("mov.b64 %rd1, s;\ncvta.param.u64 %rd2, %rd1;\nld.u64 %rd3, [%rd2+32];\n"
                   "st.global.u32 [%rd3], 0;"),
            "3+32");
  // An element that is not known: any of them.
  EXPECT_EQ(writes("mov.b64 %rd1, s;\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 8;\n"
                   "add.s64 %rd1, %rd1, %rd2;\nld.param.u64 %rd3, [%rd1];\n"
                   "st.global.u32 [%rd3], 0;"),
            "3+*");
  EXPECT_EQ(writes("ld.param.u64 %rd1, [s+36];\nst.global.u32 [%rd1], 0;"), "?");
  EXPECT_EQ(writes("ld.param.u32 %r1, [s+20];\ncvt.u64.u32 %rd4, %r1;\nadd.s64 %rd5, %rd4, 4;\n" +
                   kP + "add.s64 %rd5, %rd1, %rd5;\nst.global.u32 [%rd5], 0;"),
            "0 #3+16");
}

const std::string kDepot =
    ".local .align 8 .b8 depot[64];\nmov.u64 %rd10, depot;\n"
    "cvta.local.u64 %rd11, %rd10;\n";

TEST(KernelWrites, PointersThroughLocalMemory) {
  const std::string store = "\nst.global.u32 [%rd5], 0;";
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.local.u64 [%rd10+8], %rd1;\nst.local.u64 [%rd10], %rd2;\n"
                   "ld.local.u64 %rd5, [%rd10+8];" +
                   store),
            "0");
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.u64 [%rd11+8], %rd1;\nst.u64 [%rd11], %rd2;\n"
                   "ld.u64 %rd5, [%rd11];" +
                   store),
            "1");
  // Copied in halves, and in larger pieces.
  EXPECT_EQ(writes(kDepot +
                   "ld.param.v4.u32 {%r1, %r2, %r3, %r4}, [s];\n"
                   "st.local.v4.u32 [%rd10+16], {%r1, %r2, %r3, %r4};\n"
                   "ld.local.u64 %rd5, [%rd10+24];" +
                   store),
            "3+8");
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.local.v2.u64 [%rd10], {%rd1, %rd2};\n"
                   "ld.local.v2.u64 {%rd3, %rd5}, [%rd10];" +
                   store),
            "1");
  // By an index that is not known: any of what was put there.
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.local.u64 [%rd10], %rd1;\nst.local.u64 [%rd10+8], %rd2;\n"
                   "mov.u32 %r1, %tid.x;\nmad.wide.u32 %rd12, %r1, 8, %rd10;\n"
                   "ld.local.u64 %rd5, [%rd12];" +
                   store),
            "0|1");
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.local.u64 [%rd10], %rd1;\nmov.u32 %r1, %tid.x;\n"
                   "mad.wide.u32 %rd12, %r1, 8, %rd10;\n"
                   "st.local.u64 [%rd12], %rd2;\n"
                   "ld.local.u64 %rd5, [%rd10];" +
                   store),
            "0|1");
  // Half of one and half of another.
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "st.local.u64 [%rd10], %rd1;\nst.local.u64 [%rd10+8], %rd2;\n"
                   "ld.local.u64 %rd5, [%rd10+4];" +
                   store),
            "?");
  // All of one, or parts of it and of another.
  EXPECT_EQ(writes(kDepot + kP + kQ +
                   "add.s64 %rd3, %rd2, 8;\nst.local.u64 [%rd10], %rd3;\n"
                   "st.local.u64 [%rd10+4], %rd1;\nld.local.u64 %rd5, [%rd10+4];" +
                   store),
            "0 #1 ?");
  // Nothing was put there.
  EXPECT_EQ(writes(kDepot + "ld.local.u64 %rd5, [%rd10];" + store), "?");
  // A value that came from memory stays unknown.
  EXPECT_EQ(writes(kDepot + kP +
                   "ld.global.u64 %rd3, [%rd1];\nst.local.u64 [%rd10], %rd3;\n"
                   "ld.local.u64 %rd5, [%rd10];" +
                   store),
            "?");
}

TEST(KernelWrites, StoresToAThreadsOwnMemoryDoNotMatter) {
  EXPECT_EQ(writes(kDepot + "st.local.u32 [%rd10], 0;\nst.u32 [%rd11+4], 0;\n"
                            "atom.add.u32 %r1, [%rd11], 1;"),
            "");
  EXPECT_EQ(writes(".shared .align 4 .b8 tile[64];\nmov.u32 %r1, tile;\ncvt.u64.u32 %rd1, %r1;\n"
                   "cvta.shared.u64 %rd2, %rd1;\nst.u32 [%rd2+4], 0;\nst.shared.u32 [tile], 0;"),
            "");
  EXPECT_EQ(writes("mov.u64 %rd1, outside;\nst.u32 [%rd1], 0;", ".extern .shared .b8 outside[];\n"),
            "");
  // Either of both: the one that matters counts.
  EXPECT_EQ(writes(kDepot + kP + "selp.b64 %rd5, %rd11, %rd1, %p1;\nst.u32 [%rd5], 0;"), "0");
}

TEST(KernelWrites, ModuleVariables) {
  const std::string before =
      ".visible .global .align 8 .b8 state[64];\n.global .align 8 .u64 link;\n"
      ".const .align 8 .u64 fixed;\n";
  EXPECT_EQ(writes("st.global.u32 [state+8], 0;", before), "@state");
  EXPECT_EQ(writes("mov.u64 %rd1, state;\ncvta.global.u64 %rd2, %rd1;\nadd.s64 %rd3, %rd2, 8;\n"
                   "atom.add.u32 %r1, [%rd3], 1;",
                   before),
            "@state");
  EXPECT_EQ(writes(kP + "mov.u64 %rd2, link;\nselp.b64 %rd5, %rd1, %rd2, %p1;\n"
                        "st.u32 [%rd5], 0;",
                   before),
            "0 @link");
  EXPECT_EQ(writes("ld.global.u64 %rd1, [link];\nst.global.u32 [%rd1], 0;", before), "?");
  EXPECT_EQ(writes("ld.const.u64 %rd1, [fixed];\nst.global.u32 [%rd1], 0;", before), "?");
}

const std::string kFill =
    ".func fill(.param .b64 where, .param .b32 what)\n{\n.reg .b64 %a; .reg .b32 %b;\n"
    "ld.param.b64 %a, [where];\nld.param.b32 %b, [what];\nst.u32 [%a], %b;\nret;\n}\n";
const std::string kAdvance =
    ".func (.param .b64 out) advance(.param .b64 where)\n{\n.reg .b64 %a;\n"
    "ld.param.b64 %a, [where];\nadd.s64 %a, %a, 4;\nst.param.b64 [out], %a;\nret;\n}\n";

std::string call_fill(const std::string& reg) {
  return "{ .param .b64 a0; .param .b32 a1;\nst.param.b64 [a0], " + reg +
         ";\nst.param.b32 [a1], %r1;\ncall.uni fill, (a0, a1);\n}\n";
}

TEST(KernelWrites, CallsAreFollowed) {
  EXPECT_EQ(writes(kP + call_fill("%rd1"), kFill), "0");
  EXPECT_EQ(writes(kP + kQ + call_fill("%rd1") + call_fill("%rd2"), kFill), "0|1");
  EXPECT_EQ(writes(kP + "{ .param .b64 a0; .param .b64 r0;\nst.param.b64 [a0], %rd1;\n"
                        "call.uni (r0), advance, (a0);\nld.param.b64 %rd5, [r0];\n}\n"
                        "st.global.u32 [%rd5], 0;",
                   kAdvance),
            "0");
  // A function that is not called does not count.
  EXPECT_EQ(writes(kP, kFill), "");
  EXPECT_EQ(writes(kP + "{ .reg .b64 t;\ncall (t), advance, (%rd1);\nst.global.u32 [t], 0; }",
                   ".func (.reg .u64 out) advance(.reg .u64 in) { add.u64 out, in, 8; ret; }\n"),
            "0");
}

TEST(KernelWrites, StructuresPassedByValue) {
  const std::string callee =
      ".func fill(.param .align 8 .b8 both[16])\n{\n.reg .b64 %a;\n"
      "ld.param.b64 %a, [both+8];\nst.u32 [%a], 0;\nret;\n}\n";
  EXPECT_EQ(writes(kP + kQ +
                       "{ .param .align 8 .b8 a0[16];\nst.param.b64 [a0], %rd1;\n"
                       "st.param.b64 [a0+8], %rd2;\ncall fill, (a0);\n}\n",
                   callee),
            "1");
}

TEST(KernelWrites, PointersToLocalMemoryPassedOn) {
  const std::string callee =
      ".func fill(.param .b64 where)\n{\n.reg .b64 %a, %b;\n"
      "ld.param.b64 %a, [where];\nld.u64 %b, [%a+8];\nst.u32 [%b], 0;\nst.u64 [%a], %b;\nret;\n}\n";
  const std::string call = "{ .param .b64 a0;\nst.param.b64 [a0], %rd11;\ncall fill, (a0);\n}\n";
  EXPECT_EQ(writes(kDepot + kP + "st.local.u64 [%rd10+8], %rd1;\n" + call, callee), "0");
  // The caller sees the value that the callee puts there.
  EXPECT_EQ(writes(kDepot + kQ + "st.local.u64 [%rd10+8], %rd2;\n" + call +
                       "ld.local.u64 %rd5, [%rd10];\nst.global.u32 [%rd5], 0;",
                   callee),
            "1");
}

TEST(KernelWrites, RecursionEnds) {
  const std::string callee =
      ".func fill(.param .b64 where)\n{\n.reg .b64 %a; .reg .pred %p;\n"
      "ld.param.b64 %a, [where];\nst.u32 [%a], 0;\nadd.s64 %a, %a, 4;\n"
      "@%p bra END;\n{ .param .b64 a0;\nst.param.b64 [a0], %a;\ncall fill, "
      "(a0);\n}\nEND:\nret;\n}\n";
  EXPECT_EQ(
      writes(kP + "{ .param .b64 a0;\nst.param.b64 [a0], %rd1;\ncall fill, (a0);\n}\n", callee),
      "0");
}

TEST(KernelWrites, CallsThatAreNotFollowed) {
  EXPECT_NE(why_not("{ .param .b64 a0;\nproto: .callprototype _ (.param .b64 _);\n"
                    "call %rd1, (a0), proto;\n}\n")
                .find("through a pointer"),
            std::string::npos);
  EXPECT_NE(why_not("call elsewhere;\n", ".extern .func elsewhere();\n")
                .find("the code of elsewhere is not here"),
            std::string::npos);
  EXPECT_NE(why_not("call fill;\n", kFill).find("other arguments"), std::string::npos);
  const std::string printing =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n";
  EXPECT_EQ(
      writes("{ .param .b64 a0; .param .b64 a1; .param .b32 r0;\ncall (r0), vprintf, (a0, a1);\n}",
             printing),
      "");
  // The result of an unknown function.
  EXPECT_EQ(writes("{ .param .b64 r0;\ncall (r0), make;\nld.param.b64 %rd5, [r0];\n}\n"
                   "st.global.u32 [%rd5], 0;",
                   ".extern .func (.param .b64 r) make();\n"),
            "?");
}

// Beside a pointer that is known.
TEST(KernelWrites, WhatAnUnknownFunctionGivesBackIsADoubt) {
  EXPECT_EQ(writes(kP + "{ .param .b64 r0;\ncall (r0), make;\nld.param.b64 %rd4, [r0];\n}\n"
                        "selp.b64 %rd5, %rd1, %rd4, %p1;\nst.global.u32 [%rd5], 0;",
                   ".extern .func (.param .b64 r) make();\n"),
            "0 ?");
}

TEST(KernelWrites, HalfOfAVariablesAddressIsNone) {
  EXPECT_EQ(writes("mov.u32 %r1, state;\ncvt.u64.u32 %rd1, %r1;\nst.global.u32 [%rd1], 0;",
                   ".visible .global .align 8 .b8 state[64];\n"),
            "?");
}

TEST(KernelWrites, FunctionNamedInTheReason) {
  const std::string callee =
      ".func stray()\n{\n.reg .b64 %a;\nld.global.u64 %a, [%a];\nst.global.u32 [%a], 0;\nret;\n}\n";
  EXPECT_NE(why_not("call stray;\n", callee).find("in stray"), std::string::npos);
}

TEST(KernelWrites, LoopsEnd) {
  EXPECT_EQ(writes(kP + "L:\nst.global.u32 [%rd1], 0;\nadd.s64 %rd1, %rd1, 4;\n@%p1 bra L;"), "0");
  EXPECT_EQ(writes(kDepot + kP +
                   "L:\nst.local.u64 [%rd10], %rd1;\nadd.s64 %rd10, %rd10, 8;\n"
                   "@%p1 bra L;\nld.local.u64 %rd5, [%rd10];\n"
                   "st.global.u32 [%rd5], 0;"),
            "0");
}

TEST(KernelWrites, OtherAddressSizes) {
  const std::string text =
      ".version 8.3\n.target sm_90\n.address_size 32\n.entry k(.param .u32 p) { ret; }\n";
  EXPECT_FALSE(KernelCode(read_image(as_bytes(text)), 90).find("k").proven);
}

// The text of an image with one kernel that stores through its first parameter.
std::string small_ptx(const std::string& name = "k") {
  return kHead + ".visible .entry " + name +
         "(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.u32 [%a], 0; ret; }\n";
}

TEST(KernelWrites, MachineCodeBesidePtxIsAnotherProgram) {
  const std::string elf(
      "\x7f"
      "ELF",
      4);
  const auto of = [&](uint32_t elf_arch, uint32_t arch) {
    const std::string fat = fat_container(fat_entry({1, 70, 0x11, small_ptx(), 0}) +
                                          fat_entry({2, elf_arch, 0x11, elf, 0}));
    return KernelCode(read_image(as_bytes(fat)), arch).find("k");
  };
  EXPECT_FALSE(of(90, 90).proven);
  EXPECT_TRUE(of(90, 90).resolved);
  EXPECT_EQ(text_of(of(90, 90)), "0");
  EXPECT_FALSE(of(80, 86).proven);
  EXPECT_FALSE(of(75, 0).proven);
  // Machine code that the device cannot run does not count.
  EXPECT_TRUE(of(75, 90).proven);
  EXPECT_TRUE(of(86, 80).proven);
}

TEST(KernelWrites, SeveralTranslations) {
  const std::string other =
      kHead +
      ".visible .entry k(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p];\n"
      "ld.u64 %a, [%a]; st.u32 [%a], 0; ret; }\n";
  const auto of = [](const std::string& first, const std::string& second, uint32_t second_arch) {
    const std::string fat = fat_container(fat_entry({1, 70, 0x11, first, 0}) +
                                          fat_entry({1, second_arch, 0x11, second, 0}));
    return KernelCode(read_image(as_bytes(fat)), 90).find("k");
  };
  EXPECT_TRUE(of(small_ptx(), small_ptx(), 80).proven);
  EXPECT_FALSE(of(small_ptx(), other, 80).proven);
  EXPECT_FALSE(of(small_ptx(), other, 80).resolved);
  EXPECT_TRUE(of(small_ptx(), other, 100).proven);
}

TEST(KernelWrites, WhatCannotBeReadIsNotProven) {
  const KernelCode broken(read_image(as_bytes(kHead + ".entry k() { nonsense")), 90);
  EXPECT_FALSE(broken.find("k").proven);
  EXPECT_NE(broken.find("k").reason.find("not understood"), std::string::npos);
  EXPECT_FALSE(KernelCode(read_image({}), 90).find("k").proven);
  const KernelCode code(read_image(as_bytes(small_ptx())), 90);
  EXPECT_TRUE(code.find("k").proven);
  EXPECT_FALSE(code.find("other").proven);
  EXPECT_FALSE(code.find("other").layout_known);
  EXPECT_EQ(code.names(), std::vector<std::string>{"k"});
}

// One launch of a kernel that stores through p, through the word at 8 of s, and to nothing else;
// m is a number.
class Launch : public testing::Test {
 protected:
  Launch() {
    for (const uint64_t start : {0x10000000, 0x20000000, 0x30000000}) {
      EXPECT_TRUE(memory_.insert({start, 0x1000, MemoryKind::kDevice, {}, 0, 0, ""}));
    }
    words_[1] = 0x20000010;
  }
  // The memory that a launch may write, by the first hexadecimal digit of each range; "?": that is
  // likely, "??": that is all that is known.
  std::string collect() {
    WriteSet set;
    void* params[] = {&p_, &q_, &n_, words_, &m_};
    const Certainty known = collect_writes(kernel_, params, nullptr, memory_, set);
    return text_of(set) + (known == Certainty::kProven   ? ""
                           : known == Certainty::kLikely ? "?"
                                                         : "??");
  }
  static std::string text_of(const WriteSet& set) {
    EXPECT_TRUE(set.said());
    if (set.everything()) return "all";
    std::string text;
    for (const WriteSet::Range& range : set) {
      EXPECT_EQ(range.size, WriteSet::kWholeRange);
      EXPECT_EQ(range.address & 0xfffffff, 0u);
      text += static_cast<char>('0' + (range.address >> 28));
    }
    return text;
  }

  MemoryMap memory_;
  KernelWrites kernel_ = analyse(kP + kM +
                                 "shl.b64 %rd4, %rd3, 2;\nadd.s64 %rd5, %rd1, %rd4;\n"
                                 "st.global.u32 [%rd5], 0;\nld.param.u64 %rd6, [s+8];\n"
                                 "st.global.u32 [%rd6], 0;\n");
  uint64_t p_ = 0x10000000, q_ = 0x30000000, m_ = 12;
  uint32_t n_ = 7;
  uint64_t words_[5] = {};
};

TEST_F(Launch, PointersMeanTheirWholeRange) {
  EXPECT_EQ(collect(), "12");
  p_ += 0xfff;
  EXPECT_EQ(collect(), "12");
}

TEST_F(Launch, OneRangeIsAddedOnce) {
  words_[1] = p_ + 8;
  EXPECT_EQ(collect(), "1");
}

TEST_F(Launch, AnEndMeansTheRangeBeforeIt) {
  p_ = 0x10001000;
  EXPECT_EQ(collect(), "12");
  // And the one that begins there.
  EXPECT_TRUE(memory_.insert({0x40000000, 0x10000000, MemoryKind::kDevice, {}, 0, 0, ""}));
  EXPECT_TRUE(memory_.insert({0x50000000, 0x1000, MemoryKind::kDevice, {}, 0, 0, ""}));
  p_ = 0x50000000;
  EXPECT_EQ(collect(), "542");
}

TEST_F(Launch, APointerIntoASpaceMeansAllOfIt) {
  memory_.add_space(0x40000000, 0x2000);
  p_ = 0x40001234;
  EXPECT_EQ(collect(), "42");
  p_ = 0x40002000;
  EXPECT_EQ(collect(), "42");
  p_ = 0x40002001;
  EXPECT_EQ(collect(), "23??");
}

TEST_F(Launch, NullPointersWriteNothing) {
  p_ = 0;
  EXPECT_EQ(collect(), "2");
}

// The address is that of the list's element, whatever m adds to it.
TEST_F(Launch, AnAddressInDisguise) {
  kernel_ = analyse(kQ + kM +
                    "ld.global.u64 %rd4, [%rd2];\nand.b64 %rd5, %rd4, 281474976710655;\n"
                    "add.s64 %rd6, %rd5, %rd3;\nst.global.u32 [%rd6], 0;");
  EXPECT_TRUE(kernel_.resolved);
  EXPECT_EQ(collect(), "132??");
  // So is one of a structure's words, which one is not known.
  kernel_ = analyse(kM +
                    "mov.b64 %rd1, s;\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 8;\n"
                    "add.s64 %rd1, %rd1, %rd2;\nld.param.u64 %rd4, [%rd1];\n"
                    "and.b64 %rd5, %rd4, 281474976710655;\nadd.s64 %rd6, %rd5, %rd3;\n"
                    "st.global.u32 [%rd6], 0;");
  EXPECT_EQ(collect(), "132??");
  // An index that was loaded hides nothing.
  kernel_ = analyse(kP + kQ +
                    "ld.global.u32 %r1, [%rd2];\nmad.wide.u32 %rd5, %r1, 4, %rd1;\n"
                    "st.global.u32 [%rd5], 0;");
  EXPECT_EQ(collect(), "1");
  p_ = 0;
  EXPECT_EQ(collect(), "");
}

TEST_F(Launch, APointerToNothingThatIsKnownIsNotUnderstood) {
  p_ = 0x77770000;
  EXPECT_EQ(collect(), "23??");
}

TEST_F(Launch, ANumberThatIsAPointerIsNotUnderstood) {
  m_ = 0x30000008;
  EXPECT_EQ(collect(), "123??");
}

TEST_F(Launch, OneOfSeveralSourcesIsEnough) {
  kernel_ = analyse(kP + kM + "add.s64 %rd5, %rd1, %rd3;\nst.global.u8 [%rd5], 0;");
  EXPECT_EQ(collect(), "1");
  m_ = 0x77770000;
  EXPECT_EQ(collect(), "1");
  p_ = 0x77770000;
  EXPECT_EQ(collect(), "32??");
}

TEST_F(Launch, ElementsOfAnArray) {
  kernel_ = analyse(
      "mov.b64 %rd1, s;\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 8;\n"
      "add.s64 %rd1, %rd1, %rd2;\nld.param.u64 %rd3, [%rd1];\n"
      "st.global.u32 [%rd3], 0;");
  words_[4] = 0x30000000;
  EXPECT_EQ(collect(), "23");
}

TEST_F(Launch, GuessesAreWhatAllArgumentsPointTo) {
  kernel_ = analyse(kP + "ld.global.u64 %rd5, [%rd1];\nst.global.u32 [%rd5], 0;");
  EXPECT_EQ(collect(), "132??");
  // With machine code beside it, what the PTX says is the better guess.
  kernel_ = analyse(kP + "st.global.u32 [%rd1], 0;");
  kernel_.proven = false;
  EXPECT_EQ(collect(), "1?");
  // The layout is all that is known of machine code alone.
  kernel_.pointers.clear();
  kernel_.resolved = kernel_.looked_at = false;
  EXPECT_EQ(collect(), "132?");
}

TEST_F(Launch, WithoutLayoutOrArgumentsItIsEverything) {
  WriteSet set;
  EXPECT_EQ(collect_writes(kernel_, nullptr, nullptr, memory_, set), Certainty::kUnknown);
  EXPECT_TRUE(set.everything());
  kernel_.layout_known = false;
  EXPECT_EQ(collect(), "all??");
  const std::string bare = kHead + ".entry k() { ret; }";
  WriteSet none;
  EXPECT_EQ(collect_writes(KernelCode(read_image(as_bytes(bare)), 90).find("k"), nullptr, nullptr,
                           memory_, none),
            Certainty::kProven);
  EXPECT_TRUE(none.said());
  EXPECT_TRUE(none.empty());
}

TEST_F(Launch, ArgumentsInOneBuffer) {
  struct {
    uint64_t p, q;
    uint32_t n, padding;
    uint64_t words[5];
    uint64_t m;
  } block = {p_, q_, n_, 0, {0, words_[1], 0, 0, 0}, m_};
  size_t bytes = sizeof block;
  void* extra[] = {reinterpret_cast<void*>(1), &block, reinterpret_cast<void*>(2), &bytes, nullptr};
  WriteSet set;
  EXPECT_EQ(collect_writes(kernel_, nullptr, extra, memory_, set), Certainty::kProven);
  EXPECT_EQ(text_of(set), "12");
  bytes = 8;  // the rest is not there, and not read
  WriteSet less;
  EXPECT_EQ(collect_writes(kernel_, nullptr, extra, memory_, less), Certainty::kUnknown);
  EXPECT_TRUE(less.everything());
}

// Such an executable lies at 4 MiB, mostly, and its heap after it.
TEST_F(Launch, TheDigestLeavesOutAddressesInAnExecutableAtAFixedPlace) {
  constexpr uint64_t kExecutable = 0x400000;
  void* params[] = {&p_, &q_, &n_, words_, &m_};
  const auto digest_with = [&](uint64_t m, uint64_t host_begins) {
    m_ = m;
    return digest_arguments(kernel_, params, nullptr, memory_, host_begins);
  };
  EXPECT_NE(digest_with(0xaca000, kNumbersEnd), digest_with(0xada000, kNumbersEnd));
  EXPECT_EQ(digest_with(0xaca000, kExecutable), digest_with(0xada000, kExecutable));
  EXPECT_NE(digest_with(1000, kExecutable), digest_with(1001, kExecutable));
  // Numbers of four bytes are no addresses.
  n_ = 0xaca000;
  const uint64_t other = digest_with(1000, kExecutable);
  n_ = 0xada000;
  EXPECT_NE(digest_with(1000, kExecutable), other);
}

TEST_F(Launch, TheDigestIsOfNumbersAndPointers) {
  void* params[] = {&p_, &q_, &n_, words_, &m_};
  const auto digest = [&] {
    return digest_arguments(kernel_, params, nullptr, memory_, kNumbersEnd);
  };
  const uint64_t first = digest();
  EXPECT_NE(first, 0U);
  const auto differs_with = [&](auto& argument) {
    ++argument;
    const bool differs = digest() != first;
    --argument;
    return differs;
  };
  EXPECT_TRUE(differs_with(p_));
  EXPECT_TRUE(differs_with(n_));
  EXPECT_TRUE(differs_with(m_));
  EXPECT_FALSE(differs_with(words_[3]));
  std::swap(p_, q_);
  EXPECT_NE(digest(), first);
  std::swap(p_, q_);
  EXPECT_EQ(digest(), first);
  struct {
    uint64_t p, q;
    uint32_t n, padding;
    uint64_t words[5];
    uint64_t m;
  } block = {p_, q_, n_, 0, {}, m_};
  size_t bytes = sizeof block;
  void* extra[] = {reinterpret_cast<void*>(1), &block, reinterpret_cast<void*>(2), &bytes, nullptr};
  EXPECT_EQ(digest_arguments(kernel_, nullptr, extra, memory_, kNumbersEnd), first);
  EXPECT_EQ(digest_arguments(kernel_, nullptr, nullptr, memory_, kNumbersEnd), 0U);
  // A variable's address may be another one, also where that it is a variable is not known yet.
  const uint64_t plain = q_;
  ASSERT_TRUE(memory_.insert({0x120000000, 16, MemoryKind::kDevice, {}, 0, 0, ""}));
  q_ = 0x110000004;
  const uint64_t unknown = digest();
  MemoryRange variable;
  variable.address = 0x110000000;
  variable.size = 16;
  variable.kind = MemoryKind::kGlobal;
  variable.name = "v";
  ASSERT_TRUE(memory_.insert(variable));
  const uint64_t known = digest();
  q_ = 0x110000008;
  EXPECT_EQ(digest(), known);
  EXPECT_NE(known & kDigestMask, unknown & kDigestMask);
  q_ = plain;
  // Addresses of the host are all alike; addresses of the device count as far as they are known.
  m_ = 0x7fff12345678;
  const uint64_t host = digest();
  m_ = 0x555512345678;
  EXPECT_EQ(digest(), host);
  EXPECT_EQ(digest() & kDigestMask, 0U);
  EXPECT_TRUE(memory_.insert({0x555500000000, 0x100000000, MemoryKind::kDevice, {}, 0, 0, ""}));
  EXPECT_EQ(digest() & kDigestMask, 1U << 4);
  const uint64_t device = digest();
  ++m_;
  EXPECT_NE(digest(), device);
  kernel_.layout_known = false;
  EXPECT_EQ(digest(), 0U);
}

// Code that compilers make of C++.
TEST(KernelWrites, ClangsCode) {
  const auto files = device_code(".ptx");
  for (const std::string& path : files) {
    if (path.find("/clang_") == std::string::npos) continue;
    const auto image = read_image(as_bytes(read_file(path)));
    const KernelCode code(image, 90);
    EXPECT_EQ(text_of(code.find("arithmetic")), "0 1 2 3 @counter") << path;
    EXPECT_TRUE(code.find("arithmetic").proven);
    EXPECT_EQ(text_of(code.find("calls")), "1 @counter ?") << path;
    EXPECT_NE(code.find("calls").reason.find("through a pointer"), std::string::npos);
    EXPECT_EQ(text_of(code.find("by_index")), "0+*|1") << path;
    EXPECT_EQ(text_of(code.find("by_difference")), "0|1") << path;
    EXPECT_EQ(text_of(code.find("through_function")), "0 1+8") << path;
    EXPECT_EQ(text_of(code.find("chased")), "?") << path;
    EXPECT_EQ(text_of(code.find("aligned")), "0") << path;
  }
}

TEST(KernelWrites, NvccsCodeWithAndWithoutDebugging) {
  for (const char* name : {"nvcc.ptx", "nvcc_debug.ptx", "nvcc_lineinfo.ptx"}) {
    for (const std::string& path : device_code(name)) {
      const auto image = read_image(as_bytes(read_file(path)));
      const KernelCode code(image, 90);
      EXPECT_EQ(text_of(code.find("_Z6reduceIfEvPKT_PS0_i")), "1") << path;
      EXPECT_EQ(text_of(code.find("_Z5warpsPj")), "0") << path;
      EXPECT_EQ(text_of(code.find("_Z11mathematicsPdPfPx")), "0 1 2") << path;
      EXPECT_EQ(text_of(code.find("_Z7vectorsP6float4PK7double2P6uchar4P6short2")), "0 2") << path;
      EXPECT_FALSE(code.find("_Z8virtualsPii").proven);
    }
  }
}

TEST(KernelWrites, LayoutOfMachineCode) {
  for (const std::string& path : device_code("nvcc.cubin")) {
    const auto image = read_image(as_bytes(read_file(path)));
    const KernelWrites kernel = KernelCode(image, 75).find("_Z6reduceIfEvPKT_PS0_i");
    EXPECT_TRUE(kernel.layout_known);
    EXPECT_FALSE(kernel.proven);
    const std::vector<KernelWrites::Parameter> layout = {{0, 8}, {8, 8}, {16, 4}};
    EXPECT_EQ(kernel.parameters, layout);
    EXPECT_EQ(KernelCode(image, 75).names().size(), 6u);
  }
}

}  // namespace
}  // namespace gpusnap
