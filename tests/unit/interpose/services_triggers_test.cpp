#include "interpose/services/triggers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>

#include "interpose/services/private_memory.h"

namespace gpusnap {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Long enough for any machine; only a failing test waits for it.
constexpr int kPatienceMs = 20'000;

template <class Condition>
bool becomes(const Condition& condition) {
  for (int waited = 0; waited < kPatienceMs; ++waited) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

class Client {
 public:
  Client() : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const ControlAddress name = control_address(geteuid(), getpid());
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
  bool has_answer() {
    pollfd polled{socket_, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  }
  std::optional<CutOutcome> answer() {
    pollfd polled{socket_, POLLIN, 0};
    if (poll(&polled, 1, kPatienceMs) != 1) return std::nullopt;
    char message[2 * kControlMessageBytes];
    const ssize_t got = recv(socket_, message, sizeof message, 0);
    return got > 0 ? decode_reply({message, static_cast<size_t>(got)}) : std::nullopt;
  }

 private:
  int socket_;
  bool connected_ = false;
};

CutOutcome committed(const char* id) {
  CutOutcome outcome;
  outcome.ok = true;
  outcome.id = id;
  outcome.bytes = 123;
  outcome.stall_ns = 45;
  return outcome;
}

TEST(Triggers, AreNeverDueWhenOff) {
  Triggers triggers({}, spawn_thread);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(triggers.on_synchronisation());
  EXPECT_FALSE(triggers.pending());
  EXPECT_EQ(triggers.take(), CutReason::kNone);
}

TEST(Triggers, CountSynchronisations) {
  Triggers triggers({milliseconds(0), 3, 0}, spawn_thread);
  for (int round = 0; round < 4; ++round) {
    EXPECT_FALSE(triggers.on_synchronisation());
    EXPECT_FALSE(triggers.on_synchronisation());
    EXPECT_TRUE(triggers.on_synchronisation());
    EXPECT_TRUE(triggers.pending());
    EXPECT_EQ(triggers.take(), CutReason::kSynchronisations);
    EXPECT_FALSE(triggers.pending());
  }
}

TEST(Triggers, StayDueUntilTaken) {
  Triggers triggers({milliseconds(0), 2, 0}, spawn_thread);
  triggers.on_synchronisation();
  EXPECT_TRUE(triggers.on_synchronisation());
  EXPECT_TRUE(triggers.on_synchronisation());
}

TEST(Triggers, FireByTimeAgainAndAgain) {
  Triggers triggers({milliseconds(5), 0, 0}, spawn_thread);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
    EXPECT_EQ(triggers.take(), CutReason::kTimer);
  }
}

TEST(Triggers, DoNotFireBeforeTheTime) {
  Triggers triggers({hours(1), 0, 0}, spawn_thread);
  EXPECT_FALSE(triggers.pending());
}

int program_handler_ran = 0;
void program_handler(int) {
  ++program_handler_ran;
}

TEST(Triggers, FireBySignalAndGoOnToTheProgramsHandler) {
  std::signal(SIGUSR1, program_handler);
  program_handler_ran = 0;
  {
    Triggers triggers({milliseconds(0), 0, SIGUSR1}, spawn_thread);
    EXPECT_FALSE(triggers.pending());
    raise(SIGUSR1);
    EXPECT_EQ(program_handler_ran, 1);
    EXPECT_EQ(triggers.take(), CutReason::kSignal);
    raise(SIGUSR1);
    EXPECT_TRUE(triggers.pending());
  }
  raise(SIGUSR1);
  EXPECT_EQ(program_handler_ran, 3);
  EXPECT_EQ(std::signal(SIGUSR1, SIG_DFL), program_handler);
}

TEST(Triggers, LeaveAHandlerAloneThatTheProgramInstalledLater) {
  {
    Triggers triggers({milliseconds(0), 0, SIGUSR2}, spawn_thread);
    std::signal(SIGUSR2, program_handler);
  }
  EXPECT_EQ(std::signal(SIGUSR2, SIG_DFL), program_handler);
}

TEST(Triggers, AnswerAClientWithWhatCameOfTheCut) {
  Triggers triggers({}, spawn_thread);
  Client client;
  ASSERT_TRUE(client.connected());
  client.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  EXPECT_EQ(triggers.take(), CutReason::kRequest);
  triggers.report(committed("wave@3"));
  const std::optional<CutOutcome> answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ok);
  EXPECT_EQ(answer->id, "wave@3");
  EXPECT_EQ(answer->bytes, 123U);
  EXPECT_EQ(answer->stall_ns, 45U);
}

TEST(Triggers, TellAClientWhyThereIsNoCheckpoint) {
  Triggers triggers({}, spawn_thread);
  Client client;
  client.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.take();
  CutOutcome failed;
  failed.error = "the disk is\nfull";
  triggers.report(failed);
  const std::optional<CutOutcome> answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->ok);
  EXPECT_EQ(answer->error, "the disk is full");
}

