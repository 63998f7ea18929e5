// SPDX-License-Identifier: Apache-2.0
//
// The tool's end of a control socket (interpose/services/control.h), message by message.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/services/control.h"
#include "tests/support/becomes.h"

namespace gpusnap {

class Client {
 public:
  explicit Client(pid_t process = getpid())
      : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const ControlAddress name = control_address(geteuid(), process);
    connected_ =
        connect(socket_, reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0;
  }
  ~Client() { hang_up(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  bool connected() const { return connected_; }
  void say(std::string_view message) {
    EXPECT_EQ(send(socket_, message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
  }
  void hang_up() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  bool has_answer() const {
    pollfd polled{socket_, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  }
  std::optional<CutOutcome> answer() { return decode_reply(message()); }
  std::optional<StatusReply> status() {
    say(kStatusRequest);
    return decode_status(message());
  }

  // And the descriptors that come with it.
  std::string message_with(std::vector<int>& files) {
    pollfd polled{socket_, POLLIN, 0};
    if (poll(&polled, 1, kPatience) != 1) return {};
    std::string text(kControlMessageBytes, '\0');
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostMemoryPieces)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head == nullptr) return text;
    files.resize((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(files.data(), CMSG_DATA(head), files.size() * sizeof(int));
    return text;
  }

 private:
  std::string message() {
    pollfd polled{socket_, POLLIN, 0};
    if (poll(&polled, 1, kPatience) != 1) return {};
    std::string message(2 * kStatusMessageBytes, '\0');
    const ssize_t got = recv(socket_, message.data(), message.size(), 0);
    message.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return message;
  }

  int socket_;
  bool connected_ = false;
};

inline CutOutcome committed(const char* id) {
  CutOutcome outcome;
  outcome.ok = true;
  outcome.id = id;
  outcome.bytes = 123;
  outcome.stall_ns = 45;
  return outcome;
}

}  // namespace gpusnap
