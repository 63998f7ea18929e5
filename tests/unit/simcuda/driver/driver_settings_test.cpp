// Settings of the environment, seen in processes of their own.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace simcuda::test {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

// Runs the probe; `settings` go before it as in a shell. Standard error is part of the output.
Outcome probe(const std::string& settings, const std::string& arguments = "0") {
  Outcome run;
  std::string command = settings + " '" + std::getenv("DRIVER_PROBE") + "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  std::array<char, 256> buffer{};
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    run.output.append(buffer.data(), count);
  }
  run.status = pclose(pipe);
  return run;
}

std::string fact(const Outcome& run, const std::string& name) {
  size_t at = run.output.find(name + " ");
  if (at == std::string::npos) return "none";
  at += name.size() + 1;
  return run.output.substr(at, run.output.find('\n', at) - at);
}

TEST(Settings, AddressesRepeatFromRunToRun) {
  Outcome one = probe("");
  EXPECT_EQ(0, one.status) << one.output;
  EXPECT_EQ(one.output, probe("").output);
  EXPECT_EQ("a00000", fact(one, "small").substr(0, 6));
}

TEST(Settings, ASeedShiftsDeviceMemoryOnly) {
  Outcome plain = probe("");
  Outcome shifted = probe("SIMCUDA_ASLR=7");
  EXPECT_EQ(shifted.output, probe("SIMCUDA_ASLR=7").output);
  for (const char* name : {"small", "large", "variable"}) {
    EXPECT_NE(fact(plain, name), fact(shifted, name));
    EXPECT_NE(fact(shifted, name), fact(probe("SIMCUDA_ASLR=8"), name));
  }
  EXPECT_EQ(fact(plain, "managed"), fact(shifted, "managed"));
  EXPECT_EQ(fact(plain, "pinned"), fact(shifted, "pinned"));
  Outcome host = probe("SIMCUDA_HOST_ASLR=7");
  EXPECT_EQ(fact(plain, "small"), fact(host, "small"));
  EXPECT_NE(fact(plain, "pinned"), fact(host, "pinned"));
}

uint64_t address(const Outcome& run, const std::string& name) {
  return std::stoull(fact(run, name), nullptr, 16);
}

constexpr uint64_t kPage = 2 << 20;  // of the device

TEST(Settings, AddressesOfTheHostAreThoseOfTheProcess) {
  const Outcome plain = probe("");
  EXPECT_EQ("no", fact(plain, "in_use"));
  EXPECT_EQ("free", fact(plain, "freed_page"));
  const Outcome run = probe("SIMCUDA_ADDRESSES=host");
  EXPECT_EQ(0, run.status) << run.output;
  EXPECT_EQ("yes", fact(run, "in_use"));
  EXPECT_EQ("kept", fact(run, "freed_page"));
  EXPECT_EQ(512u, address(run, "small") % kPage);
  EXPECT_EQ(0u, address(run, "large") % kPage);
}

TEST(Settings, ASeedMovesAddressesOfTheHostWithinAPage) {
  std::vector<uint64_t> offsets;
  for (const char* seed : {"7", "8", "9"}) {
    const Outcome run = probe("SIMCUDA_ADDRESSES=host SIMCUDA_ASLR=" + std::string(seed));
    offsets.push_back(address(run, "small") % kPage);
    EXPECT_EQ(0u, offsets.back() % 512);
    EXPECT_EQ(0u, address(run, "large") % kPage);
  }
  EXPECT_NE(offsets[0], offsets[1]);
  EXPECT_NE(offsets[1], offsets[2]);
}

#ifndef GPUSNAP_SANITIZED  // sanitizers have memory of their own there
TEST(Settings, PoolsAndReservationsShareARegionOfTheHost) {
  const Outcome run = probe("SIMCUDA_ADDRESSES=host");
  const uint64_t pooled = address(run, "pooled");
  EXPECT_EQ(0x3u, pooled >> 32);
  EXPECT_GT(address(run, "unhinted"), pooled);
  EXPECT_LT(address(run, "unhinted"), pooled + (uint64_t{1} << 30));
}
#endif

