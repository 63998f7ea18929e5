// SPDX-License-Identifier: Apache-2.0
// TCP between nodes. No call blocks for ever: a peer whose cable was cut is an error after
// kLongestSilence.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "tiers/levels/channel.h"
#include "tiers/levels/level_settings.h"

namespace gpusnap::levels {

inline constexpr std::chrono::seconds kLongestSilence{10};
// While a peer whose machine is there works on a request: makes a shard durable, for one.
inline constexpr std::chrono::seconds kLongestWork{60};

class TcpStream final : public ByteStream {
 public:
  // Takes the descriptor. `name`: of the peer, for messages.
  TcpStream(int file, std::string name);
  ~TcpStream() override;
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  static Result<std::unique_ptr<TcpStream>> connect(
      const PeerAddress& peer, std::chrono::milliseconds longest = std::chrono::seconds(3));

  Status write(std::span<const std::byte> bytes) override;
  Status read(std::span<std::byte> bytes) override;
  // Ends reads and writes of any thread.
  void shut_down();
  // How long a read waits for more bytes.
  void wait_for(std::chrono::seconds silence);

 private:
  Status failed(const char* what) const;
  const int file_;
  const std::string name_;
};

class TcpListener {
 public:
  // On all of this node's addresses. Port 0: any.
  static Result<std::unique_ptr<TcpListener>> listen(uint16_t port);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  uint16_t port() const { return port_; }
  // Waits for the next connection. Null after stop().
  std::unique_ptr<TcpStream> accept();
  void stop();  // any thread

 private:
  TcpListener(int file, int wake, uint16_t port) : file_(file), wake_(wake), port_(port) {}
  const int file_;
  const int wake_;
  const uint16_t port_;
  std::atomic<bool> stopped_{false};
};

// Returns the number of the peer that is this node: with an address of its interfaces and, if
// `port` is not 0, that port. Returns kNotFound if there is none, kInvalid if there are several.
Result<uint32_t> find_own(const std::vector<PeerAddress>& peers, uint16_t port);

}  // namespace gpusnap::levels
