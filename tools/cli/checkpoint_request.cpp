// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/checkpoint_request.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tools/cli/control_client.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

using Steady = std::chrono::steady_clock;
constexpr auto kForStatus = std::chrono::seconds(2);
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

// Returns the process's answer, which comes once it has made the cut and saved its part of the
// checkpoint.
Result<CutOutcome> ask_for_checkpoint(const ControlConnection& connection, std::string_view request,
                                      std::chrono::nanoseconds longest) {
  if (send(connection.socket(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
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

// Shows on a terminal what is waited for.
class Waiting {
 public:
  explicit Waiting(std::string_view what) : shown_(isatty(STDERR_FILENO) == 1) {
    if (shown_) fmt::print(stderr, "waiting for {} ...", what);
  }
  ~Waiting() {
    if (shown_) (void)std::fputs("\r\033[K", stderr);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const bool shown_;
};

}  // namespace

Result<TakenCheckpoint> take_checkpoint_of(int pid, std::string_view request,
                                           std::chrono::nanoseconds longest) {
  const auto until = Steady::now() + longest;
  const ControlConnection connection(longest);
  if (Status connected = connection.connect_to(pid); !connected.ok()) return connected;
  const std::vector<StatusAnswer> about = ask_for_status({pid}, kForStatus);
  const Result<CutOutcome> outcome = [&] {
    const Waiting waiting("the cut");
    return ask_for_checkpoint(connection, request, longest);
  }();
  if (!outcome.ok()) return outcome.status();
  if (about.empty() || !about[0].status || about[0].status->ranks < 2) {
    return TakenCheckpoint{outcome->id, outcome->bytes, outcome->stall_ns};
  }
  const Waiting waiting("the other ranks");
  const Result<CheckpointInfo> whole = wait_for_all_ranks(*about[0].status, outcome->id, until);
  if (!whole.ok()) return whole.status();
  return TakenCheckpoint{whole->id, whole->bytes, whole->stall_ns, whole->ranks.size()};
}

std::string show(const TakenCheckpoint& taken) {
  const std::string ranks = taken.ranks < 2 ? "" : fmt::format(" of {} ranks", taken.ranks);
  return fmt::format("{}: {}{}, program held {}", taken.id, show_bytes(taken.bytes), ranks,
                     show_nanoseconds(taken.stall_ns));
}

}  // namespace gpusnap