#ifndef __SANITIZE_THREAD__  // has a program's memory in a few places only
TEST(Settings, HintsAreTakenUnlessRefusedOrInTheWay) {
  for (const std::string addresses : {"apart", "host"}) {
    const Outcome taken = probe("SIMCUDA_ADDRESSES=" + addresses);
    EXPECT_EQ("500000000000", fact(taken, "hinted"));
    EXPECT_EQ(addresses == "apart", fact(taken, "hinted_page") == "500002000000");
    EXPECT_NE("510000000000", fact(taken, "blocked"));
    const Outcome refused = probe("SIMCUDA_HINTS=refused SIMCUDA_ADDRESSES=" + addresses);
    EXPECT_EQ(0, refused.status) << refused.output;
    EXPECT_NE("500000000000", fact(refused, "hinted"));
  }
}
#endif

TEST(Settings, DevicesAndMemory) {
  Outcome run = probe("SIMCUDA_DEVICES=3 SIMCUDA_MEMORY=64M");
  EXPECT_EQ("3", fact(run, "devices"));
  EXPECT_EQ("67108864", fact(run, "memory"));
  EXPECT_NE(fact(probe(""), "small"), fact(run, "small"));
  EXPECT_NE(std::string::npos, probe("SIMCUDA_DEVICES=0").output.find("cuInit(0) 100"));
  // The probe's module is for sm_60.
  Outcome old = probe("SIMCUDA_ARCH=50");
  EXPECT_NE(std::string::npos, old.output.find("SIMCUDA_ARCH")) << old.output;
  EXPECT_NE(std::string::npos, old.output.find(" 209")) << old.output;
}

TEST(Settings, WhatCannotBeReadIsNamed) {
  for (const char* wrong : {"SIMCUDA_MEMORY=lots",
                            "SIMCUDA_MEMORY=4GB",
                            "SIMCUDA_MEMORY=1",
                            "SIMCUDA_DEVICES=-1",
                            "SIMCUDA_DEVICES=17",
                            "SIMCUDA_ARCH=9.0",
                            "SIMCUDA_SASS=2",
                            "SIMCUDA_DRIVER_VERSION=13.1",
                            "SIMCUDA_ASLR=99999999999999999999",
                            "SIMCUDA_ADDRESSES=near",
                            "SIMCUDA_HINTS=no",
                            "SIMCUDA_MEMORY=''",
                            "SIMCUDA_CLOCK=fast",
                            "SIMCUDA_PACE=0",
                            "SIMCUDA_PACE=2x",
                            "SIMCUDA_PINNING=fast",
                            "SIMCUDA_BANDWIDTH=memory",
                            "SIMCUDA_BANDWIDTH=memory:2X",
                            "SIMCUDA_BANDWIDTH=memory:1",
                            "SIMCUDA_BANDWIDTH=memory:2T,",
                            "SIMCUDA_BANDWIDTH=disk:2T",
                            "SIMCUDA_LATENCY=kernel:5",
                            "SIMCUDA_LATENCY=kernel:5s",
                            "SIMCUDA_LATENCY=set:5us",
                            "SIMCUDA_FAULT=alloc",
                            "SIMCUDA_FAULT=alloc:0",
                            "SIMCUDA_FAULT=alloc:2-",
                            "SIMCUDA_FAULT=free:2",
                            "SIMCUDA_HOLD=to_host",
                            "SIMCUDA_HOLD=to_host:",
                            "SIMCUDA_HOLD=memory:/x",
                            "SIMCUDA_LINKS=''",
                            "SIMCUDA_LINKS=0,24G/24G,0",
                            "SIMCUDA_LINKS=24G",
                            "SIMCUDA_LINKS=24X",
                            "SIMCUDA_STATS=/nonexistent/folder/stats"}) {
    std::string variable = std::string(wrong).substr(0, std::string(wrong).find('='));
    Outcome run = probe(wrong);
    EXPECT_NE(std::string::npos, run.output.find("simcuda: " + variable + "=")) << run.output;
    EXPECT_NE(std::string::npos, run.output.find("cuInit(0) 1\n")) << run.output;
  }
}

