#include "tools/cli/control_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/cli/text.h"

namespace gpusnap {

ControlConnection::ControlConnection(std::chrono::nanoseconds longest)
    : socket_(::socket(
          AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (longest.count() == 0 ? SOCK_NONBLOCK : 0), 0)) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timeval most{seconds.count(),
                     std::chrono::ceil<std::chrono::microseconds>(longest - seconds).count()};
  // This limits connect(), too.
  (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

ControlConnection::~ControlConnection() {
  if (socket_ >= 0) close(socket_);
}

ControlConnection::ControlConnection(ControlConnection&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}

// Anybody may take the name that the process has not taken: it must be the process itself.
Status ControlConnection::connect_to(int pid) const {
  struct stat process = {};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0) {
    return {Code::kNotFound, "there is no such process"};
  }
  const ControlAddress name = control_address(process.st_uid, pid);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0) {
    if (errno == ECONNREFUSED) {
      return {Code::kNotFound, "it does not run under gpusnap, or has not used CUDA yet"};
    }
    if (errno == EAGAIN) return {Code::kBusy, "it takes no more requests: is it stopped?"};
    return {Code::kIo, fmt::format("it cannot be reached: {}", strerrordesc_np(errno))};
  }
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket_, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid != pid ||
      peer.uid != process.st_uid) {
    return {Code::kPermission, "another process answers in its name"};
  }
  return {};
}

namespace {

struct Question {
  ControlConnection connection;
  StatusAnswer answer;
  bool open = true;   // it has not answered yet
  bool gone = false;  // or is not what its name says
};

void ask(Question& question) {
  const Status connected = question.connection.connect_to(question.answer.pid);
  question.open = connected.ok();
  question.gone = connected.code() == Code::kNotFound || connected.code() == Code::kPermission;
  question.answer.problem = connected.message();
  if (question.open) {
    (void)send(question.connection.socket(), kStatusRequest.data(), kStatusRequest.size(),
               MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void take_answer(Question& question) {
  std::string message(kStatusMessageBytes + 1, '\0');
  const ssize_t got =
      recv(question.connection.socket(), message.data(), message.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  question.open = false;
  question.gone = got <= 0;
  message.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::optional<StatusReply> reply = decode_status(message);
  if (!reply) {
    question.answer.problem = "its answer cannot be read; is it another version?";
  } else if (reply->error == kUnknownRequest) {
    question.answer.problem = "it does not tell its status (older version)";
  } else if (!reply->error.empty()) {
    question.answer.problem = std::move(reply->error);
  } else {
    question.answer.status = std::move(reply->status);
  }
}

// False where nothing is open any more, or nothing has come in time.
bool wait_for_answers(std::vector<Question>& questions, std::chrono::milliseconds longest) {
  std::vector<pollfd> polled;
  std::vector<Question*> asked;
  for (Question& question : questions) {
    if (!question.open) continue;
    polled.push_back({question.connection.socket(), POLLIN, 0});
    asked.push_back(&question);
  }
  if (polled.empty() || longest.count() <= 0) return false;
  const auto most = static_cast<int>(std::min<int64_t>(longest.count(), 1 << 30));
  const int ready = poll(polled.data(), polled.size(), most);
  if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) take_answer(*asked[i]);
  }
  return true;
}

}  // namespace

std::vector<StatusAnswer> ask_for_status(const std::vector<int>& pids,
                                         std::chrono::nanoseconds longest) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + longest;
  std::vector<Question> questions(pids.size());
  for (size_t i = 0; i < pids.size(); ++i) {
    questions[i].answer.pid = pids[i];
    ask(questions[i]);
  }
  while (wait_for_answers(questions,
                          std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()))) {
  }
  std::vector<StatusAnswer> answers;
  for (Question& question : questions) {
    if (question.gone) continue;
    if (!question.answer.status && question.answer.problem.empty()) {
      question.answer.problem =
          fmt::format("it has not answered within {}: is it stopped?",
                      show_nanoseconds(static_cast<uint64_t>(longest.count())));
    }
    answers.push_back(std::move(question.answer));
  }
  return answers;
}

}  // namespace gpusnap
