// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/machine.h"

#include <gtest/gtest.h>

#include <string>

#include "tiers/plan/machine_file.h"
#include "tiers/plan/published.h"

namespace gpusnap::plan {
namespace {

const std::string kGood = R"(# sixteen nodes
name = "rack # 7"
nodes = 16
gpus_per_node = 4
[memory]
gpu = 80      # GB
[link]
gpu = 25
node = 1_00
memory = 200
[ssd]
write = 6.0
[pfs]
write = 50
read = 75
[rates]
gpu = 1e-9
node = 2e-9
system = 1e-7
)";

// The text with this line instead of one of its lines; or without it.
std::string with(const std::string& line, const std::string& instead) {
  std::string text = kGood;
  const size_t at = text.find(line);
  return text.replace(at, line.size(), instead);
}

void expect_refused(const std::string& text, const std::string& word) {
  const Result<Machine> machine = parse_machine(text);
  ASSERT_FALSE(machine.ok()) << word;
  EXPECT_EQ(machine.status().code(), Code::kInvalid);
  EXPECT_NE(machine.status().message().find(word), std::string::npos) << machine.status().message();
  EXPECT_EQ(machine.status().message().find('\n'), std::string::npos);
}

TEST(MachineFile, IsRead) {
  const Result<Machine> machine = parse_machine(kGood);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->name, "rack # 7");
  EXPECT_EQ(machine->gpus(), 64);
  EXPECT_EQ(machine->node_link, 100);
  EXPECT_EQ(machine->ssd_read, 6);
  EXPECT_EQ(machine->pfs_read, 75);
  EXPECT_EQ(machine->gpu_rate, 1e-9);
  EXPECT_TRUE(parse_machine(with("nodes = 16\n", "nodes = 16\r\n")).ok());
}

TEST(MachineFile, WhatIsWrongIsSaidInOneLine) {
  expect_refused("", "'nodes' is missing");
  expect_refused(with("nodes = 16", ""), "'nodes' is missing");
  expect_refused(with("nodes = 16", "nodes = 0"), "line 3: nodes: '0' is not from 1");
  expect_refused(with("nodes = 16", "nodes = -16"), "line 3: nodes: '-16'");
  expect_refused(with("nodes = 16", "nodes = many"), "line 3: nodes: 'many' is no number");
  expect_refused(with("nodes = 16", "nodes ="), "line 3: nodes: '' is no number");
  expect_refused(with("nodes = 16", "nodes = nan"), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes = inf"), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes = 1e999"), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes = \"16\""), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes = 2x"), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes = [16]"), "line 3: nodes");
  expect_refused(with("nodes = 16", "nodes 16"), "line 3: 'nodes 16' is no [section]");
  expect_refused(with("nodes = 16", "= 16"), "line 3: '= 16' is no [section]");
  expect_refused(with("nodes = 16", "nodes = 16\nnodes = 17"), "line 4: 'nodes' is there twice");
  expect_refused(with("nodes = 16", "nods = 16"), "line 3: unknown input 'nods'");
  expect_refused(with("[link]", "[lnk]"), "line 8: unknown input 'lnk.gpu'");
  expect_refused(with("[link]", "[link"), "line 7: '[link' is no section");
  expect_refused(with("[link]", "["), "line 7: '[' is no section");
  expect_refused(with("[link]", "[]"), "line 7: '[]' is no section");
  expect_refused(with("write = 50", "write = 0"), "line 14: pfs.write: '0' is not above 0");
  expect_refused(with("name = \"rack # 7\"", "name = rack"), "line 2: the name is not in quotes");
  expect_refused(
      "\x7f"
      "ELF\x02",
      "line 1");
}

// Every prefix either is a machine or says what is missing or wrong.
TEST(MachineFile, TornFilesAreRefused) {
  size_t refused = 0;
  for (size_t length = 0; length < kGood.size(); ++length) {
    const Result<Machine> machine = parse_machine(kGood.substr(0, length));
    if (machine.ok()) continue;
    ++refused;
    EXPECT_FALSE(machine.status().message().empty());
  }
  EXPECT_GT(refused, kGood.size() - 10);
}

