#include "interpose/services/triggers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "interpose/services/log.h"
#include "tiers/unlocked.h"

namespace gpusnap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostClients = 16;
constexpr size_t kMostBorrowers = 16;
constexpr auto kAskingTime = std::chrono::seconds(5);  // for a client to say what it wants

int64_t now_ns() {
  return Clock::now().time_since_epoch().count();
}

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

int64_t nanoseconds_of(double seconds) {
  constexpr double kMost = 1e17;  // three years
  return static_cast<int64_t>(std::min(seconds * 1e9, kMost));
}

void close_socket(int& descriptor) noexcept {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// The process at the other end, by a descriptor that is readable once it has ended; -1: it is not
// known, or has ended already. A child that has inherited its end of the connection is not it.
int process_behind(int connection) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid <= 0) {
    return -1;
  }
  int process = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  pollfd polled{connection, 0, 0};
  // Its number may be another's by now.
  if (poll(&polled, 1, 0) != 0) close_socket(process);
  return process;
}

}  // namespace

const char* name_of(CutReason reason) {
  switch (reason) {
    case CutReason::kNone:
      return "none";
    case CutReason::kTimer:
      return "timer";
    case CutReason::kSynchronisations:
      return "synchronisations";
    case CutReason::kBarriers:
      return "barriers";
    case CutReason::kSignal:
      return "signal";
    case CutReason::kRequest:
      return "request";
    case CutReason::kRequestedStop:
      return "stop request";
    case CutReason::kSignalledStop:
      return "stop signal";
  }
  return "none";
}

Triggers::Triggers(const Schedule& every,
                   const std::function<std::function<void()>(std::function<void()>)>& spawn)
    : interval_ns_(every.interval.count()),
      every_synchronisations_(every.synchronisations),
      last_cut_ns_(now_ns()) {
  began_ns_ = now_ns();
  if (every.automatic) {
    const bool is_stated = every.between_failures != Schedule().between_failures;
    plan::Failures failures;
    failures.between_s = seconds_of(every.between_failures);
    failures.weight = is_stated ? plan::kStatedWeight : plan::kAssumedWeight;
    failures.survived = every.survived;
    choice_.emplace(failures, every.chooses_levels);
    chosen_ = choice_->chosen();
    interval_ns_ = nanoseconds_of(choice_->interval_s());
  }
  wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listen();
  signals_.begin(every);
  if (wakeup_ >= 0) join_ = spawn([this] { run(); });
  if (!join_) {
    log(LogLevel::kWarn,
        "no thread for the timer and for requests: checkpoints are taken only by number of "
        "synchronisations and by signal");
    close_socket(listener_);
  }
}

Triggers::~Triggers() {
  stop();
}

