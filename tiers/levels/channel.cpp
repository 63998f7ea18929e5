// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/channel.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "tiers/levels/byte_coder.h"

namespace gpusnap::levels {

namespace {

constexpr std::string_view kMagic = "GPUSNAPL";
constexpr uint8_t kVersion = 1;
constexpr size_t kHelloBytes = 8 + 1 + 1 + crypto_scalarmult_BYTES;
constexpr size_t kLengthBytes = 4;
constexpr size_t kTagBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;
constexpr size_t kKeyBytes = crypto_aead_chacha20poly1305_ietf_KEYBYTES;

unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

Status initialise() {
  static const int kReady = ::sodium_init();
  if (kReady < 0) return {Code::kIo, "libsodium cannot be used"};
  return {};
}

// One direction: its key, and the number of its next message.
struct Direction {
  std::array<unsigned char, kKeyBytes> key{};
  uint64_t next = 0;

  Direction() = default;
  Direction(const Direction&) = delete;
  Direction& operator=(const Direction&) = delete;
  ~Direction() { ::sodium_memzero(key.data(), key.size()); }

  std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> take_nonce() {
    std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> nonce{};
    const uint64_t number = next++;
    for (size_t i = 0; i < sizeof number; ++i) {
      nonce[4 + i] = static_cast<unsigned char>(number >> (8 * i));
    }
    return nonce;
  }
};

class SecureChannel final : public Channel {
 public:
  SecureChannel(std::unique_ptr<ByteStream> stream, bool encrypts)
      : stream_(std::move(stream)), encrypts_(encrypts) {}

  Status shake_hands(Side side, const JobKey& key) {
    ByteWriter hello;
    hello.raw(std::as_bytes(std::span(kMagic))).number(kVersion);
    hello.number(static_cast<uint8_t>(encrypts_ ? 1 : 0));
    Secret secret;
    std::array<std::byte, crypto_scalarmult_BYTES> own_public{};
    ::randombytes_buf(secret.bytes.data(), secret.bytes.size());
    (void)::crypto_scalarmult_base(raw(own_public.data()), secret.bytes.data());
    hello.raw(own_public);
    std::array<std::byte, kHelloBytes> other{};
    const bool is_client = side == Side::kClient;
    if (is_client) {
      if (Status sent = stream_->write(hello.bytes()); !sent.ok()) return sent;
    }
    if (Status got = stream_->read(other); !got.ok()) return ended_early(got);
    if (Status known = check(other); !known.ok()) return known;
    if (!is_client) {
      if (Status sent = stream_->write(hello.bytes()); !sent.ok()) return sent;
    }
    const std::span<const std::byte> own(hello.bytes());
    if (Status made = make_keys(side, key, secret, own, other); !made.ok()) return made;
    return prove(is_client ? "client" : "server", is_client ? "server" : "client");
  }

  Status send(std::span<const std::byte> message) override {
    if (!status_.ok()) return status_;
    if (message.size() > kMostMessageBytes) return {Code::kInvalid, "a message is too long"};
    frame_.resize(kLengthBytes + message.size() + kTagBytes);
    put_length(frame_.data(), message.size());
    std::byte* const body = frame_.data() + kLengthBytes;
    std::byte* const tag = body + message.size();
    const auto nonce = sending_.take_nonce();
    if (encrypts_) {
      (void)::crypto_aead_chacha20poly1305_ietf_encrypt_detached(
          raw(body), raw(tag), nullptr, raw(message.data()), message.size(), raw(frame_.data()),
          kLengthBytes, nullptr, nonce.data(), sending_.key.data());
    } else {
      std::copy(message.begin(), message.end(), body);
      (void)::crypto_aead_chacha20poly1305_ietf_encrypt_detached(
          raw(body), raw(tag), nullptr, raw(body), 0, raw(frame_.data()),
          kLengthBytes + message.size(), nullptr, nonce.data(), sending_.key.data());
    }
    sent_bytes_ += frame_.size();
    return fail_with(stream_->write(frame_));
  }

  Result<std::span<const std::byte>> receive() override {
    if (!status_.ok()) return status_;
    std::array<std::byte, kLengthBytes> length{};
    if (Status got = stream_->read(length); !got.ok()) return fail_with(got);
    const size_t size = ByteReader(length).number<uint32_t>();
    if (size > kMostMessageBytes) return fail_with(changed());
    frame_.resize(kLengthBytes + size + kTagBytes);
    std::ranges::copy(length, frame_.begin());
    if (Status got = stream_->read(std::span(frame_).subspan(kLengthBytes)); !got.ok()) {
      return fail_with(within(got));
    }
    std::byte* const body = frame_.data() + kLengthBytes;
    const std::byte* const tag = body + size;
    const auto nonce = receiving_.take_nonce();
    const int wrong = encrypts_
                          ? ::crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                                raw(body), nullptr, raw(body), size, raw(tag), raw(frame_.data()),
                                kLengthBytes, nonce.data(), receiving_.key.data())
                          : ::crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                                raw(body), nullptr, raw(body), 0, raw(tag), raw(frame_.data()),
                                kLengthBytes + size, nonce.data(), receiving_.key.data());
    if (wrong != 0) return fail_with(changed());
    return std::span<const std::byte>(body, size);
  }

  uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  struct Secret {
    std::array<unsigned char, crypto_scalarmult_SCALARBYTES> bytes{};
    Secret() = default;
    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;
    ~Secret() { ::sodium_memzero(bytes.data(), bytes.size()); }
  };

