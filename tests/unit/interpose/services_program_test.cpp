#include "interpose/services/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <memory>

#include <climits>
#include <fstream>

#include "interpose/services/build_id.h"
#include "interpose/services/inputs.h"

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

TEST(Program, KnowsTheSchedulersNumberOfTheJob) {
  const auto id = [](std::initializer_list<const char*> entries) {
    std::vector<const char*> environment(entries);
    environment.push_back(nullptr);
    return scheduler_job_id(environment.data());
  };
  EXPECT_EQ(id({"HOME=/", "SLURM_JOB_ID=", "SLURM_JOB_IDS=3"}), "");
  EXPECT_EQ(id({"SLURM_JOB_ID=7", "SLURM_ARRAY_JOB_ID=5"}), "7");
  EXPECT_EQ(id({"PBS_JOBID=9.server"}), "9.server");
  EXPECT_EQ(id({"FLUX_JOB_ID=f2Xy"}), "f2Xy");
  EXPECT_EQ(id({"LSB_JOBID=4"}), "4");
  EXPECT_EQ(id({"LSB_JOBINDEX=2", "LSB_JOBID=4"}), "4-2");
}

TEST(Program, NamesTheDifference) {
  ProgramIdentity saved;
  saved.path = "/bin/solver";
  saved.size = 10;
  saved.hash = 20;
  saved.arguments = {"./solver", "big.cfg", "3"};
  ProgramIdentity now = saved;
  const AllowedDifferences nothing;
  EXPECT_EQ(program_difference(saved, now, nothing), "");
  now.arguments[0] = "/bin/solver";
  EXPECT_EQ(program_difference(saved, now, nothing), "");
  now.arguments[2] = "4";
  EXPECT_EQ(program_difference(saved, now, nothing),
            "argument 2 was '3' in the checkpoint's run and is '4' now; give the same, or pass "
            "over it with --force-arguments");
  EXPECT_EQ(program_difference(saved, now, {.arguments = true}), "");
  now.arguments.pop_back();
  EXPECT_NE(program_difference(saved, now, nothing).find("with 3 arguments"), std::string::npos);
  now.hash = 21;
  EXPECT_NE(program_difference(saved, now, nothing).find("another build of /bin/solver"),
            std::string::npos);
  now.path = "/bin/other";
  EXPECT_NE(program_difference(saved, now, nothing).find("this is /bin/other"), std::string::npos);
  EXPECT_EQ(program_difference(saved, now, {.program = true, .arguments = true}), "");
}

TEST(Program, NamesADeviceOfAnotherModel) {
  ProgramIdentity saved;
  const ProgramIdentity unknown;
  saved.devices = {{"GPU X", 16ULL << 30, 9, 0}, {"GPU X", 16ULL << 30, 9, 0}};
  saved.device_count = 4;
  EXPECT_EQ(device_difference(saved, unknown, {}), "");
  EXPECT_EQ(device_difference(unknown, saved, {}), "");
  ProgramIdentity now = saved;
  now.devices[0].memory -= 512U << 20;  // kept by the driver
  EXPECT_EQ(device_difference(saved, now, {}), "");
  now.devices[1].memory = 12ULL << 30;
  EXPECT_EQ(device_difference(saved, now, {}),
            "it was saved from a GPU X (compute capability 9.0, 16384 MiB), device 1 here is a GPU "
            "X (compute capability 9.0, 12288 MiB); give it such a one, or pass over it with "
            "--force-device");
  EXPECT_EQ(device_difference(saved, now, {.device = true}), "");
  now.devices[1] = saved.devices[1];
  now.devices[0].minor = 1;
  EXPECT_NE(device_difference(saved, now, {}), "");
  now.devices[0] = {"GPU Y", 16ULL << 30, 9, 0};
  EXPECT_NE(device_difference(saved, now, {}), "");
  now.devices.resize(1);
  now.device_count = 1;
  EXPECT_EQ(device_difference(saved, now, {.device = true}),
            "it was saved from 2 devices, here are 1; give it as many, or pass over it with "
            "--force-devices");
  EXPECT_EQ(device_difference(saved, now, {.device = true, .devices = true}), "");
}