void Triggers::listen() {
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const ControlAddress name = control_address(geteuid(), getpid());
  if (listener_ >= 0 &&
      bind(listener_, reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0 &&
      ::listen(listener_, static_cast<int>(kMostClients)) == 0) {
    return;
  }
  log(LogLevel::kWarn, "no control socket (", strerrordesc_np(errno),
      "): 'gpusnap checkpoint' cannot reach this process");
  close_socket(listener_);
}

// In a signal's handler.
void Triggers::caught(void* whose, bool stops) noexcept {
  auto& triggers = *static_cast<Triggers*>(whose);
  triggers.make_due(stops ? CutReason::kSignalledStop : CutReason::kSignal);
  if (!stops) return;
  triggers.stop_signalled_.store(true, std::memory_order_release);
  triggers.wake();
}

bool Triggers::on_synchronisation() noexcept {
  const uint64_t every = every_synchronisations_.load(std::memory_order_relaxed);
  if (every != 0 && (synchronisations_.fetch_add(1, std::memory_order_relaxed) + 1) % every == 0) {
    make_due(CutReason::kSynchronisations);
  }
  return pending();
}

void Triggers::coordinate(std::function<void()> overdue) {
  overdue_ = std::move(overdue);
  coordinated_.store(true, std::memory_order_release);
  wanted_.fetch_or(due_.exchange(0));
}

bool Triggers::is_asked_for() const noexcept {
  constexpr uint32_t kAsked = bit_of(CutReason::kSignal) | bit_of(CutReason::kRequest) | kStopBits;
  return (wanted_.load(std::memory_order_relaxed) & kAsked) != 0;
}

CutReason Triggers::take() noexcept {
  const std::lock_guard lock(mutex_);
  const uint32_t due =
      due_.exchange(0, std::memory_order_acquire) | wanted_.exchange(0, std::memory_order_acquire);
  // Another rank may have wanted it.
  if (due == 0 && !coordinated_.load(std::memory_order_relaxed)) return CutReason::kNone;
  last_cut_ns_.store(now_ns(), std::memory_order_relaxed);
  for (const auto& client : clients_) {
    if (client->state == Client::State::kWaiting) client->state = Client::State::kInCut;
  }
  return due == 0 ? CutReason::kNone : static_cast<CutReason>(31 - __builtin_clz(due));
}

void Triggers::restored(const plan::ChosenInterval& earlier, uint64_t stall_ns,
                        plan::Destination of) {
  if (choice_) {
    {
      const std::lock_guard choosing(choice_mutex_);
      choice_->resume(earlier);
      choice_->restarted();
      ran_before_s_ = earlier.run_s;
      began_ns_ = now_ns();
    }
    choose_interval(static_cast<double>(stall_ns) * 1e-9, std::nullopt, of);
  }
  {
    const std::lock_guard lock(mutex_);
    last_cut_ns_.store(now_ns(), std::memory_order_relaxed);
    // The time until now was that of the restore.
    constexpr uint32_t kOthers = ~bit_of(CutReason::kTimer);
    due_.fetch_and(kOthers);
    wanted_.fetch_and(kOthers);
  }
  wake();
}

plan::ChosenInterval Triggers::chosen() const {
  const std::lock_guard lock(mutex_);
  return chosen_;
}

double Triggers::run_s() const {
  const std::lock_guard choosing(choice_mutex_);
  return ran_before_s_ + seconds_of(std::chrono::nanoseconds(now_ns() - began_ns_));
}

uint64_t Triggers::store_every() const {
  const std::lock_guard lock(mutex_);
  return chosen_.store_every;
}

void Triggers::stores_all() {
  if (!choice_) return;
  const std::lock_guard choosing(choice_mutex_);
  choice_->without_memory();
  adopt_choice();
}

void Triggers::adopt_choice() {
  {
    const std::lock_guard lock(mutex_);
    chosen_ = choice_->chosen();
  }
  interval_ns_.store(nanoseconds_of(choice_->interval_s()), std::memory_order_relaxed);
  wake();
}

// Without a latency the mean stands in for it.
void Triggers::choose_interval(double stall_s, std::optional<double> latency_s,
                               plan::Destination of) {
  const double ran_s = run_s();
  const std::lock_guard choosing(choice_mutex_);
  choice_->ran(ran_s);
  choice_->measured(stall_s, latency_s.value_or(choice_->latency_s(of)), of);
  adopt_choice();
  log(LogLevel::kInfo, "auto: the next checkpoint is due ",
      nanoseconds_of(choice_->interval_s()) / 1000, " us after this one; stall ",
      nanoseconds_of(choice_->stall_s(of)) / 1000, " us, on its way for ",
      nanoseconds_of(choice_->latency_s(of)) / 1000, " us",
      of == plan::Destination::kMemory ? " to memory" : "", "; one of ", choice_->store_every(),
      " goes to the store");
}

void Triggers::report(const CutOutcome& outcome, plan::Destination to) {
  if (outcome.ok && choice_) {
    const int64_t since_cut_ns = now_ns() - last_cut_ns_.load(std::memory_order_relaxed);
    const double stall_s = static_cast<double>(outcome.stall_ns) * 1e-9;
    choose_interval(stall_s, std::max(static_cast<double>(since_cut_ns) * 1e-9 - stall_s, 0.0), to);
  }
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& client : clients_) {
      if (client->state != Client::State::kInCut) continue;
      answer(*client, encode_reply(outcome));
      any = true;
    }
  }
  if (any) wake();
}

void Triggers::end_cuts(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    why_no_more_ = why;
    const uint32_t due =
        due_.load(std::memory_order_relaxed) | wanted_.load(std::memory_order_relaxed);
    if ((due & bit_of(CutReason::kSignalledStop)) != 0) say_not_stopped(why);
    for (const auto& client : clients_) {
      if (client->state == Client::State::kWaiting) refuse(*client, why);
    }
  }
  wake();
}

void Triggers::set_status_source(std::function<ProcessStatus()> source) {
  const std::lock_guard lock(mutex_);
  status_source_ = std::move(source);
}

void Triggers::set_memory_source(MemorySource source) {
  const std::lock_guard lock(mutex_);
  memory_source_ = std::move(source);
}

void Triggers::set_loan_source(LoanSource source) {
  const std::lock_guard lock(mutex_);
  loan_source_ = std::move(source);
}

void Triggers::set_stop_source(StopSource source, std::function<void(const std::string& id)> end) {
  const std::lock_guard lock(mutex_);
  stop_source_ = std::move(source);
  end_ = std::move(end);
}

void Triggers::answer(Client& client, std::string reply) {
  client.reply = std::move(reply);
  client.state = Client::State::kAnswered;
}

