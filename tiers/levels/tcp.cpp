// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/tcp.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace gpusnap::levels {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const PeerAddress& peer) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &wanted, &found);
  if (failed != 0) {
    return Status(Code::kNotFound, "no address of " + peer.host + ": " + ::gai_strerror(failed));
  }
  return Addresses(found, ::freeaddrinfo);
}

// 0, or an errno.
int connect_within(int file, const addrinfo& address, std::chrono::milliseconds longest) {
  if (::connect(file, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{file, POLLOUT, 0};
  const int got = ::poll(&ready, 1, static_cast<int>(longest.count()));
  if (got == 0) return ETIMEDOUT;
  if (got < 0) return errno;
  int error = 0;
  socklen_t size = sizeof error;
  (void)::getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

bool is_same_host(const sockaddr& one, const sockaddr& other) {
  if (one.sa_family != other.sa_family) return false;
  if (one.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  }
  return one.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

bool is_own(const Interfaces& interfaces, const PeerAddress& peer) {
  const auto addresses = resolve(peer);
  if (!addresses.ok()) return false;
  for (const addrinfo* each = addresses->get(); each != nullptr; each = each->ai_next) {
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr != nullptr && is_same_host(*own->ifa_addr, *each->ai_addr)) return true;
    }
  }
  return false;
}

}  // namespace

TcpStream::TcpStream(int file, std::string name) : file_(file), name_(std::move(name)) {
  const int on = 1;
  const auto silence = static_cast<unsigned>(kLongestSilence.count() * 1000);
  const timeval longest{kLongestSilence.count(), 0};
  (void)::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_NONBLOCK);
  (void)::setsockopt(file_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::setsockopt(file_, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
  (void)::setsockopt(file_, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
  // A node that waits for an answer sends nothing: a machine that has gone is found by asking.
  const int idle_s = 5;
  const int between_s = 2;
  const int probes = 3;
  (void)::setsockopt(file_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)::setsockopt(file_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)::setsockopt(file_, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  (void)::setsockopt(file_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  wait_for(kLongestSilence);
}

TcpStream::~TcpStream() {
  ::close(file_);
}

Result<std::unique_ptr<TcpStream>> TcpStream::connect(const PeerAddress& peer,
                                                      std::chrono::milliseconds longest) {
  const auto addresses = resolve(peer);
  if (!addresses.ok()) return addresses.status();
  int error = EHOSTUNREACH;
  for (const addrinfo* each = addresses->get(); each != nullptr; each = each->ai_next) {
    const int file = ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) continue;
    error = connect_within(file, *each, longest);
    if (error == 0) return std::make_unique<TcpStream>(file, name_of(peer));
    ::close(file);
  }
  return Status(Code::kIo, "cannot reach " + name_of(peer) + ": " + std::strerror(error));
}

void TcpStream::wait_for(std::chrono::seconds silence) {
  const timeval longest{silence.count(), 0};
  (void)::setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
}

Status TcpStream::failed(const char* what) const {
  const int error = errno == EAGAIN || errno == EWOULDBLOCK ? ETIMEDOUT : errno;
  return {Code::kIo, std::string("cannot ") + what + " " + name_ + ": " + std::strerror(error)};
}

Status TcpStream::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return failed("send to");
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

Status TcpStream::read(std::span<std::byte> bytes) {
  bool any = false;
  while (!bytes.empty()) {
    const ssize_t got = ::recv(file_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("hear from");
    if (got == 0) {
      return {any ? Code::kIo : Code::kNotFound, "the connection to " + name_ + " has ended"};
    }
    any = true;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

void TcpStream::shut_down() {
  (void)::shutdown(file_, SHUT_RDWR);
}

Result<std::unique_ptr<TcpListener>> TcpListener::listen(uint16_t port) {
  const auto failed = [port](int file) {
    Status status(Code::kIo,
                  "cannot listen on port " + std::to_string(port) + ": " + std::strerror(errno));
    if (file >= 0) ::close(file);
    return status;
  };
  const int off = 0;
  const int on = 1;
  sockaddr_storage any{};
  socklen_t size = sizeof(sockaddr_in6);
  reinterpret_cast<sockaddr_in6&>(any) = sockaddr_in6{AF_INET6, htons(port), 0, in6addr_any, 0};
  int file = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file >= 0) {
    (void)::setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else {  // a kernel without IPv6
    size = sizeof(sockaddr_in);
    reinterpret_cast<sockaddr_in&>(any) = sockaddr_in{AF_INET, htons(port), {INADDR_ANY}, {}};
    file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  if (file < 0) return failed(file);
  (void)::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(file, reinterpret_cast<sockaddr*>(&any), size) < 0 || ::listen(file, SOMAXCONN) < 0 ||
      ::getsockname(file, reinterpret_cast<sockaddr*>(&any), &size) < 0) {
    return failed(file);
  }
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return failed(file);
  const uint16_t bound = any.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(any).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(any).sin_port;
  return std::unique_ptr<TcpListener>(new TcpListener(file, wake, ntohs(bound)));
}

TcpListener::~TcpListener() {
  ::close(file_);
  ::close(wake_);
}

std::unique_ptr<TcpStream> TcpListener::accept() {
  while (!stopped_.load()) {
    pollfd ready[2] = {{file_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return nullptr;
    if (stopped_.load()) return nullptr;
    const int file = ::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC);
    if (file >= 0) return std::make_unique<TcpStream>(file, "another node");
    // Out of descriptors: connections that end give some back.
    if (errno == EMFILE || errno == ENFILE) (void)::poll(&ready[1], 1, 100);
  }
  return nullptr;
}

void TcpListener::stop() {
  stopped_.store(true);
  (void)::eventfd_write(wake_, 1);
}

Result<uint32_t> find_own(const std::vector<PeerAddress>& peers, uint16_t port) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) < 0) return Status(Code::kIo, "this node's addresses are not known");
  const Interfaces interfaces(found, ::freeifaddrs);
  std::vector<uint32_t> own;
  for (uint32_t i = 0; i < peers.size(); ++i) {
    if (port != 0 && peers[i].port != port) continue;
    if (is_own(interfaces, peers[i])) own.push_back(i);
  }
  if (own.size() == 1) return own.front();
  if (own.empty()) return Status(Code::kNotFound, "GPUSNAP_PEERS has no address of this node");
  return Status(Code::kInvalid,
                "GPUSNAP_PEERS has several addresses of this node: GPUSNAP_LEVEL_PORT tells which "
                "is its own");
}

}  // namespace gpusnap::levels
