// The protocol between the tool and the library in process PID, and between libraries of several
// processes: one request line, one reply line, each a message of a sequenced-packet socket with an
// abstract name. The library parses requests, and the asker parses replies, as hostile input.
//
//   request  "gpusnap 1 checkpoint\n"            of `gpusnap checkpoint PID`
//   reply    "gpusnap 1 ok <id> <bytes> <stall in ns>\n"
//            "gpusnap 1 error <text>\n"
//
//   request  "gpusnap 1 stop\n"                  of `gpusnap stop`; the replies are the same. The
//            program is held from the cut on, and ends once all ranks' parts are durable
//
//   request  "gpusnap 1 status\n"                of `gpusnap status`
//   reply    "gpusnap 1 status <word>=<value> ...\n"; one space before each word
//            "gpusnap 1 error <text>\n"
//
//   request  "gpusnap 1 memory <number> <id> <job>\n"  of a process that opens a SharedHandle
//   reply    "gpusnap 1 memory <address> <size> <same job: 0 or 1> driver <128 digits>\n"
//            "gpusnap 1 memory <address> <size> <0 or 1> mapped <first> <bytes> ...\n", with a
//            descriptor of each piece of physical memory
//            "gpusnap 1 error <text>\n"
//
//   request  "gpusnap 1 loan <bytes> <device>\n"  of a process whose device buffer is too small
//   reply    "gpusnap 1 loan <bytes> <first> <device> <bytes> ...\n", with a descriptor of each
//            piece of physical memory; the connection stays until
//   request  "gpusnap 1 returned\n"               whoever borrowed it does not use it any more
//            "gpusnap 1 error <text>\n"
//
// In a value, bytes up to a space, DEL and '%' are written as '%' and two hexadecimal digits. A
// word that is left out has the value of a ProcessStatus that was just made; one that the reader
// does not know is passed over, so later versions may say more.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/plan/interval_choice.h"

