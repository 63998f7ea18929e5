// random_calls SEED [options of random_program]: a program that makes calls of all families that
// are followed, at random. It prints checksums of what it has seen now and then, and at the end one
// of all of its memory: the same seed gives the same program and the same output.
//
// RANDOM_CALLS_KILL=ACTOR:STEP has one of its threads kill it as it comes to that step.
#include "tests/oracle/programs.h"
#include "tests/random/caller.h"

namespace {

void read_kill(calls::Meeting& meeting) {
  const char* kill = std::getenv("RANDOM_CALLS_KILL");
  if (kill == nullptr) return;
  if (std::sscanf(kill, "%u:%u", &meeting.kill_actor, &meeting.kill_step) != 2) {
    std::fprintf(stderr, "random_calls: RANDOM_CALLS_KILL is ACTOR:STEP, not %s\n", kill);
    std::exit(64);
  }
}

}  // namespace

int main(int argc, char** argv) {
  oracle::Options options;
  if (!oracle::read_options(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: random_calls SEED [--threads N] [--contexts N] [--steps N] [--no-pools] "
                 "[--no-shared] [--no-guesses] [--mapped] [--trace]\n");
    return 64;
  }
  calls::Meeting meeting(static_cast<unsigned>(options.threads));
  read_kill(meeting);
  const uint64_t seen = oracle::run_programs(
      options, [&](unsigned number, CUcontext context, oracle::Exchange& exchange) {
        return std::make_unique<calls::Caller>(
            options.seed, number, context, static_cast<unsigned>(options.steps), exchange, meeting);
      });
  std::printf("end: %016llx\n", static_cast<unsigned long long>(seen));
  return 0;
}