TEST(Program, SaysOnceWhatMayMakeADifference) {
  ProgramIdentity saved;
  saved.folder = "/a";
  saved.driver_version = 12040;
  saved.devices = {{"GPU", 1, 9, 0}};
  saved.device_count = 2;
  saved.libraries = {{"/no/such/lib.so", "00"}};
  ProgramIdentity now = saved;
  now.libraries.clear();
  AllowedDifferences allowed = {.libraries = true};
  EXPECT_TRUE(doubts(saved, now, allowed).empty());
  EXPECT_EQ(words_of(allowed), "libraries");
  now.folder = "/b";
  now.driver_version = 13000;
  now.device_count = 1;
  allowed = {};
  const std::vector<std::string> lines = doubts(saved, now, allowed);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[0].find("worked in /a"), std::string::npos);
  EXPECT_NE(lines[1].find("had driver 12.4, here is 13.0"), std::string::npos);
  EXPECT_NE(lines[2].find("saw 2 device(s), here are 1"), std::string::npos);
  EXPECT_NE(lines[3].find("/no/such/lib.so is not there"), std::string::npos);
  EXPECT_EQ(words_of(allowed), "devices,folder,driver,libraries");
  EXPECT_TRUE(doubts(saved, now, allowed).empty());
}

TEST(BuildId, OfAFileIsThatOfWhatIsLoaded) {
  const std::vector<SavedLibrary> loaded = loaded_libraries();
  size_t known = 0;
  for (const SavedLibrary& library : loaded) {
    const Result<std::string> file = build_id_of_file(library.path);
    ASSERT_TRUE(file.ok()) << library.path;
    EXPECT_EQ(file.value(), library.build_id) << library.path;
    known += library.build_id.empty() ? 0 : 1;
  }
  EXPECT_GT(known, 0U);
  EXPECT_EQ(changed_libraries(loaded), "");
  std::vector<SavedLibrary> others = loaded;
  for (SavedLibrary& library : others) library.build_id = "00";
  EXPECT_EQ(changed_libraries(others), others[0].path + " is another build (and " +
                                           std::to_string(others.size() - 1) + " more)");
}

TEST(BuildId, ThereIsNoneInOtherFiles) {
  const std::string path = testing::TempDir() + "no-build-id";
  for (const std::string& content : {std::string(), std::string("text"),
                                     "\x7f"
                                     "ELF\x02" +
                                         std::string(59, '\xff')}) {
    std::ofstream(path) << content;
    const Result<std::string> found = build_id_of_file(path);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found.value(), "");
  }
  unlink(path.c_str());
  EXPECT_EQ(build_id_of_file(path).status().code(), Code::kNotFound);
}

class Inputs : public testing::Test {
 protected:
  void write(const std::string& content) { std::ofstream(path_) << content; }
  InputFile as_it_is(bool summed) {
    struct stat now = {};
    EXPECT_EQ(stat(path_.c_str(), &now), 0);
    InputFile input{path_, static_cast<uint64_t>(now.st_size),
                    now.st_mtim.tv_sec * 1'000'000'000 + now.st_mtim.tv_nsec, 0, false};
    if (summed) {
      EXPECT_EQ(add_checksum(input, kLargestSummedInput), input.size);
    }
    return input;
  }
  void set_time(time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  void TearDown() override { unlink(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "input";
};

TEST_F(Inputs, AreKnownByTheirContent) {
  write("one");
  const InputFile input = as_it_is(true);
  EXPECT_TRUE(input.has_checksum);
  set_time(1000);
  EXPECT_EQ(changed_inputs({input}), "");
  write("two");
  EXPECT_EQ(changed_inputs({input}), path_ + " has another content");
  write("three");
  EXPECT_EQ(changed_inputs({input}), path_ + " has 5 bytes, not 3");
  unlink(path_.c_str());
  EXPECT_EQ(changed_inputs({input, input, input}), path_ + " is not there (and 2 more)");
}

TEST_F(Inputs, OrByTheTimeOfTheirLastChange) {
  write("one");
  set_time(1000);
  const InputFile input = as_it_is(false);
  EXPECT_EQ(changed_inputs({input}), "");
  set_time(2000);
  EXPECT_EQ(changed_inputs({input}), path_ + " was written since");
}

TEST_F(Inputs, GetNoChecksumWhereTheyAreLargeOrAnother) {
  write("one");
  InputFile input = as_it_is(false);
  EXPECT_EQ(add_checksum(input, 2), 0U);
  EXPECT_FALSE(input.has_checksum);
  set_time(1000);
  EXPECT_EQ(add_checksum(input, kLargestSummedInput), 0U);
  EXPECT_FALSE(input.has_checksum);
  write(std::string(kLargestSummedInput + 1, 'x'));
  input = as_it_is(false);
  EXPECT_EQ(add_checksum(input, UINT64_MAX), 0U);
}

TEST(HostAddresses, BeginBelowTheExecutableAndItsHeap) {
  static int variable = 0;
  const auto heap = std::make_unique<int>();
  EXPECT_LE(host_addresses_begin(), uint64_t{1} << 32);
  EXPECT_LT(host_addresses_begin(), reinterpret_cast<uint64_t>(&variable));
  EXPECT_LT(host_addresses_begin(), reinterpret_cast<uint64_t>(heap.get()));
}

}  // namespace
}  // namespace gpusnap
