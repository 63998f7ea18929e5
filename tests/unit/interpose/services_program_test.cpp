#include "interpose/services/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <fstream>

namespace gpusnap {
namespace {

TEST(Program, KnowsItself) {
  const Result<ProgramIdentity> program = identify_program();
  ASSERT_TRUE(program.ok()) << program.status().message();
  char path[PATH_MAX] = {};
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof path - 1), 0);
  char folder[PATH_MAX] = {};
  ASSERT_NE(getcwd(folder, sizeof folder), nullptr);
  EXPECT_EQ(program.value().path, path);
  EXPECT_EQ(program.value().folder, folder);
  EXPECT_FALSE(program.value().arguments.empty());
  const Result<ProgramIdentity> by_name = identify_program(path, {"x"}, "/");
  ASSERT_TRUE(by_name.ok());
  EXPECT_EQ(by_name.value().hash, program.value().hash);
  EXPECT_EQ(by_name.value().size, program.value().size);
  EXPECT_NE(by_name.value().size, 0U);
}

TEST(Program, SaysWhyAFileCannotBeRead) {
  const Result<ProgramIdentity> program = identify_program("/no/such/file", {}, "/");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), Code::kNotFound);
  EXPECT_EQ(program.status().message(), "cannot read /no/such/file: No such file or directory");
}

TEST(Program, HasAJobNameOfFileAndFolder) {
  const char* const none[] = {"HOME=/", "SLURM_JOB_NAME=", "SLURM_JOB_NAMES=x", nullptr};
  const std::string name = default_job_name("/opt/bin/solver", "/data/a", none);
  EXPECT_EQ(name.substr(0, 7), "solver-");
  EXPECT_EQ(name.size(), 15U);
  EXPECT_EQ(default_job_name("solver", "/data/a", nullptr), name);
  EXPECT_NE(default_job_name("solver", "/data/b", nullptr), name);
  const char* const slurm[] = {"SLURM_JOB_NAME=night", nullptr};
  EXPECT_EQ(default_job_name("/opt/bin/solver", "/data/a", slurm), "night");
}

TEST(Program, NamesTheDifference) {
  ProgramIdentity saved;
  saved.path = "/bin/solver";
  saved.size = 10;
  saved.hash = 20;
  saved.arguments = {"./solver", "big.cfg", "3"};
  ProgramIdentity now = saved;
  EXPECT_EQ(difference_of(saved, now, false, false), "");
  now.arguments[0] = "/bin/solver";
  EXPECT_EQ(difference_of(saved, now, false, false), "");
  now.arguments[2] = "4";
  EXPECT_EQ(difference_of(saved, now, false, false),
            "argument 2 was '3' in the checkpoint's run and is '4' now; give the same, or pass "
            "over it with --force-arguments");
  EXPECT_EQ(difference_of(saved, now, false, true), "");
  now.arguments.pop_back();
  EXPECT_NE(difference_of(saved, now, false, false).find("with 3 arguments"), std::string::npos);
  now.hash = 21;
  EXPECT_NE(difference_of(saved, now, false, false).find("another build of /bin/solver"),
            std::string::npos);
  now.path = "/bin/other";
  EXPECT_NE(difference_of(saved, now, false, false).find("this is /bin/other"), std::string::npos);
  EXPECT_EQ(difference_of(saved, now, true, true), "");
}

}  // namespace
}  // namespace gpusnap
