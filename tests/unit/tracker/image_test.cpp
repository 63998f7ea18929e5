#include "tracker/image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "cubin_builder.h"
#include "device_code.h"
#include "fat_binary_builder.h"

namespace gpusnap {
namespace {

const std::string kPtx =
    ".version 7.8\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .b8 state[64];\n.const .f64 weight = 1.0;\n"
    ".global .attribute(.managed) .u32 seen;\n.extern .global .u32 elsewhere;\n";

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

FatEntry zstd_entry(const std::string& text) {
  return {1, 75, 0x8011, zstd(text), text.size()};
}

const GlobalVariable* find(const ImageGlobals& globals, const std::string& name) {
  for (const GlobalVariable& variable : globals.globals) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

TEST(Image, PtxText) {
  const ImageContents contents = read_image(as_bytes(kPtx));
  EXPECT_EQ(contents.error, "");
  ASSERT_EQ(contents.entries.size(), 1U);
  EXPECT_EQ(contents.entries[0].kind, ImageEntry::Kind::kPtx);
  EXPECT_EQ(contents.entries[0].arch, 75U);
  EXPECT_EQ(contents.entries[0].bytes, kPtx);
  EXPECT_EQ(read_image_at(kPtx.c_str()).entries.at(0).bytes, kPtx);
}

TEST(Image, WhatIsNoImage) {
  const std::string noise = "no image\n";
  EXPECT_NE(read_image(as_bytes(noise)).error, "");
  EXPECT_NE(read_image({}).error, "");
  EXPECT_NE(read_image_at(nullptr).error, "");
  EXPECT_NE(read_image_at("").error, "");
  EXPECT_NE(read_image_at(noise.c_str()).error, "");
  EXPECT_FALSE(globals_of(read_image(as_bytes(noise))).known);
  EXPECT_NE(globals_of(read_image(as_bytes(noise))).reason, "");
}

TEST(Image, PlainAndCompressedEntries) {
  const std::string fat =
      fat_container(fat_entry({1, 60, 0x11, kPtx}) + fat_entry(zstd_entry(kPtx + "// more")));
  const ImageContents contents = read_image(as_bytes(fat));
  ASSERT_EQ(contents.entries.size(), 2U);
  EXPECT_TRUE(contents.unreadable.empty());
  EXPECT_EQ(contents.entries[0].arch, 60U);
  EXPECT_EQ(contents.entries[0].bytes, kPtx);
  EXPECT_EQ(contents.entries[1].arch, 75U);
  EXPECT_EQ(contents.entries[1].bytes, kPtx + "// more");
}

TEST(Image, Lz4Entry) {
  const std::string block = std::string("\x70", 1) + ".versio";
  const std::string fat = fat_container(fat_entry({1, 75, 0x2011, block, 7}));
  ASSERT_EQ(read_image(as_bytes(fat)).entries.size(), 1U);
  EXPECT_EQ(read_image(as_bytes(fat)).entries[0].bytes, ".versio");
}

TEST(Image, SeveralContainers) {
  const std::string one = fat_container(fat_entry({1, 60, 0x11, kPtx}));
  EXPECT_EQ(read_image(as_bytes(one + one)).entries.size(), 2U);
}

TEST(Image, WrapperIsFollowed) {
  const std::string fat = fat_container(fat_entry({1, 60, 0x11, kPtx}));
  const struct {
    uint32_t magic = 0x466243B1;
    uint32_t version = 1;
    const void* data = nullptr;
    const void* unused = nullptr;
  } wrapper = {0x466243B1, 1, fat.data(), nullptr};
  EXPECT_EQ(read_image_at(&wrapper).entries.at(0).bytes, kPtx);
}

TEST(Image, UnreadableEntriesAreNamedAndOthersKept) {
  FatEntry damaged = zstd_entry(kPtx);
  damaged.payload.resize(damaged.payload.size() - 9);
  FatEntry strange = {1, 75, 0x11, "xxxxxxxx", 100};
  const FatEntry unknown = {9, 75, 0x11, "????????"};
  FatEntry bomb = zstd_entry(kPtx);
  bomb.unpacked_bytes = uint64_t{1} << 50;
  const ImageContents contents = read_image(
      as_bytes(fat_container(fat_entry(strange) + fat_entry(unknown) + fat_entry(damaged) +
                             fat_entry(bomb) + fat_entry(zstd_entry(kPtx)))));
  ASSERT_EQ(contents.unreadable.size(), 4U);
  EXPECT_EQ(contents.unreadable[0],
            "entry 1 (PTX for compute_75): compressed in an unknown way, flags 17");
  EXPECT_EQ(contents.unreadable[1], "entry 2: unknown kind 9");
  EXPECT_EQ(contents.unreadable[2], "entry 3 (PTX for compute_75): its zstd data are damaged");
  EXPECT_EQ(contents.unreadable[3], "entry 4 (PTX for compute_75): its sizes are not possible");
  ASSERT_EQ(contents.entries.size(), 1U);
  EXPECT_EQ(contents.entries[0].bytes, kPtx);
}

// Every prefix and every changed byte: no crash, and whatever is read is not more than was there.
TEST(Image, DamagedContainers) {
  const std::string fat =
      fat_container(fat_entry({1, 60, 0x11, kPtx}) + fat_entry(zstd_entry(kPtx)));
  for (size_t size = 0; size < fat.size(); ++size) {
    EXPECT_LE(read_image(as_bytes(fat.substr(0, size))).entries.size(), 1U);
  }
  for (size_t at = 0; at < fat.size(); ++at) {
    std::string changed = fat;
    changed[at] = static_cast<char>(~changed[at]);
    EXPECT_LE(read_image(as_bytes(changed)).entries.size(), 2U);
  }
}

TEST(ImageGlobals, OfPtx) {
  const ImageGlobals globals = globals_of(read_image(as_bytes(kPtx)));
  ASSERT_TRUE(globals.known);
  EXPECT_EQ(globals.globals.size(), 3U);
  ASSERT_NE(find(globals, "state"), nullptr);
  EXPECT_EQ(find(globals, "state")->size, 64U);
  EXPECT_FALSE(find(globals, "state")->constant);
  EXPECT_TRUE(find(globals, "weight")->constant);
  EXPECT_TRUE(find(globals, "seen")->managed);
  EXPECT_EQ(find(globals, "elsewhere"), nullptr) << "another module's";
}

TEST(ImageGlobals, OfPtxThatCannotBeRead) {
  const ImageGlobals globals =
      globals_of(read_image(as_bytes(std::string(".version 7.8\n.nonsense\n"))));
  EXPECT_FALSE(globals.known);
  EXPECT_EQ(globals.reason, "PTX: line 2: a directive that may not stand in a module");
}

TEST(ImageGlobals, VariableInsideAFunctionHasNoNameToAskFor) {
  const std::string text = ".version 7.8\n.entry k() { .global .u32 hidden; ret; }";
  const ImageGlobals globals = globals_of(read_image(as_bytes(text)));
  EXPECT_FALSE(globals.known);
  EXPECT_EQ(globals.reason, "PTX: variable hidden of function k cannot be asked for by name");
}

std::string small_cubin() {
  CubinBuilder builder;
  const uint16_t zeroed = builder.section(".nv.global", SHT_NOBITS, 16);
  const uint16_t filled = builder.section(".nv.global.init", SHT_NOBITS, 8);
  const uint16_t constant = builder.section(".nv.constant3", SHT_NOBITS, 40);
  const uint16_t other = builder.section(".nv.shared.k", SHT_NOBITS, 8);
  builder.symbol("zeroed", zeroed, 16);
  builder.symbol("managed", filled, 8, 4);
  builder.symbol("constant", constant, 40);
  builder.symbol("tile", other, 8);
  return builder.build();
}

TEST(ImageGlobals, OfACubin) {
  const std::string cubin = small_cubin();
  const ImageContents contents = read_image_at(cubin.data());
  ASSERT_EQ(contents.entries.size(), 1U);
  EXPECT_EQ(contents.entries[0].bytes, cubin);
  EXPECT_EQ(contents.entries[0].kind, ImageEntry::Kind::kElf);
  const ImageGlobals globals = globals_of(contents);
  ASSERT_TRUE(globals.known) << globals.reason;
  EXPECT_EQ(globals.globals.size(), 3U);
  ASSERT_NE(find(globals, "zeroed"), nullptr);
  EXPECT_EQ(find(globals, "zeroed")->size, 16U);
  EXPECT_TRUE(find(globals, "managed")->managed);
  EXPECT_TRUE(find(globals, "constant")->constant);
}

TEST(ImageGlobals, KernelsThatCallMallocAreTold) {
  const std::string head = ".version 7.8\n.target sm_75\n.address_size 64\n";
  EXPECT_FALSE(globals_of(read_image(as_bytes(std::string(kPtx)))).device_heap);
  EXPECT_TRUE(globals_of(read_image(as_bytes(
                             head + ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
                                    ".entry k() { ret; }\n")))
                  .device_heap);
  const std::string own = ".func (.param .b64 r) malloc (.param .b64 n) { ret; }\n";
  EXPECT_FALSE(globals_of(read_image(as_bytes(head + own))).device_heap) << "the module's own";
  EXPECT_FALSE(globals_of(read_image(as_bytes(small_cubin()))).device_heap);
  CubinBuilder builder;
  builder.symbol("malloc", SHN_UNDEF, 0);
  EXPECT_TRUE(globals_of(read_image(as_bytes(builder.build()))).device_heap);
}

// As gcc links an OpenMP region: `user` may be a function of the program.
std::string linked_by_gcc(const std::string& more) {
  return ".version 7.8\n.target sm_75\n.address_size 64\n"
         ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
         ".visible .func (.param .b64 r) __nvptx_malloc (.param .b64 n) {\n"
         "  { .param .b64 a; .param .b64 b; call (b), malloc, (a); } ret; }\n"
         ".visible .func gomp_malloc { { .param .b64 a; .param .b64 b;\n"
         "  call (b), __nvptx_malloc, (a); } ret; }\n" +
         more + ".visible .func gomp_new_team { call gomp_malloc; ret; }\n" +
         ".entry k() { call gomp_new_team; ret; }\n";
}

bool keeps_heap(const std::string& text) {
  const ImageGlobals globals = globals_of(read_image(as_bytes(text)));
  EXPECT_TRUE(globals.known) << globals.reason;
  return globals.device_heap;
}

TEST(ImageGlobals, RegionsOfOpenMpGiveTheirHeapMemoryBack) {
  EXPECT_FALSE(keeps_heap(linked_by_gcc("")));
  EXPECT_TRUE(
      keeps_heap(linked_by_gcc(".visible .func keeps { { .param .b64 a; .param .b64 b;\n"
                               "  call (b), __nvptx_malloc, (a); } ret; }\n")))
      << "the program's own call";
  EXPECT_TRUE(
      keeps_heap(linked_by_gcc(".visible .func omp_alloc { { .param .b64 a; .param .b64 b;\n"
                               "  call (b), malloc, (a); } ret; }\n")))
      << "memory that the program asks for by OpenMP's interface";
  EXPECT_TRUE(
      keeps_heap(linked_by_gcc(".visible .func omp_init_allocator { call gomp_malloc; ret; }\n")))
      << "an allocator that the program makes and keeps";
  EXPECT_TRUE(keeps_heap(
      linked_by_gcc(".visible .func shows { .reg .b64 %x1; mov.u64 %x1, __nvptx_malloc; ret; }\n")))
      << "its address as a value";
  EXPECT_TRUE(keeps_heap(linked_by_gcc(".global .u64 table[1] = { __nvptx_malloc };\n")))
      << "its address in a table";
}

TEST(ImageGlobals, CubinWhoseDataNothingNames) {
  CubinBuilder builder;
  builder.section(".nv.global", SHT_NOBITS, 16);
  const ImageGlobals globals = globals_of(read_image(as_bytes(builder.build())));
  EXPECT_FALSE(globals.known);
  EXPECT_EQ(globals.reason, "machine code: section .nv.global has data but no symbols");
}

TEST(ImageGlobals, DamagedCubins) {
  const std::string cubin = small_cubin();
  for (size_t at = 0; at < cubin.size(); ++at) {
    for (const int flip : {0xFF, 0x01, 0x80}) {
      std::string changed = cubin;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      EXPECT_LE(globals_of(read_image(as_bytes(changed))).globals.size(), 4U);
    }
    EXPECT_LE(globals_of(read_image(as_bytes(cubin.substr(0, at)))).globals.size(), 3U);
  }
}

// All forms of nvcc's output have the same variables.
TEST(ImageOfNvcc, AllFormsHaveTheSameGlobals) {
  std::vector<std::string> files = device_code(".fatbin");
  for (const std::string& file : device_code(".cubin")) files.push_back(file);
  if (files.empty()) GTEST_SKIP() << "no nvcc";
  for (const std::string& file : files) {
    const std::string bytes = read_file(file);
    const ImageContents contents = read_image_at(bytes.data());
    EXPECT_EQ(contents.error, "") << file;
    EXPECT_EQ(contents.entries.size(), file.ends_with(".cubin") ? 1U : 2U) << file;
    if (file.ends_with(".cubin")) {
      EXPECT_EQ(contents.entries.at(0).bytes, bytes) << file;
    }
    for (const std::string& line : contents.unreadable) ADD_FAILURE() << file << ": " << line;
    const ImageGlobals globals = globals_of(contents);
    ASSERT_TRUE(globals.known) << file << ": " << globals.reason;
    for (const std::string name : {"managed_value", "state", "initial", "coefficients"}) {
      EXPECT_NE(find(globals, name), nullptr) << file << " " << name;
    }
    ASSERT_NE(find(globals, "state"), nullptr);
    EXPECT_EQ(find(globals, "state")->size, 64U) << file;
    EXPECT_TRUE(find(globals, "coefficients")->constant) << file;
    EXPECT_EQ(find(globals, "coefficients")->size, 40U) << file;
    EXPECT_TRUE(find(globals, "managed_value")->managed) << file;
    EXPECT_FALSE(find(globals, "initial")->managed) << file;
  }
}

}  // namespace
}  // namespace gpusnap
