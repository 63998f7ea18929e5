// SPDX-License-Identifier: Apache-2.0
// Messages between two gpusnapd of a job over a stream of bytes that anybody may read, change, cut
// or repeat: each message arrives as it was sent, in order and once, or the channel fails.
//
// Both sides have the job's key. A new pair of X25519 keys for each connection makes the session's
// keys different each time, so that a recorded connection cannot be played again, and one that was
// recorded cannot be read when the job's key becomes known later. Each message carries a tag of
// ChaCha20-Poly1305 over itself, its length and its number (as the nonce); it is encrypted where
// both sides ask for it.
//
//   client  hello: magic, version, encrypts, public key          42 bytes
//   server  hello, likewise
//   both    "client"/"server" as the first message: only who has the key can make it
//   both    messages: length (4 bytes, little-endian), text or ciphertext, tag (16 bytes)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/status.h"

namespace gpusnap::levels {

// Bytes to and from another process. One thread writes and one reads, at most.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Exactly so many, or an error; kNotFound where the other side had ended before the first.
  virtual Status read(std::span<std::byte> bytes) = 0;
};

struct JobKey {
  std::array<unsigned char, 32> bytes{};
};
// The key of a file that nobody but this user may read (mode 0600 or less), with 32 to 4096 bytes
// of any content. kPermission, kInvalid.
Result<JobKey> read_job_key(const std::string& path);

inline constexpr size_t kMostMessageBytes = (1 << 20) + (4 << 10);

// Not thread-safe. After a failure it fails for good.
class Channel {
 public:
  enum class Side { kClient, kServer };
  // Makes both sides known to each other. kPermission where the other one has another key, kInvalid
  // where one encrypts and the other does not, kNewer for another version, kDamaged where it is
  // something else.
  static Result<std::unique_ptr<Channel>> open(std::unique_ptr<ByteStream> stream, Side side,
                                               const JobKey& key, bool encrypts);
  virtual ~Channel() = default;

  // At most kMostMessageBytes.
  virtual Status send(std::span<const std::byte> message) = 0;
  // Valid until the next call. kNotFound where the other side has ended between two messages, kIo
  // where it did within one, kDamaged where a message is not the next one that was sent.
  virtual Result<std::span<const std::byte>> receive() = 0;
  // Bytes that were sent, with all that goes around messages.
  virtual uint64_t sent_bytes() const = 0;
};

}  // namespace gpusnap::levels
