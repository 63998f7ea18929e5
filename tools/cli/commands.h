// The tool's commands, which run after their options were read. All return an exit code; `run`,
// `restore` and `rank` return only if the program could not be started.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/settings.h"
#include "tools/cli/array_file.h"
#include "tools/cli/array_plan.h"
#include "tools/cli/range_selection.h"

namespace gpusnap {

// A setting given as an option: the variable that says the same, and the value.
using SettingOption = std::pair<std::string, std::string>;

struct LaunchOptions {
  std::string command;  // "run" or "restore": for lines
  std::vector<SettingOption> settings;
  bool strict = false;
  bool sim = false;
  // run: goes on from the job's checkpoint where there is one. The job is then this one of the
  // scheduler's.
  bool resume = false;
  std::vector<std::string> program;  // with its arguments
};

struct RestoreOptions {
  LaunchOptions launch;
  std::string id;    // "job@epoch", "job@latest", "job"; empty: the newest of the program's job
  std::string mode;  // as GPUSNAP_RESTORE_MODE; empty: as that says
  bool or_start = false;
  AllowedDifferences allowed;
};

struct RankOptions {
  std::vector<std::string> settings;  // "NAME=value"
  bool sim = false;
  std::vector<std::string> program;  // with its arguments
};

struct StoreOptions {
  std::string store;     // empty: as the environment says
  std::string what;      // list: a job, or empty for all; show, verify: a checkpoint
  bool all = false;      // verify
  bool json = false;     // list, show
  bool space = false;    // list
  bool extents = false;  // show
};

struct ExtractOptions {
  std::string store;  // empty: as the environment says
  std::string id;
  RangeSelection ranges;
  ArrayOptions arrays;
  std::string to;                     // empty: named after the checkpoint
  std::optional<ArrayFormat> format;  // empty: as the ending of `to` says, else .npy
  bool force = false;
  bool json = false;
};

struct DiffOptions {
  std::string store;  // empty: as the environment says
  std::string one;
  std::string other;
  std::string other_store;            // empty: the same
  RangeSelection ranges;              // of `one`
  const ElementType* type = nullptr;  // null: words of 4 bytes
  size_t most = 10;                   // elements that are shown of a range
  bool json = false;
};

struct PruneOptions {
  std::string store;  // empty: as the environment says
  std::string job;    // empty: all
  uint32_t keep = 0;  // 0: as the environment says
  std::chrono::nanoseconds left_after{std::chrono::hours(1)};
  bool dry_run = false;
  bool json = false;
};

struct CheckpointOptions {
  int pid = 0;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

struct StopOptions {
  std::string what;     // a process or a job
  std::string store;    // folder; empty: any
  bool anyway = false;  // kill it where no checkpoint can be made
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

struct StatusOptions {
  std::string job;    // empty: all
  std::string store;  // empty: all
  bool json = false;
  // For a process to answer, and for a store.
  std::chrono::nanoseconds timeout{std::chrono::seconds(1)};
  std::string watch;                  // as given
  std::chrono::nanoseconds every{0};  // 0: once
};

struct WaitOptions {
  std::string job;  // empty: all
  std::chrono::nanoseconds timeout{std::chrono::nanoseconds::max()};
};

struct ExplainOptions {
  std::vector<std::string> files;
  uint32_t arch = 0;  // the device's compute capability, 90 for 9.0; 0: any device
  bool json = false;
};

struct CalibrateOptions {
  std::vector<std::string> folders;  // empty: those of GPUSNAP_SSD
  uint32_t writers = 64;             // the most that are measured with
  uint64_t chunk = 0;                // bytes of each writer; 0: GPUSNAP_CHUNK
  uint64_t slot = 0;                 // bytes that are written at a time: GPUSNAP_SLOT
  uint32_t writes = 0;               // of these on their way: GPUSNAP_WRITES
  bool check = false;                // measure with every number of writers besides
  bool show = false;                 // what is stored; nothing is measured
  bool json = false;
  std::string svg;  // file for a chart; empty: none
};

struct PlanOptions {
  std::string machine = "snapshot-ics19";  // a built-in one, or a file
  std::string model = "markov";
  std::vector<std::string> changes;  // "KEY=VALUE"
  std::string job;                   // whose costs replace those of a job that fills the machine
  std::string store;                 // of the job; empty: as the environment says
  bool inputs = false;               // list what can be changed, and nothing else
  bool simulate = false;
  uint64_t seed = 1;
  double years = 10;              // of useful time, for the simulation
  double shape = 1;               // of the Weibull distribution of its failures
  bool protected_copies = false;  // plan::Simulation
  bool json = false;
  std::string svg;  // folder for figures; empty: none
};

int run_command(const LaunchOptions& options);
// `run --resume`
int resume_command(const LaunchOptions& options);
int restore_command(const RestoreOptions& options);
int rank_command(const RankOptions& options);
int list_command(const StoreOptions& options);
int show_command(const StoreOptions& options);
int extract_command(const ExtractOptions& options);
int diff_command(const DiffOptions& options);
int prune_command(const PruneOptions& options);
int verify_command(const StoreOptions& options);
int explain_command(const ExplainOptions& options);
int checkpoint_command(const CheckpointOptions& options);
int stop_command(const StopOptions& options);
int status_command(const StatusOptions& options);
int wait_command(const WaitOptions& options);
int calibrate_command(CalibrateOptions options);
int plan_command(const PlanOptions& options);

}  // namespace gpusnap
