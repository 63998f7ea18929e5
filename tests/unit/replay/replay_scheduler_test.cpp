// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of replays against a model of programs (model.h). Every recording of each small
// program is replayed in every order in which its threads may come, cut before every call. A replay
// ends live, with each thread given what it got, or in a named divergence.
#include "interpose/replay/replay_scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "interpose/services/mutation.h"
#include "model.h"

namespace gpusnap {

namespace {
std::optional<Mutation> made_mistake;
}  // namespace
bool mutated(Mutation mutation) {
  return made_mistake == mutation;
}
const char* name_of(HookId) {
  return "";
}

namespace replay_model {
namespace {

bool soak() {
  const char* const set = std::getenv("GPUSNAP_SOAK");
  return set != nullptr && *set != '\0' && std::string(set) != "0";
}

std::string text(const Journal& journal) {
  std::string all;
  for (const Recorded& each : journal) {
    all += std::to_string(each.seen.number) + ' ' + each.seen.thread + ' ';
    const uint16_t hook = each.seen.entry.head.hook;
    all += hook < kHookCount ? std::to_string(hook) + " (" + each.of + ")"
                             : "entry " + std::to_string(hook);
    all += "; ";
  }
  return all;
}

struct Found {
  uint64_t journals = 0, runs = 0;
  uint64_t outcomes[5] = {};
  std::string first_bad{};  // the first that ended as it must not
};

bool may_cut_before(const Journal& journal, size_t index) {
  if (index == journal.size()) return true;
  const Recorded& next = journal[index];
  if (!next.seen.is_call()) return false;
  // No cut stands before a call that a replay may make early.
  return !is_made_for_all(static_cast<HookId>(next.seen.entry.head.hook));
}

void judge(const Replay& run, const Journal& journal, bool must_live, Found& found) {
  ++found.runs;
  ++found.outcomes[static_cast<int>(run.outcome)];
  const bool good = run.outcome == Outcome::kLive || run.outcome == Outcome::kPruned ||
                    (!must_live && run.outcome != Outcome::kWrong);
  if (!good && found.first_bad.empty()) {
    found.first_bad = std::string(text(run.outcome)) + ": " + run.why + "\n" + text(journal);
  }
}

// Goes through the replays of one journal.
void replay_all(const Program& program, const Journal& journal, bool must_live, Found& found) {
  ++found.journals;
  std::set<uint64_t> seen;
  Chooser choices;
  do {
    judge(replay(program, journal, choices, &seen), journal, must_live, found);
  } while (choices.next() && found.first_bad.empty());
}

// Which replays of a program must end live. The others may end in a divergence: a thread that holds
// a lock may have come with a call after the cut, or with one whose order matters, while another
// one, which waits for the lock, has calls before it.
enum class Lives : uint8_t { kAlways, kCutAtEnd, kPerhaps };

Found explore(const Program& program, Lives lives) {
  Found found;
  Chooser choices;
  std::set<std::string> known;
  do {
    const Journal journal = record(program, choices);
    if (!known.insert(text(journal)).second) continue;
    for (size_t index = 1; index <= journal.size(); ++index) {
      const bool must_live =
          lives == Lives::kAlways || (lives == Lives::kCutAtEnd && index == journal.size());
      if (may_cut_before(journal, index)) {
        replay_all(program, cut_before(journal, index), must_live, found);
      }
    }
  } while (choices.next() && found.first_bad.empty());
  return found;
}

struct Case {
  const char* name;
  Program program;
  Lives lives = Lives::kAlways;
};

Code with_lock(Code inside) {
  inside.insert(inside.begin(), lock());
  inside.push_back(unlock());
  return inside;
}
Code joined(std::initializer_list<Code> parts) {
  Code all;
  for (const Code& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class Cases {
 public:
  void add(const char* name, Program program, Lives lives = Lives::kAlways) {
    all.push_back({name, std::move(program), lives});
  }
  void add_locks();
  void add_pools();
  void add_others();

  std::vector<Case> all;
};
std::vector<Case> cases() {
  Cases cases;
  cases.add_locks();
  cases.add_others();
  cases.add_pools();
  return std::move(cases.all);
}

void Cases::add_locks() {
  add("an allocation and a query in a lock",
      {.threads = {{"0", joined({with_lock({alloc(8), query()}), {sync()}})},
                   {"1", joined({with_lock({alloc(8), query()}), {sync()}})}}});
  add("the same with other sizes",
      {.threads = {{"0", joined({with_lock({alloc(8), query()}), {sync()}})},
                   {"1", joined({with_lock({alloc(16), query()}), {sync()}})}}});
  add("an allocation and a query in a lock, and what is done with the memory",
      {.threads = {
           {"0", joined({with_lock({alloc(8), query()}), {launch(1), set(1), await(2), sync()}})},
           {"1", joined({with_lock({alloc(16), query()}), {launch(2), set(2)}})}}});
  add("the same, and a launch in the lock",
      {.threads = {{"0", joined({with_lock({alloc(8), launch(1)}), {sync()}})},
                   {"1", joined({with_lock({alloc(16), launch(2)}), {sync()}})}}},
      Lives::kPerhaps);
  add("memory that the other thread has given back",
      {.threads = {{"0", joined({with_lock({alloc(8), query()}), {sync(), give_back()}})},
                   {"1", joined({with_lock({alloc(8), query()}), {sync(), give_back()}})}}},
      Lives::kPerhaps);
  add("the same twice, and given back in a lock",
      {.threads =
           {{"0", joined({with_lock({alloc(8)}), with_lock({query(), give_back()}), {sync()}})},
            {"main",
             joined({with_lock({alloc(16)}), with_lock({query(), give_back()}), {sync()}})}}},
      Lives::kPerhaps);
  add("three threads and a lock",
      {.threads = {{"main", joined({with_lock({alloc(8), query()}), {sync()}})},
                   {"0", joined({with_lock({alloc(16)}), {sync()}})},
                   {"1", joined({with_lock({alloc(8)}), {sync()}})}}},
      Lives::kCutAtEnd);
  add("two locks",
      {.threads = {{"0", joined({with_lock({event(), mark()}), {launch(1)}})},
                   {"1", joined({with_lock({query()}), {launch(2), sync()}})}}},
      Lives::kCutAtEnd);
}

void Cases::add_others() {
  add("one thread", {.threads = {{"main", {alloc(8), launch(1), sync(), give_back()}}}});
  add("two threads", {.threads = {{"0", {alloc(8), launch(1), sync(), give_back()}},
                                  {"1", {alloc(16), launch(2), query(), give_back()}}}});
  add("code loaded by whoever comes first",
      {.threads = {{"0", {once(1), launch(1)}}, {"1", {once(1), launch(2)}}}});
  add("code loaded by three", {.threads = {{"main", {once(1), alloc(8)}},
                                           {"0", {once(1), launch(1)}},
                                           {"1", {once(1), launch(2)}}}});
  add("host functions",
      {.threads = {{"0", {function(5), sync(), launch(1)}}, {"1", {await(5), launch(2), sync()}}}});
  add("a host function in a lock",
      {.threads = {{"main", joined({{function(5)}, with_lock({launch(1)}), {sync()}})},
                   {"0", joined({with_lock({mark()}), {query(), sync()}})}}},
      Lives::kPerhaps);
  add("one thread waits for another", {.threads = {{"0", {launch(1), set(1), await(2), query()}},
                                                   {"1", {await(1), alloc(8), set(2), sync()}}}});
}

void Cases::add_pools() {
  add("a pool", {.threads = {{"0", {tasks()}}, {"1", {tasks()}}},
                 .tasks = {{launch(1), sync()}, {launch(2), sync()}}});
  add("a pool of three tasks", {.threads = {{"0", {tasks()}}, {"1", {tasks()}}},
                                .tasks = {{launch(1)}, {launch(2), sync()}, {launch(3)}}});
  add("tasks that begin with an event",
      {.threads = {{"0", {one_task()}}, {"1", {one_task()}}},
       .tasks = {{event(), mark(), launch(1)}, {event(), mark(), launch(2)}}},
      Lives::kCutAtEnd);
  add("a thread and its child exchange tasks that begin with an event",
      {.threads = {{"0", {one_task()}}, {"0/0", {one_task()}}},
       .tasks = {{event(), launch(1), mark()}, {event(), launch(2)}}},
      Lives::kCutAtEnd);
  add("a task waits for the other one",
      {.threads = {{"0", {one_task()}}, {"0/0", {one_task()}}},
       .tasks = {{event(), await(1), launch(1)}, {event(), launch(2), set(1)}}},
      Lives::kCutAtEnd);
  add("tasks of which one begins with an event",
      {.threads = {{"0", {tasks()}}, {"0/0", {tasks()}}},
       .tasks = {{event(), launch(1)}, {launch(2), mark()}}});
  add("threads that begin alike",
      {.threads = {{"0", {alloc(8), launch(1), alloc(8), launch(3)}},
                   {"1", {alloc(8), launch(2), alloc(8)}}}},
      Lives::kCutAtEnd);
}

TEST(ReplayScheduler, EveryReplayOfSmallProgramsEndsLiveOrInADivergence) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Found found = explore(each.program, each.lives);
    EXPECT_EQ(found.first_bad, "");
    EXPECT_GT(found.outcomes[0], 0U);
    const double bad = static_cast<double>(found.outcomes[1] + found.outcomes[2]);
    std::printf("%s: %zu cuts, %zu runs, %.0f not live\n", each.name, found.journals, found.runs,
                bad);
  }
}

// A long program by chance: threads with locks, tasks that tell themselves apart, and host
// functions.
Program program_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t count) { return random() % count; };
  Program program;
  uint64_t data = 1;
  const size_t threads = 2 + below(3);
  const bool pool = below(2) == 0;
  for (size_t thread = 0; thread < threads; ++thread) {
    Code code;
    for (size_t i = 2 + below(5); i-- > 0;) {
      switch (below(5)) {
        case 0: {
          const Code inside = with_lock(
              {alloc(8 * (1 + below(3))), query(), launch_on_memory(++data), give_back()});
          code.insert(code.end(), inside.begin(), inside.end());
          break;
        }
        case 1:
          code.push_back(once(static_cast<unsigned>(10 + below(3))));
          break;
        case 2:
          code.push_back(function(static_cast<unsigned>(100 + data)));
          code.push_back(sync());
          break;
        case 3:
          code.push_back(event());
          break;
        default:
          code.push_back(launch(++data));
          code.push_back(sync());
      }
    }
    if (pool) code.push_back(tasks());
    program.threads.emplace_back(std::to_string(thread), std::move(code));
  }
  for (size_t task = 0; pool && task < 2 + below(6); ++task) {
    program.tasks.push_back({launch(1000 + task), mark(), sync(), launch(2000 + task)});
  }
  return program;
}

Found long_histories(uint64_t first, uint64_t count) {
  Found found;
  for (uint64_t seed = first; seed < first + count && found.first_bad.empty(); ++seed) {
    const Program program = program_of(seed);
    Chooser choices(seed);
    const Journal journal = record(program, choices);
    for (int i = 0; i < 4; ++i) {
      const size_t index =
          i == 0 ? journal.size() : 1 + choices.choose(static_cast<unsigned>(journal.size()));
      if (!may_cut_before(journal, index)) continue;
      const Journal cut = cut_before(journal, index);
      ++found.journals;
      judge(replay(program, cut, choices), cut, false, found);
    }
    if (!found.first_bad.empty()) found.first_bad += " seed " + std::to_string(seed);
  }
  return found;
}

TEST(ReplayScheduler, LongProgramsByChanceGiveNoThreadWhatAnotherGot) {
  const uint64_t first = soak() ? std::random_device{}() : 1;
  const Found found = long_histories(first, soak() ? 200000 : 3000);
  EXPECT_EQ(found.first_bad, "");
  EXPECT_GT(found.outcomes[0], found.runs / 2);
  std::printf("from seed %zu: %zu runs, %zu live\n", static_cast<size_t>(first), found.runs,
              found.outcomes[0]);
}

// Each deliberate mistake is found: by a replay that is wrong, or not live where it must be.
TEST(ReplayScheduler, MistakesAreFound) {
  for (const Mutation mistake : {Mutation::kSkipTurn, Mutation::kExchangeOneSide,
                                 Mutation::kCutOneEarly, Mutation::kSkipMemoryBefore}) {
    made_mistake = mistake;
    bool is_found = false;
    for (const Case& each : cases()) {
      is_found = is_found || !explore(each.program, each.lives).first_bad.empty();
    }
    made_mistake.reset();
    EXPECT_TRUE(is_found) << "mistake " << static_cast<int>(mistake);
  }
}

}  // namespace
}  // namespace replay_model
}  // namespace gpusnap
