// The user's settings in the environment: every GPUSNAP_* variable, read once at activation and
// checked. A value that cannot be read is an error of one line; nothing is guessed in its place.
// settings.table has all variables, with their ranges and help.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/services/log.h"
#include "tiers/compression/setting.h"
#include "tiers/levels/level_settings.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/plan/interval_choice.h"

namespace gpusnap {

// GPUSNAP_EVERY: what makes a checkpoint due. Any number of these together; none with `off`.
struct Schedule {
  std::chrono::nanoseconds interval{0};  // 0: not by time
  uint64_t synchronisations = 0;         // each n-th; 0: not by their number
  int signal = 0;                        // number; 0: none
  uint64_t barriers = 0;                 // each n-th MPI collective of all ranks; 0: not by these
  // By time, but how often follows from what checkpoints cost and how often the job fails.
  bool automatic = false;
  std::chrono::nanoseconds between_failures = std::chrono::hours(24);  // GPUSNAP_MTBF
  double survived = plan::kSurvived;                                   // GPUSNAP_SURVIVED
  // It also chooses how many checkpoints stay in memory.
  bool chooses_levels = false;
  // GPUSNAP_STOP_SIGNAL: signals that make a checkpoint due after which the job ends. signal_bit()
  // of each; 0: none.
  uint64_t stop_signals = 0;
  bool operator==(const Schedule&) const = default;
};
// `number`: from 1 to 64.
constexpr uint64_t signal_bit(int number) {
  return uint64_t{1} << (number - 1);
}

// GPUSNAP_ORG: how snapshots are organised, in the terms of GPU Snapshot, section 5.1.
struct SnapshotMode {
  bool blocking =
      false;  // b: the program is held until all is in host memory; nb: for the cut only
  bool incremental = true;  // i: only zones that changed are saved; f: all
  bool fine = false;        // i-fg: i with zones of 4 KiB
  bool hints = true;        // h: zones that are saved may be written at once, not only when all are
  bool device = true;       // d: zones are gathered and duplicated in device memory
  bool operator==(const SnapshotMode&) const = default;
};

// GPUSNAP_PIN: how staging memory is made ready.
enum class Pinning {
  kStepwise,    // while the program runs, in the gaps between transfers
  kConcurrent,  // while the program runs, whatever else goes on
  kAtOnce,      // in the program's first context, which waits for it
};

// GPUSNAP_DIRECT: whether the device writes to local tiers past host memory, where it can.
enum class DirectUse {
  kOff,
  kAuto,    // where that is measured to be faster
  kAlways,  // however fast it is, to compare with
};

inline constexpr uint32_t kMostCompressWorkers = 8;

// GPUSNAP_RESTORE_FORCE: what may differ from the checkpoint's run, and is passed over in silence.
struct AllowedDifferences {
  bool program = false;  // its file
  bool arguments = false;
  bool inputs = false;     // files that it had read
  bool device = false;     // the model
  bool devices = false;    // how many there are
  bool folder = false;     // that it works in
  bool driver = false;     // its version
  bool libraries = false;  // their files
  bool data = false;       // what it gives to the device
  bool operator==(const AllowedDifferences&) const = default;
};
// "program,arguments"; empty: nothing.
std::string words_of(const AllowedDifferences& allowed);

// GPUSNAP_BALANCE: which device buffers take zones that do not fit into a device's own. None, those
// of the process's other devices, or those of other processes of the node, too.
enum class Balance : uint8_t { kOff, kProcess, kNode };

// GPUSNAP_STORE_EVERY=auto: as GPUSNAP_EVERY=auto chooses.
inline constexpr uint64_t kStoreEveryAuto = 0;
inline constexpr uint64_t kMostStoreEvery = 1'000'000;

struct Settings {
  std::string pfs = "./gpusnap";  // durable folder
  Schedule every{std::chrono::minutes(10)};
  uint64_t zone = 64 << 10;  // bytes; a power of two
  uint64_t host_cache = 0;   // bytes of staging memory; parse_settings() fills in the default
  // Size of a staging slot: bytes that are copied, compressed and written at a time. Large enough
  // for full bandwidth (GPU Snapshot, section 4.3.1: 1 to 4 MiB and up), small enough that a call
  // which needs a zone first does not wait long for copies before it. At least the largest zone.
  uint64_t slot = 4 << 20;
  uint64_t device_cache =
      256 << 20;  // bytes of device memory for gathering and duplicates; 0: none
  Balance balance = Balance::kProcess;
  bool arena = false;  // cuMemAlloc's memory lies at addresses of ours (device_arena.h)
  SnapshotMode organisation;
  bool dirty_from_calls = false;  // GPUSNAP_DIRTY: what changed is told by calls, not fingerprints
  bool speculate = true;          // on kernels of which it is not proven what they write
  CompressionSetting compress;
  uint32_t compress_workers =
      0;                // at most kMostCompressWorkers; parse_settings() fills in the default
  uint32_t writes = 8;  // of a checkpoint, on their way at the same time
  TierSettings tiers;   // GPUSNAP_SSD, GPUSNAP_CHUNK, GPUSNAP_PLACEMENT, GPUSNAP_FLUSHES
  DirectUse direct = DirectUse::kAuto;
  LevelSettings levels;         // GPUSNAP_LEVELS, GPUSNAP_PEERS, GPUSNAP_LEVEL_*
  bool backend_process = true;  // GPUSNAP_BACKEND: a process of the node's, or a thread
  std::string node;             // which processes share a backend; empty: the host's name
  // How long a backend without work stays.
  std::chrono::nanoseconds backend_idle{std::chrono::seconds(10)};
  // At the program's end: until all is durable, or until the backend has it in memory.
  bool wait_durable = true;
  Pinning pin = Pinning::kStepwise;
  uint64_t chain = 16;  // most increments in a row; 0: every checkpoint is full
  // How often progress is made known to calls that wait for zones (the paper's hints).
  std::chrono::nanoseconds hints{std::chrono::microseconds(100)};
  uint64_t keep = 2;  // complete checkpoints
  // Every n-th checkpoint goes to the store, the others stay in gpusnapd's memory; or
  // kStoreEveryAuto.
  uint64_t store_every = 1;
  bool has_memory_level() const { return store_every != 1; }
  uint64_t journal = 16ULL << 30;  // bytes
  std::chrono::nanoseconds max_stall{std::chrono::seconds(1)};
  // Longest wait for the device to run empty at a cut; after it the attempt is given up.
  std::chrono::nanoseconds drain{std::chrono::seconds(30)};
  std::string restore;  // "job@epoch", "job@latest", "job"; empty: a normal run
  // How: by a replay, or by putting device memory back into a program that brings its own host
  // state, before its first launch but so many at which that memory is there.
  bool reload = false;
  uint64_t reload_behind = 0;
  AllowedDifferences allowed;  // in a restore
  bool read_ahead = true;      // the checkpoint, while its replay is on its way
  std::string job;             // as given; empty: default_job_name()
  LogLevel log = LogLevel::kWarn;
  bool strict = false;
  bool operator==(const Settings&) const = default;
};

struct ParsedSettings {
  Settings settings;                  // defaults stand where a value was wrong
  std::vector<std::string> errors;    // one line each: variable, value, what would be right
  std::vector<std::string> warnings;  // one line each: passed over, and why
  // Names of the variables that the warnings are about: without them there is nothing to warn of.
  std::vector<std::string> ignored;
};

// `environment`: "NAME=value" strings up to a null pointer, as environ has them; may be null. An
// empty value counts as not set. If a name is given twice the first counts, as with getenv().
ParsedSettings parse_settings(const char* const* environment);

// A list such as "10m,syncs:50". Empty when ok, else what is wrong with it.
std::string parse_every(std::string_view text, Schedule& every);
// Names of signals such as "USR1,TERM". Empty when ok, else what is wrong with it.
std::string parse_stop_signals(std::string_view text, uint64_t& signals);

}  // namespace gpusnap