TEST(Machine, InputsAreChangedAndScaled) {
  Machine machine = snapshot_machine(3.6, 16);
  ASSERT_TRUE(set_input(machine, "ssd.write", "2x").ok());
  EXPECT_NEAR(machine.ssd_write, 4.3, 0.01);
  ASSERT_TRUE(set_input(machine, "ssd.write", "7.5").ok());
  EXPECT_EQ(machine.ssd_write, 7.5);
  EXPECT_NE(set_input(machine, "ssd", "7").message().find("ssd.write"), std::string::npos);
  EXPECT_FALSE(set_input(machine, "memory.dirty", "1.5").ok());
  EXPECT_FALSE(set_input(machine, "ssd.write", "x").ok());
  EXPECT_FALSE(set_input(machine, "ssd.write", "").ok());
  EXPECT_EQ(machine.ssd_write, 7.5);
}

TEST(Machine, LevelsFollowFromItsInputs) {
  const Result<Machine> machine = parse_machine(kGood);
  ASSERT_TRUE(machine.ok());
  const std::vector<Level> levels = levels_of(machine.value());
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_DOUBLE_EQ(levels[0].stall_s, 320.0 / 100);
  EXPECT_DOUBLE_EQ(levels[1].stall_s, 320.0 / 6);
  EXPECT_DOUBLE_EQ(levels[2].stall_s, 16 * 320.0 / 50);
  EXPECT_DOUBLE_EQ(levels[2].restart_s, 16 * 320.0 / 75);
  EXPECT_DOUBLE_EQ(levels[0].failures_per_s, 64e-9);
  EXPECT_DOUBLE_EQ(levels[1].failures_per_s, 32e-9);
}

TEST(Machine, TheNextLevelServesFailuresOfOneThatIsNotThere) {
  Machine machine = parse_machine(kGood).value();
  machine.ssd_write = 0;
  const std::vector<Level> levels = levels_of(machine);
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_DOUBLE_EQ(levels[1].failures_per_s, 32e-9 + 1e-7);
}

TEST(Machine, SharesAndCompressionShortenWhatTheyShould) {
  Machine machine = parse_machine(kGood).value();
  const std::vector<Level> full = levels_of(machine);
  machine.memory_stall = 0.25;
  machine.gpu_dirty = 0.5;
  machine.stored = 0.5;
  const std::vector<Level> levels = levels_of(machine);
  EXPECT_DOUBLE_EQ(levels[0].stall_s, full[0].stall_s / 8);
  EXPECT_DOUBLE_EQ(levels[0].latency_s, full[0].stall_s * 3 / 8);
  EXPECT_DOUBLE_EQ(levels[0].restart_s, full[0].restart_s);
  EXPECT_DOUBLE_EQ(levels[1].stall_s, full[1].stall_s / 4);
  EXPECT_DOUBLE_EQ(levels[1].restart_s, full[1].restart_s / 2);
}

TEST(Machine, AJobBringsItsOwnCosts) {
  const JobCosts job = {2, 8, 64e9, 0.25, 0.5};
  const Machine machine = with_job(parse_machine(kGood).value(), job);
  EXPECT_EQ(machine.gpus(), 8);
  EXPECT_DOUBLE_EQ(machine.gpu_memory, 8);
  const std::vector<Level> levels = levels_of(machine);
  for (const Level& level : levels) EXPECT_DOUBLE_EQ(level.stall_s, 0.5) << level.name;
  EXPECT_DOUBLE_EQ(levels[1].latency_s, 32 * 0.25 / 6 - 0.5);
  EXPECT_DOUBLE_EQ(levels_of(blocking(machine))[0].stall_s, 32.0 / 100);
}

}  // namespace
}  // namespace gpusnap::plan
