#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interpose/services/ranks.h"

namespace gpusnap {
namespace {

Ranks ranks(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return ranks_from_launcher(environment.data());
}

TEST(RanksTest, AreWhatEachLauncherSays) {
  EXPECT_EQ(ranks({"HOME=/x", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8",
                   "OMPI_COMM_WORLD_LOCAL_RANK=1"}),
            (Ranks{3, 8, 1}));
  EXPECT_EQ(ranks({"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0"}), (Ranks{0, 2, 0}));
  EXPECT_EQ(ranks({"PMI_RANK=1", "PMI_SIZE=2"}), (Ranks{1, 2, 0}));
  EXPECT_EQ(ranks({"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=6", "SLURM_LOCALID=2"}),
            (Ranks{5, 6, 2}));
}

TEST(RanksTest, ABatchScriptIsNoRank) {
  EXPECT_EQ(ranks({"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0"}), Ranks{});
}

uint32_t on_node(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  return ranks_on_node(environment.data());
}

TEST(RanksTest, AreCountedOnTheirNode) {
  EXPECT_EQ(on_node({}), 1U);
  EXPECT_EQ(
      on_node({"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}),
      4U);
  EXPECT_EQ(on_node({"PMI_RANK=0", "PMI_SIZE=6", "MPI_LOCALNRANKS=3"}), 3U);
  for (const char* tasks : {"4", "4(x2)", "4,2"}) {
    const std::string entry = std::string("SLURM_STEP_TASKS_PER_NODE=") + tasks;
    EXPECT_EQ(on_node({"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", entry.c_str()}), 4U) << tasks;
  }
  EXPECT_EQ(on_node({"PMI_RANK=0", "PMI_SIZE=6"}), 6U);
  EXPECT_EQ(on_node({"PMI_RANK=0", "PMI_SIZE=6", "MPI_LOCALNRANKS=0"}), 1U);
  EXPECT_EQ(on_node({"PMI_RANK=0", "PMI_SIZE=6", "MPI_LOCALNRANKS=99"}), 6U);
}

TEST(RanksTest, OneWhereNothingOrNonsenseIsSaid) {
  EXPECT_EQ(ranks_from_launcher(nullptr), Ranks{});
  EXPECT_EQ(ranks({}), Ranks{});
  for (const char* wrong : {"PMI_RANK=2", "PMI_RANK=-1", "PMI_RANK=", "PMI_RANK", "PMI_RANK=1x",
                            "PMI_RANK=99999999999", "PMI_RANKS=1", "XPMI_RANK=1"}) {
    EXPECT_EQ(ranks({wrong, "PMI_SIZE=2"}), Ranks{}) << wrong;
  }
  EXPECT_EQ(ranks({"OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_SIZE=2", "PMI_RANK=1", "PMI_SIZE=4"}),
            (Ranks{1, 4, 0}));
}

}  // namespace
}  // namespace gpusnap
