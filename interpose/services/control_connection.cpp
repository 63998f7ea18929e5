// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/control_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "interpose/services/control.h"

namespace gpusnap {

Descriptor connect_to(pid_t process, int flags) {
  Descriptor connection = out_of_the_way(Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | flags, 0)));
  const ControlAddress name = control_address(geteuid(), process);
  ucred peer{};
  socklen_t bytes = sizeof peer;
  const bool right = connection.valid() &&
                     connect(connection.get(), reinterpret_cast<const sockaddr*>(&name.address),
                             name.bytes) == 0 &&
                     getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
                     peer.uid == geteuid() && peer.pid == process;
  return right ? std::move(connection) : Descriptor(-1);
}

std::optional<std::string> receive(int connection, std::vector<Descriptor>& files) {
  std::string text(kControlMessageBytes + 1, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostMemoryPieces)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); got > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(head) + i * sizeof file, sizeof file);
      files.push_back(out_of_the_way(Descriptor(file)));
    }
  }
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace gpusnap