void Triggers::refuse(Client& client, const std::string& why) {
  CutOutcome refused;
  refused.error = why;
  answer(client, encode_reply(refused));
}

// With the lock held.
void Triggers::complete(ProcessStatus& status) const {
  status.interval = chosen_;
  if (status.doing == Doing::kEnding) return;
  if (!why_no_more_.empty()) status.doing = Doing::kOff;
  if (status.doing == Doing::kOff) {
    status.why = why_no_more_;
  } else if (wanted_.load(std::memory_order_relaxed) != 0) {
    status.due = Due::kRanks;
  } else if (due_.load(std::memory_order_relaxed) != 0) {
    status.due = Due::kCall;
  } else if (const int64_t interval_ns = interval_ns_.load(std::memory_order_relaxed);
             interval_ns > 0) {
    const int64_t left = interval_ns - (now_ns() - last_cut_ns_.load(std::memory_order_relaxed));
    status.due = Due::kTime;
    status.due_in_ns = static_cast<uint64_t>(std::max<int64_t>(left, 0));
  }
}

void Triggers::wake() noexcept {
  const uint64_t one = 1;
  // Fails only where the counter is full: then the thread wakes anyway.
  [[maybe_unused]] const ssize_t written = write(wakeup_, &one, sizeof one);
}

std::chrono::nanoseconds Triggers::make_due_by_time(Clock::time_point now) {
  const std::chrono::nanoseconds interval(interval_ns_.load(std::memory_order_relaxed));
  if (interval.count() <= 0) return std::chrono::nanoseconds::max();
  {
    // Under the lock: an interval that begins meanwhile is not over.
    const std::lock_guard lock(mutex_);
    const std::chrono::nanoseconds since(now.time_since_epoch().count() -
                                         last_cut_ns_.load(std::memory_order_relaxed));
    if (since < interval) return interval - since;
    make_due(CutReason::kTimer);
  }
  if (coordinated_.load(std::memory_order_acquire) && overdue_) overdue_();
  // Again when the program has taken it; until then there is nothing to wait for.
  return std::min<std::chrono::nanoseconds>(interval, std::chrono::seconds(1));
}

int Triggers::poll_timeout_ms(Clock::time_point now) {
  Clock::duration left = make_due_by_time(now);
  const std::lock_guard lock(mutex_);
  for (const auto& client : clients_) {
    if (client->state != Client::State::kAsking) continue;
    left = std::min(left, std::max(Clock::duration::zero(), client->since + kAskingTime - now));
  }
  if (left == Clock::duration::max()) return -1;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<int64_t>(whole, 3'600'000));
}

void Triggers::run() {
  std::vector<pollfd> polled;
  std::vector<Client*> asking;
  while (!stopping_.load(std::memory_order_acquire)) {
    polled = {{wakeup_, POLLIN, 0}, {listener_, POLLIN, 0}};
    asking.clear();
    const int timeout = poll_timeout_ms(Clock::now());
    {
      const std::lock_guard lock(mutex_);
      for (const auto& client : clients_) {
        polled.push_back({client->socket, POLLIN, 0});
        polled.push_back({client->borrower, POLLIN, 0});
        asking.push_back(client.get());
      }
    }
    if (poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) break;
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = read(wakeup_, &count, sizeof count);
    }
    for (size_t i = 0; i < asking.size(); ++i) {
      if (polled[2 * i + 2].revents != 0) serve(*asking[i]);
      if (polled[2 * i + 3].revents != 0) end_loan(*asking[i]);
    }
    if (polled[1].revents != 0) accept_client();
    answer_and_drop();
    stop_early();
  }
  // Clients that still wait get no checkpoint.
  {
    const std::lock_guard lock(mutex_);
    for (const auto& client : clients_) {
      if (client->state == Client::State::kAnswered) continue;
      close_socket(client->borrower);
      refuse(*client, "the program ends; no checkpoint was taken");
    }
  }
  answer_and_drop();
}

void Triggers::accept_client() {
  int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) return;
  ucred peer{};
  socklen_t bytes = sizeof peer;
  const bool allowed = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
                       (peer.uid == geteuid() || peer.uid == 0);
  const size_t borrowers = this->borrowers();
  const std::lock_guard lock(mutex_);
  if (!allowed || clients_.size() >= kMostClients + borrowers) {
    CutOutcome refused;
    refused.error = allowed ? std::string(kTooManyRequests) : "only the program's user may ask";
    const std::string reply = encode_reply(refused);
    send(connection, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close_socket(connection);
    return;
  }
  auto client = std::make_unique<Client>();
  client->socket = connection;
  client->since = Clock::now();
  clients_.push_back(std::move(client));
}

