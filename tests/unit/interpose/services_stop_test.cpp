// SPDX-License-Identifier: Apache-2.0
//
// Stops: by a request or a signal (interpose/services/triggers.h).
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>

#include "interpose/services/private_memory.h"
#include "interpose/services/triggers.h"
#include "tests/support/becomes.h"
#include "tests/support/control_client.h"

namespace gpusnap {
namespace {

Schedule stopping_by(uint64_t signals, int other = 0) {
  Schedule every;
  every.stop_signals = signals;
  every.signal = other;
  return every;
}

int handled = 0;
void programs_handler(int) {
  ++handled;
}

TEST(Stop, BySignalDoesNotGoOnToTheProgramsHandler) {
  std::signal(SIGTERM, programs_handler);
  handled = 0;
  {
    Triggers triggers(stopping_by(signal_bit(SIGTERM) | signal_bit(SIGUSR1), SIGUSR2),
                      spawn_thread);
    raise(SIGUSR1);
    EXPECT_EQ(triggers.take(), CutReason::kSignalledStop);
    EXPECT_FALSE(triggers.pending());
    raise(SIGTERM);
    raise(SIGUSR2);
    EXPECT_EQ(triggers.take(), CutReason::kSignalledStop) << "the more deliberate one";
    raise(SIGUSR2);
    EXPECT_EQ(triggers.take(), CutReason::kSignal);
  }
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), programs_handler);
}

TEST(Stop, IsTheMeaningOfASignalThatIsAlsoOneForCheckpoints) {
  Triggers triggers(stopping_by(signal_bit(SIGUSR1), SIGUSR1), spawn_thread);
  raise(SIGUSR1);
  EXPECT_EQ(triggers.take(), CutReason::kSignalledStop);
}

TEST(Stop, ByRequestIsAnsweredWithTheCheckpoint) {
  Triggers triggers({}, spawn_thread);
  Client client;
  client.say(kStopRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  EXPECT_EQ(triggers.take(), CutReason::kRequestedStop);
  triggers.report(committed("wave@3"));
  EXPECT_EQ(client.answer()->id, "wave@3");
}

TEST(Stop, IsNoLongerWantedWhenTheLastWhoAskedHasGone) {
  Triggers triggers({}, spawn_thread);
  triggers.set_status_source([] { return ProcessStatus{.job = "wave"}; });
  Client one, other;
  one.say(kStopRequest);
  other.say(kStopRequest);
  (void)Client().status();  // answered after both
  ASSERT_TRUE(triggers.pending());
  one.hang_up();
  EXPECT_EQ(Client().status()->status.due, Due::kCall);
  other.hang_up();
  EXPECT_TRUE(becomes([&] { return !triggers.pending(); }));
}

TEST(Stop, OfASignalIsWantedWhoeverHangsUp) {
  Triggers triggers(stopping_by(signal_bit(SIGUSR1)), spawn_thread);
  raise(SIGUSR1);
  {
    Client client;
    client.say(kStopRequest);
    client.hang_up();
  }
  (void)Client().status();
  EXPECT_EQ(triggers.take(), CutReason::kSignalledStop);
}

TEST(Stop, IsAWishOfTheRank) {
  Triggers triggers(stopping_by(signal_bit(SIGUSR1)), spawn_thread);
  triggers.coordinate([] {});
  triggers.on_barriers();
  EXPECT_TRUE(triggers.wanted());
  EXPECT_FALSE(triggers.stop_wanted());
  raise(SIGUSR1);
  EXPECT_TRUE(triggers.stop_wanted());
  EXPECT_FALSE(triggers.pending());
  EXPECT_EQ(triggers.take(), CutReason::kSignalledStop);
  EXPECT_FALSE(triggers.stop_wanted());
}

TEST(Stop, NeedsNoCutInAReplay) {
  // The background thread uses them as long as it runs, and sets `from` until `ended`.
  std::atomic<bool> replays{false}, ended{false};
  std::string from;
  Triggers triggers(stopping_by(signal_bit(SIGUSR1)), spawn_thread);
  triggers.set_stop_source([&] { return replays ? std::string("wave@3") : std::string(); },
                           [&](const std::string& id) {
                             // This process goes on, and is still to stop.
                             if (ended) return;
                             from = id;
                             ended = true;
                           });
  Client early;
  early.say(kStopRequest);
  ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
  EXPECT_FALSE(ended);
  replays = true;
  raise(SIGUSR1);
  ASSERT_TRUE(becomes([&] { return ended.load(); }));
  EXPECT_EQ(from, "wave@3");
  EXPECT_EQ(early.answer()->id, "wave@3");
}

TEST(Stop, IsRefusedWhereThereAreNoMoreCuts) {
  testing::internal::CaptureStderr();
  {
    Triggers triggers(stopping_by(signal_bit(SIGUSR1)), spawn_thread);
    Client waiting;
    waiting.say(kStopRequest);
    ASSERT_TRUE(becomes([&] { return triggers.pending(); }));
    raise(SIGUSR1);
    triggers.end_cuts("it did this");
    EXPECT_EQ(waiting.answer()->error, "it did this");
    raise(SIGUSR1);
    Client later;
    later.say(kStopRequest);
    EXPECT_EQ(later.answer()->error, "it did this");
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string line = "not stopped, the program goes on: it did this";
  const size_t first = said.find(line);
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_NE(said.find(line, first + 1), std::string::npos) << "of each signal\n" << said;
}

TEST(Stop, ReadsTheSignals) {
  const auto read = [](const char* text) {
    uint64_t signals = 0;
    EXPECT_EQ(parse_stop_signals(text, signals), "") << text;
    return signals;
  };
  EXPECT_EQ(read("USR1"), signal_bit(SIGUSR1));
  EXPECT_EQ(read("SIGUSR1,TERM,RTMIN+3"),
            signal_bit(SIGUSR1) | signal_bit(SIGTERM) | signal_bit(SIGRTMIN + 3));
  EXPECT_EQ(read("INT,XCPU,HUP"), signal_bit(SIGINT) | signal_bit(SIGXCPU) | signal_bit(SIGHUP));
  for (const char* wrong : {"", "KILL", "USR1,", ",TERM", "SEGV", "TERM USR1", "15"}) {
    uint64_t signals = 7;
    EXPECT_NE(parse_stop_signals(wrong, signals), "") << wrong;
    EXPECT_EQ(signals, 7U) << wrong;
  }
  // Whichever of the two settings comes first.
  for (const auto& order : {std::vector{"GPUSNAP_STOP_SIGNAL=TERM", "GPUSNAP_EVERY=off"},
                            std::vector{"GPUSNAP_EVERY=off", "GPUSNAP_STOP_SIGNAL=TERM"}}) {
    const char* const environment[] = {order[0], order[1], nullptr};
    const ParsedSettings parsed = parse_settings(environment);
    EXPECT_TRUE(parsed.errors.empty());
    EXPECT_EQ(parsed.settings.every.stop_signals, signal_bit(SIGTERM));
  }
}

}  // namespace
}  // namespace gpusnap
