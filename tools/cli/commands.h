// What each command of the tool does once its options are read. All return an exit code; `run` and
// `restore` return only where the program could not be started.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpusnap {

// A setting given as an option: the variable that says the same, and the value.
using SettingOption = std::pair<std::string, std::string>;

struct LaunchOptions {
  std::vector<SettingOption> settings;
  bool strict = false;
  bool sim = false;
  std::vector<std::string> program;  // with its arguments
};

struct RestoreOptions {
  LaunchOptions launch;
  std::string id;  // "job@epoch", "job@latest", "job"; empty: the newest of the program's job
  bool or_start = false;
  bool force_program = false;
  bool force_arguments = false;
};

struct StoreOptions {
  std::string store;  // empty: as the environment says
  std::string what;   // list: a job, or empty for all; show, verify: a checkpoint
  bool all = false;   // verify
  bool json = false;  // list, show
};

struct CheckpointOptions {
  int pid = 0;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

struct ExplainOptions {
  std::vector<std::string> files;
  uint32_t arch = 0;  // the device's compute capability, 90 for 9.0; 0: any device
  bool json = false;
};

int run_command(const LaunchOptions& options);
int restore_command(const RestoreOptions& options);
int list_command(const StoreOptions& options);
int show_command(const StoreOptions& options);
int verify_command(const StoreOptions& options);
int explain_command(const ExplainOptions& options);
int checkpoint_command(const CheckpointOptions& options);

}  // namespace gpusnap