TEST(Settings, AMatrixOfLinksHasEachDevice) {
  EXPECT_EQ(0, probe("SIMCUDA_LINKS=0").status);
  EXPECT_EQ(0, probe("SIMCUDA_DEVICES=2 SIMCUDA_LINKS=0,24G/0,0").status);
  for (const char* wrong : {"0,24G", "0,24G/24G", "0,24G/24G,0/0,0", "0,24G/24G,0,0",
                            "0,24G/24G,1G", "0,/24G,0", "0,24G/24G,0/"}) {
    Outcome run = probe(std::string("SIMCUDA_DEVICES=2 SIMCUDA_LINKS=") + wrong);
    EXPECT_NE(std::string::npos, run.output.find("each of the 2 devices")) << wrong << run.output;
  }
}

TEST(Settings, ATraceTellsOperations) {
  std::string file = testing::TempDir() + "/simcuda-trace-" + std::to_string(getpid());
  std::remove(file.c_str());
  EXPECT_EQ(0, probe("SIMCUDA_CLOCK=virtual SIMCUDA_TRACE=" + file, "2").status);
  std::ifstream in(file);
  // A set and two kernels, which take 5 us each and next to nothing for their bytes.
  double begin = -1;
  double end = -1;
  int device = -1;
  uint64_t bytes = 1;
  std::string engine;
  std::vector<uint64_t> found;
  while (in >> begin >> end >> device >> engine >> bytes) {
    EXPECT_NEAR(5, end - begin, 0.01);
    EXPECT_EQ("compute", engine);
    EXPECT_EQ(0, device);
    found.push_back(bytes);
  }
  EXPECT_EQ((std::vector<uint64_t>{100, 0, 0}), found);
  std::remove(file.c_str());
  Outcome run = probe("SIMCUDA_CLOCK=virtual SIMCUDA_TRACE=/nonexistent/folder/trace", "1");
  EXPECT_EQ(0, run.status);
  EXPECT_NE(std::string::npos, run.output.find("simcuda: SIMCUDA_TRACE=")) << run.output;
}

std::vector<uint64_t> counters(const std::string& file) {
  std::vector<uint64_t> values(16);
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(8 * values.size()));
  EXPECT_EQ(static_cast<std::streamsize>(8 * values.size()), in.gcount());
  return values;
}

TEST(Settings, StatisticsSurviveAKillAndAddUp) {
  std::string file = testing::TempDir() + "/simcuda-stats-" + std::to_string(getpid());
  std::remove(file.c_str());
  Outcome run = probe("SIMCUDA_STATS=" + file, "5 kill");
  EXPECT_NE(0, run.status);
  auto after = counters(file);
  EXPECT_EQ(5u, after[0]);
  EXPECT_EQ(5u * 32, after[1]);
  EXPECT_EQ(100u, after[5]);
  EXPECT_EQ(3u, after[6]);
  EXPECT_EQ(0u, after[7]);
  EXPECT_EQ(1u, after[8]);
  EXPECT_EQ(1u, after[15]);
  EXPECT_EQ(0, probe("SIMCUDA_STATS=" + file, "2").status);
  EXPECT_EQ(7u, counters(file)[0]);
  EXPECT_EQ(2u, counters(file)[15]);
  EXPECT_EQ(0, probe("SIMCUDA_UNCOUNTED=noth SIMCUDA_STATS=" + file, "2").status);
  EXPECT_EQ(7u, counters(file)[0]);
  EXPECT_EQ(2u, counters(file)[15]);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace simcuda::test
