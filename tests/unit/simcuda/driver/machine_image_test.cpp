// SPDX-License-Identifier: Apache-2.0
//
// Images that pass for machine code, as what reads cubins sees them.
#include "tools/simcuda/driver/machine_image.h"

#include <gtest/gtest.h>

#include <string>

#include "tracker/cubin.h"
#include "tracker/image.h"
#include "tracker/kernel_writes.h"

namespace simcuda {
namespace {

const std::string kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 filled = 5;
.global .align 8 .b8 zeroed[24];
.visible .global .attribute(.managed) .align 4 .u32 managed;
.visible .const .align 4 .b8 table[8];
.global .align 1 .b8 unused[3];
.visible .entry first(.param .u64 to, .param .u32 count, .param .align 8 .b8 all[24])
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [to];
  ld.const.u32 %r1, [table];
  st.global.u32 [%rd1], %r1;
  st.global.u32 [filled], %r1;
  mov.u64 %rd2, zeroed;
  st.global.u32 [%rd2], %r1;
  st.global.u32 [managed], %r1;
  ret;
}
.visible .entry second() { ret; }
)";

std::string image() {
  std::string why;
  const auto made = machine_image(kPtx, 90, &why);
  EXPECT_TRUE(made) << why;
  return made.value_or("");
}

TEST(MachineImage, RunsItsPtxAndShowsNone) {
  const std::string made = image();
  EXPECT_EQ(ptx_of_machine_image(made), kPtx);
  for (const char* word : {".version", ".target", "st.global", ".entry"}) {
    EXPECT_EQ(made.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(gpusnap::elf_size_at(reinterpret_cast<const std::byte*>(made.data())), made.size());
}

TEST(MachineImage, HasVariablesAndLayoutsOfACubin) {
  const std::string made = fat_binary_of(image(), 90);
  const gpusnap::ImageContents contents = gpusnap::read_image_at(made.data());
  ASSERT_EQ(contents.entries.size(), 1U) << contents.error;
  EXPECT_EQ(contents.entries[0].kind, gpusnap::ImageEntry::Kind::kElf);
  EXPECT_EQ(contents.entries[0].arch, 90U);
  EXPECT_TRUE(contents.unreadable.empty());
  const gpusnap::ImageGlobals globals = gpusnap::globals_of(contents);
  ASSERT_TRUE(globals.known) << globals.reason;
  std::string all;
  for (const gpusnap::GlobalVariable& each : globals.globals) {
    all += each.name + (each.constant ? " const" : "") + (each.managed ? " managed" : "") + " " +
           std::to_string(each.size) + "; ";
  }
  EXPECT_EQ(all, "filled 4; managed managed 4; table const 8; unused 3; zeroed 24; ");
  const gpusnap::KernelCode code(contents, 90);
  EXPECT_EQ(code.names(), (std::vector<std::string>{"first", "second"}));
  const gpusnap::KernelWrites first = code.find("first");
  EXPECT_FALSE(first.proven);
  EXPECT_FALSE(first.looked_at);
  EXPECT_EQ(first.parameters,
            (std::vector<gpusnap::KernelWrites::Parameter>{{0, 8}, {8, 4}, {16, 24}}));
  // A variable that no code names is no code's to write.
  EXPECT_EQ(first.globals, (std::vector<std::string>{"filled", "managed", "zeroed"}));
  EXPECT_TRUE(code.find("second").layout_known);
}

TEST(MachineImage, WhatIsNoneOfOursRunsNothing) {
  std::string why;
  EXPECT_FALSE(machine_image("no PTX", 90, &why));
  EXPECT_NE(why, "");
  EXPECT_FALSE(ptx_of_machine_image(""));
  EXPECT_FALSE(ptx_of_machine_image(kPtx));
  const std::string made = image();
  for (size_t bytes = 0; bytes < made.size(); bytes += 7) {
    EXPECT_FALSE(ptx_of_machine_image(std::string_view(made).substr(0, bytes)));
  }
}

}  // namespace
}  // namespace simcuda
