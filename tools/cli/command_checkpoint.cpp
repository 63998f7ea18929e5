#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "interpose/services/control.h"
#include "interpose/services/log.h"
#include "tools/cli/commands.h"
#include "tools/cli/control_client.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

int failed(int pid, const std::string& why) {
  log(LogLevel::kError, "no checkpoint of process ", pid, ": ", why);
  return kExitInternal;
}

}  // namespace

int checkpoint_command(const CheckpointOptions& options) {
  const ControlConnection connection(options.timeout);
  if (const Status connected = connection.connect_to(options.pid); !connected.ok()) {
    return failed(options.pid, connected.message());
  }
  if (send(connection.socket(), kCheckpointRequest.data(), kCheckpointRequest.size(),
           MSG_NOSIGNAL) < 0) {
    return failed(options.pid, strerrordesc_np(errno));
  }
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) fmt::print(stderr, "waiting for the cut ...");
  pollfd polled{connection.socket(), POLLIN, 0};
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout).count();
  const int ready =
      poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(milliseconds, 1, 1 << 30)));
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (ready == 0) {
    return failed(options.pid, fmt::format("none came in {:.0f} s; it is taken when the program "
                                           "next calls CUDA (--timeout waits longer)",
                                           static_cast<double>(milliseconds) / 1000));
  }
  char message[kControlMessageBytes + 1];
  const ssize_t got = recv(connection.socket(), message, sizeof message, 0);
  if (got <= 0) return failed(options.pid, "it ended");
  const std::optional<CutOutcome> outcome = decode_reply({message, static_cast<size_t>(got)});
  if (!outcome) return failed(options.pid, "its answer cannot be read; is it another version?");
  if (!outcome->ok) return failed(options.pid, outcome->error);
  fmt::print("{}: {}, program held {}\n", outcome->id, show_bytes(outcome->bytes),
             show_nanoseconds(outcome->stall_ns));
  return kExitOk;
}

}  // namespace gpusnap
