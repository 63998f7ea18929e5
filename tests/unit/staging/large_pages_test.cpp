// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/large_pages.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <sys/mman.h>

namespace gpusnap {
namespace {

constexpr const char* kSmaps =
    "1000-3000 rw-p 00000000 00:00 0 \n"
    "Size:                  8 kB\n"
    "Rss:                   8 kB\n"
    "AnonHugePages:         4 kB\n"
    "10000-410000 rw-s 00000000 00:1a 7 /dev/shm/gpusnap-0-3-0a\n"
    "Size:               4096 kB\n"
    "Rss:                3072 kB\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:     2048 kB\n"
    "FilePmdMapped:         0 kB\n"
    "VmFlags: rd wr sh hg dd \n"
    "410000-510000 rw-s 00400000 00:1a 7 /dev/shm/gpusnap-0-3-0a\n"
    "Rss:                1024 kB\n"
    "510000-610000 rw-p 00000000 00:00 0 \n"
    "Rss:                1024 kB\n"
    "AnonHugePages:      1024 kB\n";

// Its verdict on the range, and how many lines it has read for that.
PagesOfRange read(uint64_t start, uint64_t end, int* lines = nullptr) {
  SmapsReader reader(start, end);
  std::istringstream text(kSmaps);
  std::string line;
  for (int count = 1; std::getline(text, line) && reader.add_line(line); ++count) {
    if (lines != nullptr) *lines = count;
  }
  return reader.pages();
}

TEST(LargePages, AreAddedUpOverTheMappingsOfTheRange) {
  EXPECT_EQ(read(0x20000, 0x500000), (PagesOfRange{4096 << 10, 2048 << 10, true}));
  EXPECT_EQ(read(0x410000, 0x510000), (PagesOfRange{1024 << 10, 0, true}));
  EXPECT_EQ(read(0x510000, 0x610000), (PagesOfRange{1024 << 10, 1024 << 10, false}));
  EXPECT_EQ(read(0x5000, 0x6000), PagesOfRange{});
}

TEST(LargePages, NothingIsReadBehindTheRange) {
  int lines = 0;
  EXPECT_EQ(read(0x1000, 0x3000, &lines), (PagesOfRange{8 << 10, 4 << 10, false}));
  EXPECT_EQ(lines, 4);
}

TEST(LargePages, AreLackedByMemoryOfSmallPages) {
  constexpr size_t kBytes = 4 << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  (void)::madvise(memory, kBytes, MADV_NOHUGEPAGE);
  auto* const start = static_cast<std::byte*>(memory);
  EXPECT_EQ(lack_of_large_pages(start, kBytes), "") << "nothing is there";
  for (size_t at = 0; at < kBytes; at += 4096) start[at] = std::byte{1};
  EXPECT_NE(lack_of_large_pages(start, kBytes), "");
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace gpusnap
