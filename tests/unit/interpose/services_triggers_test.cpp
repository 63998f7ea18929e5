#include "interpose/services/triggers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "interpose/services/private_memory.h"
#include "tests/support/becomes.h"
#include "tests/support/control_client.h"

namespace gpusnap {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// A file whose only byte this is.
int file_of(char byte) {
  const int file = memfd_create("piece", MFD_CLOEXEC);
  EXPECT_EQ(pwrite(file, &byte, 1, 0), 1);
  return file;
}

TEST(Triggers, AnswerForSharedMemoryWithItsFiles) {
  Triggers triggers({}, spawn_thread);
  EXPECT_TRUE(triggers.listens());
  MemoryReply told;
  told.address = told.first = 4096;
  told.size = 2;
  told.pieces = {1, 1};
  triggers.set_memory_source([&](const MemoryRequest& request, std::vector<int>& descriptors) {
    EXPECT_EQ(request, (MemoryRequest{1, 2, 3}));
    descriptors = {file_of('a'), file_of('b')};
    return told;
  });
  Client client;
  client.say(encode_memory_request({1, 2, 3}));
  std::vector<int> files;
  EXPECT_EQ(decode_memory_reply(client.message_with(files)), told);
  ASSERT_EQ(files.size(), 2U);
  for (const char expected : {'a', 'b'}) {
    char byte = 0;
    EXPECT_EQ(pread(files[expected == 'b'], &byte, 1, 0), 1);
    EXPECT_EQ(byte, expected);
    close(files[expected == 'b']);
  }
}

TEST(Triggers, KnowNothingOfSharedMemoryWhereNoneIs) {
  Triggers triggers({}, spawn_thread);
  Client client;
  client.say(encode_memory_request({1, 2, 3}));
  const auto answer = client.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, kUnknownRequest);
}

// Lends one file of 'x' to whoever asks, and knows which loans have ended.
class LendingTriggers {
 public:
  LendingTriggers() {
    triggers_.set_loan_source({[](const LoanRequest& request, uint64_t, std::vector<int>& files) {
                                 files = {file_of('x')};
                                 LoanReply reply{.bytes = request.bytes};
                                 reply.pieces = {request.bytes};
                                 return reply;
                               },
                               [this](uint64_t) { ++ended_; }});
  }
  int ended() const { return ended_; }
  void wait_for_end() const {
    for (int time = 0; time < 10'000 && ended_ == 0; ++time) usleep(1000);
  }

 private:
  std::atomic<int> ended_{0};
  Triggers triggers_{{}, spawn_thread};
};

TEST(Triggers, ALoanEndsWhenItIsReturned) {
  LendingTriggers lender;
  Client borrower, other;
  borrower.say(encode_loan_request({4096, {}}));
  std::vector<int> files;
  const auto reply = decode_loan_reply(borrower.message_with(files));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->pieces, std::vector<uint64_t>{4096});
  ASSERT_EQ(files.size(), 1U);
  close(files[0]);
  EXPECT_EQ(lender.ended(), 0);
  borrower.say(kReturned);
  lender.wait_for_end();
  EXPECT_EQ(lender.ended(), 1);
}

