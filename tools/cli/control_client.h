// The tool's end of a process's control socket (interpose/services/control.h).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "interpose/services/control.h"
#include "tiers/status.h"

namespace gpusnap {

class ControlConnection {
 public:
  // `longest`: to wait where the process takes no more connections for now; 0: not at all, and
  // nothing that is done with the socket waits.
  explicit ControlConnection(std::chrono::nanoseconds longest = {});
  ~ControlConnection();
  ControlConnection(ControlConnection&& other) noexcept;
  ControlConnection& operator=(ControlConnection&&) = delete;

  // kNotFound where there is no such process, or it does not listen; kPermission where another one
  // has taken its name; kBusy where it takes no more connections.
  Status connect_to(int pid) const;
  int socket() const { return socket_; }

 private:
  int socket_;
};

struct StatusAnswer {
  int pid = 0;
  std::optional<ProcessStatus> status;
  std::string problem;  // one line; where there is no status
};

// Asks all of them at once, and waits for at most `longest`. Leaves out processes that are gone, or
// are not what their names say.
std::vector<StatusAnswer> ask_for_status(const std::vector<int>& pids,
                                         std::chrono::nanoseconds longest);

}  // namespace gpusnap
