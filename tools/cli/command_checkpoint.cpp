// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "interpose/services/control.h"
#include "interpose/services/log.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/control_client.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct CheckpointOptions {
  int pid = 0;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

using Steady = std::chrono::steady_clock;
constexpr auto kForStatus = std::chrono::seconds(2);
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

int failed(int pid, const std::string& why) {
  log(LogLevel::kError, "no checkpoint of process ", pid, ": ", why);
  return kExitInternal;
}

// Returns the process's answer, which comes once it has made the cut and saved its part of the
// checkpoint.
Result<CutOutcome> ask_for_checkpoint(const ControlConnection& connection,
                                      std::chrono::nanoseconds longest) {
  if (send(connection.socket(), kCheckpointRequest.data(), kCheckpointRequest.size(),
           MSG_NOSIGNAL) < 0) {
    return Status(Code::kIo, strerrordesc_np(errno));
  }
  pollfd polled{connection.socket(), POLLIN, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  const int ready =
      poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(milliseconds, 1, 1 << 30)));
  if (ready == 0) {
    return Status(Code::kBusy, fmt::format("none came in {:.0f} s; it is taken when the program "
                                           "next calls CUDA (--timeout waits longer)",
                                           static_cast<double>(milliseconds) / 1000));
  }
  char message[kControlMessageBytes + 1];
  const ssize_t got = recv(connection.socket(), message, sizeof message, 0);
  if (got <= 0) return Status(Code::kIo, "it ended");
  std::optional<CutOutcome> outcome = decode_reply({message, static_cast<size_t>(got)});
  if (!outcome) {
    return Status(Code::kInvalid, "its answer cannot be read; is it another version?");
  }
  if (!outcome->ok) return Status(Code::kIo, outcome->error);
  return std::move(*outcome);
}

// The parts of the other ranks, wherever they run: the store has them.
Result<CheckpointInfo> wait_for_all_ranks(const ProcessStatus& process, const std::string& id,
                                          Steady::time_point until) {
  const Result<std::unique_ptr<Store>> store = open_store(process.store);
  if (!store.ok()) return store.status();
  for (;;) {
    const Result<std::vector<CheckpointInfo>> listed = store.value()->list(process.job);
    if (!listed.ok()) return listed.status();
    const auto found = std::ranges::find(listed.value(), id, &CheckpointInfo::id);
    if (found == listed->end()) {
      return Status(Code::kNotFound, "another rank gave " + id + " up, and has said why");
    }
    if (found->state == CheckpointState::kComplete) return *found;
    if (found->state == CheckpointState::kDamaged) return Status(Code::kDamaged, found->reason);
    if (Steady::now() > until) {
      return Status(Code::kBusy, fmt::format("of {}, not all {} ranks have saved their parts yet; "
                                             "`gpusnap list` shows when they have",
                                             id, process.ranks));
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

int checkpoint_command(const CheckpointOptions& options) {
  const auto until = Steady::now() + options.timeout;
  const ControlConnection connection(options.timeout);
  if (const Status connected = connection.connect_to(options.pid); !connected.ok()) {
    return failed(options.pid, connected.message());
  }
  const std::vector<StatusAnswer> about = ask_for_status({options.pid}, kForStatus);
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) fmt::print(stderr, "waiting for the cut ...");
  const Result<CutOutcome> outcome = ask_for_checkpoint(connection, options.timeout);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!outcome.ok()) return failed(options.pid, outcome.status().message());
  if (about.empty() || !about[0].status || about[0].status->ranks < 2) {
    fmt::print("{}: {}, program held {}\n", outcome->id, show_bytes(outcome->bytes),
               show_nanoseconds(outcome->stall_ns));
    return kExitOk;
  }
  if (terminal) fmt::print(stderr, "waiting for the other ranks ...");
  const Result<CheckpointInfo> whole = wait_for_all_ranks(*about[0].status, outcome->id, until);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!whole.ok()) return failed(options.pid, whole.status().message());
  fmt::print("{}: {} of {} ranks, program held {}\n", whole->id, show_bytes(whole->bytes),
             whole->ranks.size(), show_nanoseconds(whole->stall_ns));
  return kExitOk;
}

void declare_checkpoint(CLI::App& command, CheckpointOptions& options) {
  command.add_option("PID", options.pid, "process that runs under gpusnap")
      ->required()
      ->check([](const std::string& text) {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return number ? std::string() : "'" + text + "' is not a process id";
      });
  add_time(command, "--timeout", options.timeout, "30s", "longest wait for it (default 5m)");
  end_help(command,
           "Waits until the checkpoint is durable and prints its name, its size "
           "and how long the program was held.\n\n"
           "Example:\n  gpusnap checkpoint --timeout 30s 4711\n\n");
}

}  // namespace

const Command kCheckpointCommand{
    "checkpoint", "have a running program take a checkpoint now",
    [](CLI::App& command) { return action_of(command, declare_checkpoint, checkpoint_command); }};

}  // namespace gpusnap
