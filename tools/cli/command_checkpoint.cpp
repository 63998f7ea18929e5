#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "interpose/services/control.h"
#include "interpose/services/log.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

class Connection {
 public:
  Connection() : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {}
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  int get() const { return socket_; }

 private:
  int socket_;
};

int failed(int pid, const std::string& why) {
  log(LogLevel::kError, "no checkpoint of process ", pid, ": ", why);
  return kExitInternal;
}

// Anybody may take the name that the process has not taken: it must be the process itself.
std::string connect_to(const Connection& connection, int pid) {
  struct stat process = {};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0) return "there is no such process";
  const ControlAddress name = control_address(process.st_uid, pid);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) !=
      0) {
    return errno == ECONNREFUSED ? "it does not run under gpusnap, or has not used CUDA yet"
                                 : fmt::format("it cannot be reached: {}", strerrordesc_np(errno));
  }
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
      peer.pid != pid || peer.uid != process.st_uid) {
    return "another process answers in its name";
  }
  return {};
}

}  // namespace

int checkpoint_command(const CheckpointOptions& options) {
  const Connection connection;
  const std::string problem = connect_to(connection, options.pid);
  if (!problem.empty()) return failed(options.pid, problem);
  if (send(connection.get(), kCheckpointRequest.data(), kCheckpointRequest.size(), MSG_NOSIGNAL) <
      0) {
    return failed(options.pid, strerrordesc_np(errno));
  }
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) fmt::print(stderr, "waiting for the cut ...");
  pollfd polled{connection.get(), POLLIN, 0};
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
  const ssize_t got = recv(connection.get(), message, sizeof message, 0);
  if (got <= 0) return failed(options.pid, "it ended");
  const std::optional<CutOutcome> outcome = decode_reply({message, static_cast<size_t>(got)});
  if (!outcome) return failed(options.pid, "its answer cannot be read; is it another version?");
  if (!outcome->ok) return failed(options.pid, outcome->error);
  fmt::print("{}: {}, program held {}\n", outcome->id, show_bytes(outcome->bytes),
             show_nanoseconds(outcome->stall_ns));
  return kExitOk;
}

}  // namespace gpusnap