  static Status changed() {
    return {Code::kDamaged,
            "a message between nodes was changed on its way, came twice or out of order"};
  }
  static Status within(const Status& got) {
    if (got.code() != Code::kNotFound) return got;
    return {Code::kIo, "a connection between nodes ended within a message"};
  }
  static Status ended_early(const Status& got) {
    if (got.code() != Code::kNotFound) return got;
    return {Code::kIo, "a connection between nodes ended before both sides knew each other"};
  }

  Status fail_with(Status status) {
    if (status_.ok()) status_ = status;
    return status;
  }

  static void put_length(std::byte* to, size_t size) {
    for (size_t i = 0; i < kLengthBytes; ++i) to[i] = static_cast<std::byte>(size >> (8 * i));
  }

  Status check(std::span<const std::byte> hello) const {
    if (std::memcmp(hello.data(), kMagic.data(), kMagic.size()) != 0) {
      return {Code::kDamaged, "the other side of a connection is no gpusnapd"};
    }
    ByteReader reader(hello.subspan(kMagic.size()));
    const auto version = reader.number<uint8_t>();
    if (version != kVersion) {
      return {Code::kNewer, "another node's gpusnapd speaks version " + std::to_string(version) +
                                " of the levels, this one speaks " + std::to_string(kVersion)};
    }
    if (reader.number<uint8_t>() != (encrypts_ ? 1 : 0)) {
      return {Code::kInvalid,
              "one node encrypts and another one does not: "
              "GPUSNAP_LEVEL_ENCRYPT has to be the same on both"};
    }
    return {};
  }

  // From the job's key, what X25519 makes of both sides' keys, and all that was said.
  Status make_keys(Side side, const JobKey& key, const Secret& secret,
                   std::span<const std::byte> own, std::span<const std::byte> other) {
    Secret shared;
    const std::byte* const public_key = other.data() + other.size() - crypto_scalarmult_BYTES;
    if (::crypto_scalarmult(shared.bytes.data(), secret.bytes.data(), raw(public_key)) != 0) {
      return {Code::kDamaged, "the other side of a connection sent a public key that is none"};
    }
    const bool is_client = side == Side::kClient;
    const auto client = is_client ? own : other;
    const auto server = is_client ? other : own;
    std::array<unsigned char, 2 * kKeyBytes> keys{};
    crypto_generichash_state state;
    (void)::crypto_generichash_init(&state, key.bytes.data(), key.bytes.size(), keys.size());
    (void)::crypto_generichash_update(&state, raw(client.data()), client.size());
    (void)::crypto_generichash_update(&state, raw(server.data()), server.size());
    (void)::crypto_generichash_update(&state, shared.bytes.data(), shared.bytes.size());
    (void)::crypto_generichash_final(&state, keys.data(), keys.size());
    Direction& from_client = is_client ? sending_ : receiving_;
    Direction& from_server = is_client ? receiving_ : sending_;
    std::copy_n(keys.begin(), kKeyBytes, from_client.key.begin());
    std::copy_n(keys.begin() + kKeyBytes, kKeyBytes, from_server.key.begin());
    ::sodium_memzero(keys.data(), keys.size());
    return {};
  }

  Status prove(std::string_view own, std::string_view other) {
    if (Status sent = send(std::as_bytes(std::span(own))); !sent.ok()) return sent;
    const auto proof = receive();
    if (proof.status().code() == Code::kNotFound) return ended_early(proof.status());
    const bool good =
        proof.ok() && std::ranges::equal(proof.value(), std::as_bytes(std::span(other)));
    if (good) return {};
    if (!proof.ok() && proof.status().code() != Code::kDamaged) return proof.status();
    return fail_with({Code::kPermission,
                      "the other side of a connection has another job's key: it was refused"});
  }

  const std::unique_ptr<ByteStream> stream_;
  const bool encrypts_;
  Direction sending_;
  Direction receiving_;
  std::vector<std::byte> frame_;  // that is sent, or was received
  uint64_t sent_bytes_ = 0;
  Status status_;
};

Status cannot_use(const std::string& path, Code code, const std::string& why) {
  return {code, "the job's key " + path + " cannot be used: " + why};
}

}  // namespace

Result<JobKey> read_job_key(const std::string& path) {
  constexpr size_t kLeast = 32;
  constexpr size_t kMost = 4096;
  if (Status ready = initialise(); !ready.ok()) return ready;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return cannot_use(path, Code::kPermission, std::strerror(errno));
  struct stat about {};
  std::array<unsigned char, kMost + 1> content{};
  const bool is_known = ::fstat(file, &about) == 0;
  const ssize_t got = ::read(file, content.data(), content.size());
  ::close(file);
  if (!is_known || got < 0) return cannot_use(path, Code::kIo, "it cannot be read");
  if (!S_ISREG(about.st_mode)) return cannot_use(path, Code::kInvalid, "it is no file");
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return cannot_use(path, Code::kPermission,
                      "it has to be this user's, and nobody else's to read (chmod 600)");
  }
  const auto bytes = static_cast<size_t>(got);
  if (bytes < kLeast || bytes > kMost) {
    return cannot_use(path, Code::kInvalid,
                      "it has to have 32 to 4096 bytes (head -c 32 /dev/urandom)");
  }
  JobKey key;
  (void)::crypto_generichash(key.bytes.data(), key.bytes.size(), content.data(), bytes, nullptr, 0);
  ::sodium_memzero(content.data(), content.size());
  return key;
}

Result<std::unique_ptr<Channel>> Channel::open(std::unique_ptr<ByteStream> stream, Side side,
                                               const JobKey& key, bool encrypts) {
  if (Status ready = initialise(); !ready.ok()) return ready;
  auto channel = std::make_unique<SecureChannel>(std::move(stream), encrypts);
  if (Status known = channel->shake_hands(side, key); !known.ok()) return known;
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace gpusnap::levels
