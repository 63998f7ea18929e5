// SPDX-License-Identifier: Apache-2.0
// Messages between two gpusnapd of a job over a stream of bytes that an attacker may read, change,
// cut or repeat. Each message arrives unchanged, in order and once, or the channel fails.
//
// Both sides have the job's key. Each connection has a new pair of X25519 keys and therefore new
// session keys. A recorded connection cannot be replayed, and it cannot be read if the job's key
// becomes known later. Each message carries a tag of ChaCha20-Poly1305 over its bytes, its length
// and its number (as the nonce). It is encrypted if both sides ask for that.
//
//   client  hello: magic, version, encrypts, public key          42 bytes
//   server  hello, likewise
//   both    "client"/"server" as the first message, which proves that the sender has the key
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

// A stream of bytes to and from another process. At most one thread writes and one reads.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Reads exactly that many bytes. Returns kNotFound if the other side had ended before the first.
  virtual Status read(std::span<std::byte> bytes) = 0;
};

struct JobKey {
  std::array<unsigned char, 32> bytes{};
};
// Reads the key from a file that only this user may read (mode 0600 or less), with 32 to 4096
// arbitrary bytes. Returns kPermission or kInvalid otherwise.
Result<JobKey> read_job_key(const std::string& path);

inline constexpr size_t kMostMessageBytes = (1 << 20) + (4 << 10);

// Not thread-safe. After a failure all further calls fail.
class Channel {
 public:
  enum class Side { kClient, kServer };
  // Performs the handshake. Returns kPermission if the other side has another key, kInvalid if only
  // one side encrypts, kNewer for another version, kDamaged if the other side is no gpusnapd.
  static Result<std::unique_ptr<Channel>> open(std::unique_ptr<ByteStream> stream, Side side,
                                               const JobKey& key, bool encrypts);
  virtual ~Channel() = default;

  // At most kMostMessageBytes.
  virtual Status send(std::span<const std::byte> message) = 0;
  // Returns the next message, valid until the next call. Returns kNotFound if the other side ended
  // between two messages, kIo if within one, kDamaged if the bytes are not the next message.
  virtual Result<std::span<const std::byte>> receive() = 0;
  // Bytes sent, including handshake, lengths and tags.
  virtual uint64_t sent_bytes() const = 0;
};

}  // namespace gpusnap::levels
