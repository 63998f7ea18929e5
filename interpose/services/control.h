// What `gpusnap checkpoint PID` and the library in process PID say to each other: one request line,
// one reply line, each a message of a sequenced-packet socket with an abstract name. The library
// parses requests, and the tool replies, as hostile input.
//
//   request  "gpusnap 1 checkpoint\n"
//   reply    "gpusnap 1 ok <id> <bytes> <stall in ns>\n"
//            "gpusnap 1 error <text>\n"
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnap {

inline constexpr size_t kControlMessageBytes = 512;  // the longest, with its line break
inline constexpr std::string_view kCheckpointRequest = "gpusnap 1 checkpoint\n";

// What came of a cut.
struct CutOutcome {
  bool ok = false;
  std::string id;         // of the checkpoint; ok only
  uint64_t bytes = 0;     // of device memory saved; ok only
  uint64_t stall_ns = 0;  // how long the program was held; ok only
  std::string error;      // one line; not ok only
};

bool is_checkpoint_request(std::string_view message);
// At most kControlMessageBytes; a long error is cut.
std::string encode_reply(const CutOutcome& outcome);
std::optional<CutOutcome> decode_reply(std::string_view message);

// The name under which process `pid` of user `uid` listens.
struct ControlAddress {
  sockaddr_un address;
  socklen_t bytes;
};
ControlAddress control_address(uid_t uid, pid_t pid);

}  // namespace gpusnap