namespace gpusnap {

// The longest, with their line breaks: of all messages but one, of the reply to kStatusRequest.
inline constexpr size_t kControlMessageBytes = 512;
inline constexpr size_t kStatusMessageBytes = 32768;
inline constexpr std::string_view kCheckpointRequest = "gpusnap 1 checkpoint\n";
inline constexpr std::string_view kStopRequest = "gpusnap 1 stop\n";
inline constexpr std::string_view kStatusRequest = "gpusnap 1 status\n";
// The answer of a library that is older than the request.
inline constexpr std::string_view kUnknownRequest = "not a request that this version knows";

// The answer of a library that has more requests than it takes.
inline constexpr std::string_view kTooManyRequests = "too many requests at once";

// The outcome of a cut.
struct CutOutcome {
  bool ok = false;
  std::string id;         // of the checkpoint; ok only
  uint64_t bytes = 0;     // of device memory saved; ok only
  uint64_t stall_ns = 0;  // how long the program was held; ok only
  std::string error;      // one line; not ok only
};

// The stage of a process, as to its checkpoints.
enum class Doing : uint8_t {
  kStarting,   // it has no CUDA context yet
  kReplaying,  // of a restored run: not at its cut yet
  kRecording,
  kOff,     // no more checkpoints
  kEnding,  // the program has ended, and its last checkpoint is waited for
};
const char* name_of(Doing doing);  // "starting", "replaying", "recording", "off", "ending"

// The event that the next checkpoint waits for.
enum class Due : uint8_t {
  kNot,    // a request, a signal, synchronisations
  kTime,   // until ProcessStatus::due_in_ns have passed
  kCall,   // due: for the program's next CUDA call
  kRanks,  // due: for an MPI collective of all ranks
};
const char* name_of(Due due);  // "not", "time", "call", "ranks"

struct ProcessStatus {
  std::string job;    // its folder's name in the store
  std::string store;  // folder
  std::string host;
  std::string area;  // shared memory of its backend; empty: the backend is within the process
  uint32_t rank = 0;
  uint32_t ranks = 1;
  Doing doing = Doing::kStarting;
  std::string why;  // kOff: one line
  // The last checkpoint that is complete as far as this rank goes, or that was restored; 0: none.
  uint64_t epoch = 0;
  int64_t cut_unix_ns = 0;
  uint64_t stall_ns = 0;
  uint32_t in_memory = 0;  // 1: it is in its node's memory alone
  // The one on its way; 0: none.
  uint64_t saving = 0;
  uint64_t saved_bytes = 0;  // that have left the device
  uint64_t bytes = 0;        // of device memory, in all
  Due due = Due::kNot;
  uint64_t due_in_ns = 0;
  plan::ChosenInterval interval;  // that GPUSNAP_EVERY=auto goes by
  bool operator==(const ProcessStatus&) const = default;
};

bool is_status_request(std::string_view message);
// At most kStatusMessageBytes: what is too long is cut.
std::string encode_status(const ProcessStatus& status);

// The outcome of asking: a status, or why there is none.
struct StatusReply {
  ProcessStatus status;
  std::string error;  // one line; empty: there is a status
};
std::optional<StatusReply> decode_status(std::string_view message);

bool is_checkpoint_request(std::string_view message);
bool is_stop_request(std::string_view message);
// At most kControlMessageBytes; a long error is cut.
std::string encode_reply(const CutOutcome& outcome);
std::optional<CutOutcome> decode_reply(std::string_view message);

// ---- device memory that processes share (shared_memory.h) ----

// The program takes this for a handle of the driver's (CUipcMemHandle).
struct SharedHandle {
  pid_t process = 0;    // that has the memory
  uint64_t number = 0;  // of that process, random: another one may get its pid
  uint64_t id = 0;      // of the memory, in that process
  auto operator<=>(const SharedHandle&) const = default;
};
using HandleBytes = std::array<char, 64>;
HandleBytes encode_handle(const SharedHandle& handle);
// None: it is one of the driver's, or anything else.
std::optional<SharedHandle> decode_handle(const HandleBytes& bytes);

struct MemoryRequest {
  uint64_t number = 0;
  uint64_t id = 0;
  uint64_t job = 0;  // hash of its name
  bool operator==(const MemoryRequest&) const = default;
};
std::string encode_memory_request(const MemoryRequest& request);
std::optional<MemoryRequest> decode_memory_request(std::string_view message);

// Physical memory that an allocation lies in, whole granules side by side, of which the first one
// is at `first` in its process.
inline constexpr size_t kMostMemoryPieces = 16;
struct MemoryReply {
  uint64_t address = 0;  // in the process that has it
  uint64_t size = 0;
  bool same_job = false;
  HandleBytes driver{};  // where there are no pieces
  uint64_t first = 0;
  std::vector<uint64_t> pieces;  // bytes of each; at most kMostMemoryPieces
  std::string error;             // one line; empty: there is all else
  bool operator==(const MemoryReply&) const = default;
};
std::string encode_memory_reply(const MemoryReply& reply);
std::optional<MemoryReply> decode_memory_reply(std::string_view message);

// ---- device buffers that processes lend each other (snapshot/borrower.h) ----

inline constexpr std::string_view kReturned = "gpusnap 1 returned\n";
// A device, by the identifier that the driver gives it in all processes.
using DeviceId = std::array<char, 16>;
struct LoanRequest {
  uint64_t bytes = 0;  // no more than these
  DeviceId device{};   // that they are for: memory of another one is wanted
  bool operator==(const LoanRequest&) const = default;
};
std::string encode_loan_request(const LoanRequest& request);
std::optional<LoanRequest> decode_loan_request(std::string_view message);

// Memory that lies in pieces of physical memory of a device, one behind the other.
struct LoanReply {
  uint64_t bytes = 0;
  uint64_t first = 0;            // byte of the first piece
  DeviceId device{};             // that has it
  std::vector<uint64_t> pieces;  // bytes of each; at most kMostMemoryPieces
  std::string error;             // one line; empty: there is all else
  bool operator==(const LoanReply&) const = default;
};
std::string encode_loan_reply(const LoanReply& reply);
std::optional<LoanReply> decode_loan_reply(std::string_view message);

// The name under which process `pid` of user `uid` listens.
struct ControlAddress {
  sockaddr_un address;
  socklen_t bytes;
};
ControlAddress control_address(uid_t uid, pid_t pid);

}  // namespace gpusnap
