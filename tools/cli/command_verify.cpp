// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "interpose/services/log.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct VerifyOptions {
  std::string store;  // empty: as the environment says
  std::string id;
  bool all = false;
};

int verify_one(Store& store, const CheckpointInfo& checkpoint, VerifyRound& round) {
  const auto begin = std::chrono::steady_clock::now();
  Status good;
  uint64_t bytes = 0;
  {
    ProgressBar bar(checkpoint.id);
    good = store.verify(
        checkpoint, [&bar](uint64_t done, uint64_t total) { bar.update(done, total); }, &round);
    bytes = bar.total();
  }
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - begin);
  if (good.ok()) {
    const double seconds = std::max(static_cast<double>(took.count()) / 1e9, 1e-9);
    fmt::print("{}: ok, {} read in {}, {}/s\n", checkpoint.id, show_bytes(bytes),
               show_nanoseconds(static_cast<uint64_t>(took.count())),
               show_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)));
    return kExitOk;
  }
  if (checkpoint.state == CheckpointState::kPartial) {
    fmt::print("{}: partial: {}\n", checkpoint.id, printable(checkpoint.reason));
    return kExitNoCheckpoint;
  }
  fmt::print("{}: damaged: {}\n", checkpoint.id, printable(good.message()));
  return kExitDamaged;
}

int verify_all(Store& store) {
  const Result<std::vector<CheckpointInfo>> checkpoints = store.list("");
  if (!checkpoints.ok()) return fail(checkpoints.status());
  if (checkpoints.value().empty()) {
    log(LogLevel::kError, "no checkpoints in ", store.folder());
    return kExitNoCheckpoint;
  }
  // One that never became complete is no damage.
  int exit_code = kExitOk;
  VerifyRound round;
  for (const CheckpointInfo& checkpoint : checkpoints.value()) {
    if (verify_one(store, checkpoint, round) == kExitDamaged) exit_code = kExitDamaged;
  }
  return exit_code;
}

int verify_command(const VerifyOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  if (options.all) return verify_all(*store.value());
  const Result<CheckpointInfo> checkpoint = store.value()->find(options.id);
  if (!checkpoint.ok()) return fail(checkpoint.status());
  VerifyRound round;
  return verify_one(*store.value(), checkpoint.value(), round);
}

void declare_verify(CLI::App& command, VerifyOptions& options) {
  CLI::Option* const id = command.add_option("ID", options.id, "JOB@EPOCH, JOB@latest or JOB");
  command.add_flag("--all", options.all, "all checkpoints of the store")->excludes(id);
  add_store(command, options.store);
  command.callback([&options] {
    if (options.all || !options.id.empty()) return;
    throw CLI::ValidationError("which checkpoint? give its ID or --all");
  });
  end_help(command, "Examples:\n  gpusnap verify wave@12\n  gpusnap verify --all\n\n");
}

}  // namespace

const Command kVerifyCommand{
    "verify", "read every byte of checkpoints and compare checksums",
    [](CLI::App& command) { return action_of(command, declare_verify, verify_command); }};

}  // namespace gpusnap