// Its connection may be held by a child, or closed before its device has done what it was asked.
TEST(Triggers, ALoanEndsWithTheProcessAndNotWithTheConnection) {
  LendingTriggers lender;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  int go_on[2];
  ASSERT_EQ(pipe2(go_on, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    {
      Client borrower(getppid());
      borrower.say(encode_loan_request({4096, {}}));
      std::vector<int> files;
      (void)borrower.message_with(files);
    }  // the connection ends
    char byte = 'y';
    if (write(ends[1], &byte, 1) != 1) _exit(1);
    _exit(read(go_on[0], &byte, 1) == 1 ? 0 : 1);  // never
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  // The lender has seen by now that the connection has gone: it answers in order.
  for (int i = 0; i < 3; ++i) {
    Client other;
    EXPECT_FALSE(other.status()->error.empty());
  }
  EXPECT_EQ(lender.ended(), 0);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  lender.wait_for_end();
  EXPECT_EQ(lender.ended(), 1);
  for (const int end : {ends[0], ends[1], go_on[0], go_on[1]}) close(end);
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

Schedule automatic(std::chrono::nanoseconds between_failures) {
  Schedule every;
  every.automatic = true;
  every.between_failures = between_failures;
  return every;
}

TEST(Triggers, FireByThemselvesWhereTheJobFailsOften) {
  Triggers triggers(automatic(milliseconds(1)), spawn_thread);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
    EXPECT_EQ(triggers.take(), CutReason::kTimer);
    triggers.report({true, "1", 0, 1000, ""});
  }
}

// A stall of an hour, where a failure comes each day: not again for hours.
TEST(Triggers, WaitForAsLongAsACheckpointIsWorth) {
  Triggers triggers(automatic(hours(24)), spawn_thread);
  EXPECT_FALSE(triggers.pending());
  triggers.set_status_source([] { return ProcessStatus{}; });
  (void)triggers.take();
  triggers.report({true, "1", 0, uint64_t{3600} * 1'000'000'000, ""});
  EXPECT_FALSE(triggers.pending());
  // A failed checkpoint says nothing of what one costs.
  triggers.report({false, "2", 0, 0, "no room"});
  EXPECT_FALSE(triggers.pending());
}

// Here no cut follows: what a replay took is none of the interval.
TEST(Triggers, BeginTheIntervalWhenTheRestoreHasEnded) {
  Triggers triggers(automatic(milliseconds(1)), spawn_thread);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  triggers.restored({}, uint64_t{3600} * 1'000'000'000, plan::Destination::kStore);
  EXPECT_FALSE(triggers.pending());
  EXPECT_EQ(triggers.take(), CutReason::kNone);
}

TEST(Triggers, ARestoreTakesNothingElseAway) {
  Triggers triggers({hours(1), 1, 0}, spawn_thread);
  EXPECT_TRUE(triggers.on_synchronisation());
  triggers.restored({}, 1000, plan::Destination::kStore);
  EXPECT_TRUE(triggers.pending());
  EXPECT_EQ(triggers.take(), CutReason::kSynchronisations);
  EXPECT_EQ(triggers.chosen(), plan::ChosenInterval());
}

TEST(Triggers, GoOnWithTheChoiceOfTheCheckpoint) {
  plan::IntervalChoice expected(86400);
  for (const double stall : {0.5, 0.25}) expected.measured(stall, 2);
  Triggers triggers(automatic(hours(24)), spawn_thread);
  triggers.restored(expected.chosen(), 125'000'000, plan::Destination::kStore);
  expected.measured(0.125, 2);  // the checkpoint's own stall; how long it was on its way: the mean
  const auto now = triggers.chosen();
  EXPECT_TRUE(now.stall_s == expected.stall_s() && now.latency_s == 2 && now.failures == 1);
  triggers.set_status_source([] { return ProcessStatus{.job = "wave"}; });
  EXPECT_EQ(Client().status()->status.interval, now);
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

ProcessStatus of_job(const char* job, Doing doing = Doing::kRecording) {
  ProcessStatus status;
  status.job = job;
  status.doing = doing;
  return status;
}

TEST(Triggers, TellTheStatusAndWhatTheNextCheckpointWaitsFor) {
  Triggers triggers({hours(1), 2, 0}, spawn_thread);
  const auto early = Client().status();
  ASSERT_TRUE(early);
  EXPECT_EQ(early->error, "it is just beginning");
  triggers.set_status_source([] { return of_job("wave"); });
  auto reply = Client().status();
  ASSERT_TRUE(reply && reply->error.empty());
  EXPECT_EQ(reply->status.job, "wave");
  EXPECT_EQ(reply->status.doing, Doing::kRecording);
  EXPECT_EQ(reply->status.due, Due::kTime);
  EXPECT_LE(reply->status.due_in_ns, 3600'000'000'000U);
  EXPECT_GT(reply->status.due_in_ns, 0U);
  triggers.on_synchronisation();
  triggers.on_synchronisation();
  EXPECT_EQ(Client().status()->status.due, Due::kCall);
  triggers.take();
  EXPECT_EQ(Client().status()->status.due, Due::kTime);
}

TEST(Triggers, TellThatOtherRanksAreWaitedFor) {
  Triggers triggers({milliseconds(0), 1, 0}, spawn_thread);
  triggers.set_status_source([] { return of_job("wave"); });
  triggers.coordinate({});
  EXPECT_EQ(Client().status()->status.due, Due::kNot);
  triggers.on_synchronisation();
  EXPECT_EQ(Client().status()->status.due, Due::kRanks);
}

TEST(Triggers, TellWhyThereAreNoMoreCuts) {
  Triggers triggers({milliseconds(0), 1, 0}, spawn_thread);
  std::atomic<Doing> doing = Doing::kStarting;
  triggers.set_status_source([&] { return of_job("wave", doing); });
  triggers.on_synchronisation();
  triggers.end_cuts("cuThis cannot be restored");
  auto reply = Client().status();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.doing, Doing::kOff);
  EXPECT_EQ(reply->status.why, "cuThis cannot be restored");
  EXPECT_EQ(reply->status.due, Due::kNot);
  doing = Doing::kEnding;
  reply = Client().status();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.doing, Doing::kEnding);
  EXPECT_EQ(reply->status.why, "");
}

TEST(Triggers, TellTheStatusWhileSomebodyWaitsForACut) {
  Triggers triggers({}, spawn_thread);
  triggers.set_status_source([] { return of_job("wave"); });
  Client client;
  client.say(kCheckpointRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  EXPECT_EQ(Client().status()->status.due, Due::kCall);
  EXPECT_FALSE(client.has_answer());
  triggers.take();
  triggers.report(committed("wave@3"));
  EXPECT_EQ(client.answer()->id, "wave@3");
}

TEST(Triggers, RefuseHostileMessages) {
  Triggers triggers({}, spawn_thread);
  for (const std::string& message :
       {std::string("\n"), std::string("gpusnap 2 checkpoint\n"), std::string(5000, 'x'),
        std::string("gpusnap 1 checkpoint"), std::string("\0\0\0", 3),
        std::string("gpusnap 1 checkpoint\nmore\n"), std::string("gpusnap 1 status"),
        std::string("gpusnap 1 status job=x\n")}) {
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
  auto triggers = std::make_unique<Triggers>(Schedule{}, spawn_thread);
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
  auto triggers = std::make_unique<Triggers>(Schedule{milliseconds(1), 1, SIGUSR1}, spawn_thread);
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

ProcessStatus full_status() {
  ProcessStatus status;
  status.job = "wave_1";
  status.store = "/scratch/a b%\n\x7f/\xc3\xa4";
  status.host = "n1";
  status.area = "gpusnap-0-2-0123456789abcdef";
  status.rank = 3;
  status.ranks = 4;
  status.doing = Doing::kOff;
  status.why = "cuThis = that";
  status.epoch = UINT64_MAX;
  status.cut_unix_ns = INT64_MIN;
  status.stall_ns = 1;
  status.saving = 2;
  status.saved_bytes = 5;
  status.bytes = 6;
  status.due = Due::kTime;
  status.due_in_ns = 7;
  status.interval = {12.5, 0.1, 1.0 / 3, 86400, 4};
  return status;
}

TEST(Control, ReadsTheStatusThatItWrites) {
  for (const ProcessStatus& status : {full_status(), of_job("a")}) {
    const std::string message = encode_status(status);
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1);
    const auto reply = decode_status(message);
    ASSERT_TRUE(reply) << message;
    EXPECT_EQ(reply->error, "");
    EXPECT_EQ(reply->status, status);
  }
  EXPECT_EQ(encode_status(of_job("a", Doing::kStarting)), "gpusnap 1 status job=a\n");
  EXPECT_EQ(encode_status(of_job("a")), "gpusnap 1 status job=a doing=recording\n");
}

TEST(Control, CutsAStatusThatIsTooLong) {
  ProcessStatus status = full_status();
  for (std::string* text : {&status.job, &status.store, &status.host, &status.area, &status.why}) {
    *text = std::string(9000, '\n');
  }
  const std::string message = encode_status(status);
  EXPECT_LE(message.size(), kStatusMessageBytes);
  const auto reply = decode_status(message);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.store, std::string(4096, '\n'));
  EXPECT_EQ(reply->status.due_in_ns, 7U);
}

TEST(Control, ReadsWhyThereIsNoStatus) {
  CutOutcome old;
  old.error = kUnknownRequest;
  const auto reply = decode_status(encode_reply(old));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->error, kUnknownRequest);
}

TEST(Control, HandlesOfSharedMemory) {
  const SharedHandle handle{4711, 0x0123456789abcdef, 3};
  const HandleBytes bytes = encode_handle(handle);
  EXPECT_EQ(decode_handle(bytes), handle);
  EXPECT_FALSE(decode_handle(HandleBytes{}));
  // A handle with any byte changed is not ours.
  for (const size_t at : {size_t{0}, size_t{7}, size_t{15}, size_t{32}, size_t{63}}) {
    HandleBytes other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x80);
    EXPECT_FALSE(decode_handle(other)) << at;
  }
  EXPECT_FALSE(decode_handle(encode_handle({0, 1, 1})));
}

TEST(Control, MessagesAboutSharedMemory) {
  const MemoryRequest request{UINT64_MAX, 3, 12345};
  EXPECT_EQ(decode_memory_request(encode_memory_request(request)), request);
  MemoryReply driver;
  driver.address = 0x7000;
  driver.size = 4096;
  driver.same_job = true;
  driver.driver.fill('\xa5');
  EXPECT_EQ(decode_memory_reply(encode_memory_reply(driver)), driver);
  MemoryReply mapped;
  mapped.address = 0x300000;
  mapped.size = 0x500000;
  mapped.first = 0x200000;
  mapped.pieces = {0x200000, 0x400000};
  EXPECT_EQ(decode_memory_reply(encode_memory_reply(mapped)), mapped);
  mapped.pieces.assign(kMostMemoryPieces, UINT64_MAX / 32);
  EXPECT_LE(encode_memory_reply(mapped).size(), kControlMessageBytes);
  EXPECT_EQ(decode_memory_reply(encode_memory_reply(mapped)), mapped);
  MemoryReply error;
  error.error = "there is no such memory";
  EXPECT_EQ(decode_memory_reply(encode_memory_reply(error)), error);
}

TEST(Control, RefusesOtherMessagesAboutSharedMemory) {
  for (const std::string_view message :
       {"", "gpusnap 1 memory\n", "gpusnap 1 memory 1 2\n", "gpusnap 1 memory 1 2 3",
        "gpusnap 1 memory 1 2 3 4\n", "gpusnap 1 memory 1 2 -3\n", "gpusnap 1 memory 1  2 3\n",
        "gpusnap 1 memory 18446744073709551616 2 3\n"}) {
    EXPECT_FALSE(decode_memory_request(message)) << message;
  }
  const std::string digits(128, 'a');
  for (const std::string& message :
       {std::string("gpusnap 1 memory 1 2 1 driver\n"),
        "gpusnap 1 memory 1 2 1 driver " + digits + "a\n",
        "gpusnap 1 memory 1 2 1 driver " + digits.substr(1) + "g\n",
        "gpusnap 1 memory 1 2 2 driver " + digits + "\n",
        "gpusnap 1 memory 1 0 1 driver " + digits + "\n",
        "gpusnap 1 memory 1 2 1 other " + digits + "\n",
        std::string("gpusnap 1 memory 1 2 1 mapped 0\n"),
        std::string("gpusnap 1 memory 1 2 1 mapped 0 2\n"),
        std::string("gpusnap 1 memory 1 2 1 mapped 2 8\n"),
        std::string("gpusnap 1 memory 1 2 1 mapped 0 0 8\n"),
        std::string("gpusnap 1 memory 1 2 1 mapped 0 8 18446744073709551615\n"),
        std::string("gpusnap 1 memory 1 2 1 mapped 0 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8\n")}) {
    EXPECT_FALSE(decode_memory_reply(message)) << message;
  }
}

TEST(Control, MessagesAboutLoans) {
  LoanRequest request{4096, {}};
  request.device.fill('\xa5');
  EXPECT_EQ(decode_loan_request(encode_loan_request(request)), request);
  LoanReply reply{.bytes = 8192, .first = 4096};
  reply.device.fill('\x5a');
  reply.pieces = {8192, 8192};
  EXPECT_EQ(decode_loan_reply(encode_loan_reply(reply)), reply);
  reply.pieces.assign(kMostMemoryPieces, UINT64_MAX / 32);
  EXPECT_LE(encode_loan_reply(reply).size(), kControlMessageBytes);
  EXPECT_EQ(decode_loan_reply(encode_loan_reply(reply)), reply);
  LoanReply error;
  error.error = "it needs its device buffer itself";
  EXPECT_EQ(decode_loan_reply(encode_loan_reply(error)), error);
}

TEST(Control, RefusesOtherMessagesAboutLoans) {
  const std::string id(32, 'a');
  for (const std::string& message :
       {std::string("gpusnap 1 loan\n"), "gpusnap 1 loan 0 " + id + "\n", "gpusnap 1 loan 1 " + id,
        "gpusnap 1 loan 1 " + id + "a\n", "gpusnap 1 loan 1 " + id.substr(1) + "g\n",
        "gpusnap 1 loan -1 " + id + "\n"}) {
    EXPECT_FALSE(decode_loan_request(message)) << message;
  }
  for (const std::string& message :
       {"gpusnap 1 loan 8 0 " + id + "\n", "gpusnap 1 loan 8 0 " + id + " 7\n",
        "gpusnap 1 loan 8 1 " + id + " 8\n", "gpusnap 1 loan 0 0 " + id + " 8\n",
        "gpusnap 1 loan 8 8 " + id + " 8\n", "gpusnap 1 loan 8 0 " + id + " 0 8\n",
        "gpusnap 1 loan 8 0 " + id + " 8 18446744073709551615\n"}) {
    EXPECT_FALSE(decode_loan_reply(message)) << message;
  }
}

TEST(Control, PassesOverWordsOfLaterVersions) {
  const auto reply = decode_status("gpusnap 1 status new=%zz job=a rank=1 ranks=2 other=\n");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.rank, 1U);
}

TEST(Control, RefusesOtherStatuses) {
  for (const std::string_view message : {"",
                                         "\n",
                                         "gpusnap 1 status\n",
                                         "gpusnap 1 status \n",
                                         "gpusnap 1 status job=\n",
                                         "gpusnap 1 status job=a",
                                         "gpusnap 1 status job=a \n",
                                         "gpusnap 1 status  job=a\n",
                                         "gpusnap 1 statusjob=a\n",
                                         "gpusnap 1 status job=a job=b\n",
                                         "gpusnap 1 status job=a x\n",
                                         "gpusnap 1 status job=a =x\n",
                                         "gpusnap 1 status job=%4\n",
                                         "gpusnap 1 status job=%zz\n",
                                         "gpusnap 1 status job=a\x1b\n",
                                         "gpusnap 1 status job=a rank=1\n",
                                         "gpusnap 1 status job=a rank=-1\n",
                                         "gpusnap 1 status job=a rank=4294967296\n",
                                         "gpusnap 1 status job=a doing=nothing\n",
                                         "gpusnap 1 status job=a due=\n",
                                         "gpusnap 2 status job=a\n",
                                         "gpusnap 1 ok a@1 1 2\n",
                                         "gpusnap 1 error \n"}) {
    EXPECT_FALSE(decode_status(message)) << message;
  }
  EXPECT_FALSE(decode_status("gpusnap 1 status job=" + std::string(1000, 'a') + "\n"));
  EXPECT_FALSE(decode_status("gpusnap 1 status job=a x=" + std::string(40000, 'a') + "\n"));
}

}  // namespace
}  // namespace gpusnap