// The socket has something, or its other end has gone. Only this thread changes a client's socket.
void Triggers::serve(Client& client) {
  char message[kControlMessageBytes + 1];
  const ssize_t got = recv(client.socket, message, sizeof message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::string_view request(message, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::unique_lock lock(mutex_);
  const bool asks = client.state == Client::State::kAsking;
  if (client.state == Client::State::kLent) {
    lock.unlock();
    serve_borrower(client, request);
  } else if (got <= 0) {
    close_socket(client.socket);  // gone; answer_and_drop() forgets it
    if (client.stops) withdraw_stop();
  } else if (asks && (is_checkpoint_request(request) || is_stop_request(request))) {
    take_request(client, is_stop_request(request));
  } else if (asks && is_status_request(request)) {
    const auto source = status_source_;
    if (!source) return refuse(client, "it is just beginning");
    ProcessStatus status;
    {
      const Unlocked unlocked(lock);
      status = source();
    }
    complete(status);
    answer(client, encode_status(status));
  } else if (const auto wanted = decode_memory_request(request); asks && wanted && memory_source_) {
    const auto source = memory_source_;
    std::vector<int> descriptors;
    const MemoryReply reply = [&] {
      const Unlocked unlocked(lock);
      return source(*wanted, descriptors);
    }();
    client.descriptors = std::move(descriptors);
    answer(client, encode_memory_reply(reply));
  } else if (const auto loan = decode_loan_request(request); asks && loan && loan_source_.lend) {
    lock.unlock();
    lend(client, *loan);
  } else if (client.state != Client::State::kAnswered) {
    refuse(client, std::string(kUnknownRequest));
  }
}

size_t Triggers::borrowers() {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(
      clients_, [](const auto& client) { return client->state == Client::State::kLent; }));
}

// Only this thread makes and ends loans.
void Triggers::lend(Client& client, const LoanRequest& request) {
  const size_t borrowers = this->borrowers();
  LoanReply reply{.error = "it has lent to as many as it can"};
  std::vector<int> descriptors;
  int process = -1;
  const uint64_t number = ++last_loan_;
  if (borrowers < kMostBorrowers) {
    process = process_behind(client.socket);
    reply.error = "it cannot tell when the borrower has ended";
  }
  if (process >= 0) reply = loan_source_.lend(request, number, descriptors);
  const std::lock_guard lock(mutex_);
  if (!reply.error.empty()) {
    close_socket(process);
    return answer(client, encode_loan_reply(reply));
  }
  client.loan = number;
  client.borrower = process;
  client.reply = encode_loan_reply(reply);
  client.descriptors = std::move(descriptors);
  client.state = Client::State::kLent;
  // A borrower that has not got it has ended, or will say that it does not need it.
  send_reply(client);
}

void Triggers::serve_borrower(Client& client, std::string_view message) {
  if (message == kReturned) return end_loan(client);
  const std::lock_guard lock(mutex_);
  close_socket(client.socket);
}

void Triggers::end_loan(Client& client) {
  if (client.state != Client::State::kLent) return;
  loan_source_.end(client.loan);
  const std::lock_guard lock(mutex_);
  close_socket(client.borrower);
  close_socket(client.socket);
  client.state = Client::State::kAnswered;
}

void Triggers::send_reply(Client& client) {
  iovec text{client.reply.data(), client.reply.size()};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostMemoryPieces)] = {};
  const size_t bytes = client.descriptors.size() * sizeof(int);
  if (bytes != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(head), client.descriptors.data(), bytes);
  }
  sendmsg(client.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  for (int& descriptor : client.descriptors) close_socket(descriptor);
  client.descriptors.clear();
}

void Triggers::answer_and_drop() {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(clients_, [now](const std::unique_ptr<Client>& client) {
    if (client->state == Client::State::kLent) return false;
    if (client->socket < 0) return true;
    if (client->state == Client::State::kAnswered) {
      send_reply(*client);
    } else if (client->state != Client::State::kAsking || now < client->since + kAskingTime) {
      return false;
    }
    close_socket(client->socket);
    return true;
  });
}

void Triggers::stop() {
  if (abandoned_) return;
  signals_.give_back();
  stopping_.store(true, std::memory_order_release);
  if (join_) {
    wake();
    join_();
    join_ = nullptr;
  }
  close_socket(listener_);
  close_socket(wakeup_);
}

void Triggers::abandon_after_fork() noexcept {
  signals_.give_back();
  due_.store(0, std::memory_order_relaxed);
  wanted_.store(0, std::memory_order_relaxed);
  every_synchronisations_.store(0, std::memory_order_relaxed);
  close_socket(listener_);
  close_socket(wakeup_);
  // The list of clients may be half changed by a thread that does not exist here. Their sockets
  // stay open until exec, which harms nobody: the parent answers them.
  abandoned_ = true;
}

}  // namespace gpusnap