TEST(Triggers, AnswerOnlyThoseWhoAskedBeforeTheCut) {
  Triggers triggers({}, spawn_thread);
  Client early;
  early.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.take();
  Client late;
  late.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.report(committed("wave@1"));
  ASSERT_TRUE(early.answer());
  EXPECT_FALSE(late.has_answer());
  EXPECT_EQ(triggers.take(), CutReason::kRequest);
  triggers.report(committed("wave@2"));
  const std::optional<CutOutcome> answer = late.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, "wave@2");
}

TEST(Triggers, TellEverybodyThatThereAreNoMoreCuts) {
  Triggers triggers({}, spawn_thread);
  Client in_cut;
  in_cut.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.take();
  Client waiting;
  waiting.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.end_cuts("cuThis cannot be restored");
  Client late;
  late.say(kCheckpointRequest);
  for (Client* client : {&waiting, &late}) {
    const std::optional<CutOutcome> answer = client->answer();
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->ok);
    EXPECT_EQ(answer->error, "cuThis cannot be restored");
  }
  // The last cut was made before.
  EXPECT_FALSE(in_cut.has_answer());
  triggers.report(committed("wave@3"));
  const std::optional<CutOutcome> answer = in_cut.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->ok);
}

TEST(Triggers, RefuseHostileMessages) {
  Triggers triggers({}, spawn_thread);
  for (const std::string& message :
       {std::string("\n"), std::string("gpusnap 2 checkpoint\n"), std::string(5000, 'x'),
        std::string("gpusnap 1 checkpoint"), std::string("\0\0\0", 3),
        std::string("gpusnap 1 checkpoint\nmore\n")}) {
    Client client;
    ASSERT_TRUE(client.connected());
    client.say(message);
    const std::optional<CutOutcome> answer = client.answer();
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->ok);
  }
  EXPECT_FALSE(triggers.pending());
}

TEST(Triggers, ForgetClientsThatHangUp) {
  Triggers triggers({}, spawn_thread);
  for (int i = 0; i < 100; ++i) {
    Client client;
    client.say(kCheckpointRequest);
    ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
    if (i % 2 == 0) client.hang_up();
    triggers.take();
    triggers.report(committed("wave@1"));
    EXPECT_EQ(i % 2 == 0 || client.answer().has_value(), true);
  }
}

TEST(Triggers, TakeOnlySoManyClientsAtOnce) {
  Triggers triggers({}, spawn_thread);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(clients.back()->connected());
  }
  const std::optional<CutOutcome> answer = clients.back()->answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "too many requests at once");
}

TEST(Triggers, AnswerThoseWhoWaitWhenTheProgramEnds) {
  auto triggers = std::make_unique<Triggers>(Every{}, spawn_thread);
  Client client;
  client.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers->pending(); }));
  triggers.reset();
  const std::optional<CutOutcome> answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "the program ends; no checkpoint was taken");
  EXPECT_FALSE(Client().connected());
}

TEST(Triggers, AreInertInAForkedChild) {
  auto triggers = std::make_unique<Triggers>(Every{milliseconds(1), 1, SIGUSR1}, spawn_thread);
  ASSERT_TRUE(becomes([&] { return triggers->pending(); }));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    triggers->abandon_after_fork();
    const bool inert = !triggers->pending() && !triggers->on_synchronisation();
    struct sigaction action = {};
    sigaction(SIGUSR1, nullptr, &action);
    const bool given_back = action.sa_handler == SIG_DFL;
    triggers.reset();
    _exit(inert && given_back ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Client().connected());
  triggers->stop();
  // The child's copy of the socket is gone too.
  EXPECT_FALSE(Client().connected());
}

TEST(Triggers, WorkWithoutAThread) {
  Triggers triggers({milliseconds(1), 2, 0},
                    [](const std::function<void()>&) { return std::function<void()>(); });
  triggers.on_synchronisation();
  EXPECT_TRUE(triggers.on_synchronisation());
  EXPECT_FALSE(Client().connected());
}

TEST(Control, ReadsTheRepliesThatItWrites) {
  const std::optional<CutOutcome> ok = decode_reply(encode_reply(committed("a@1")));
  ASSERT_TRUE(ok);
  EXPECT_TRUE(ok->ok);
  EXPECT_EQ(ok->id, "a@1");
  CutOutcome failed;
  failed.error = std::string(5000, 'x');
  const std::string reply = encode_reply(failed);
  EXPECT_EQ(reply.size(), kControlMessageBytes);
  ASSERT_TRUE(decode_reply(reply));
}

TEST(Control, RefusesOtherReplies) {
  for (const std::string_view reply :
       {"", "\n", "gpusnap 1 ok\n", "gpusnap 1 ok  \n", "gpusnap 1 ok a@1\n",
        "gpusnap 1 ok a@1 1\n", "gpusnap 1 ok a@1 1 2 3\n", "gpusnap 1 ok a@1 -1 2\n",
        "gpusnap 1 ok a@1 1 2", "gpusnap 1 ok a@1 99999999999999999999 2\n", "gpusnap 1 error \n",
        "gpusnap 2 error x\n", "gpusnap 1 error a\x1b[31m\n"}) {
    EXPECT_FALSE(decode_reply(reply)) << reply;
  }
}

}  // namespace
}  // namespace gpusnap
