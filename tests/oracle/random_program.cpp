// random_program SEED [--threads N] [--contexts N] [--steps N] [--no-pools] [--no-shared]
// [--no-guesses] [--mapped] [--faults] [--threads-stay] [--trace]: a program that does at random
// whatever can be done to device memory, and prints one number that all of it went into. The same
// seed gives the same program and the same number, wherever its memory lies: what it computes is of
// no address, and of no memory that it has not written.
#include "tests/oracle/programs.h"

int main(int argc, char** argv) {
  oracle::Options options;
  if (!oracle::read_options(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: random_program SEED [--threads N] [--contexts N] [--steps N] [--no-pools] "
                 "[--no-shared] [--no-guesses] [--mapped] [--faults] [--threads-stay] [--trace]\n");
    return 64;
  }
  const uint64_t seen = oracle::run_programs(
      options, [&options](unsigned number, CUcontext context, oracle::Exchange& exchange) {
        return std::make_unique<oracle::Program>(options.seed, number, context,
                                                 static_cast<unsigned>(options.steps), exchange);
      });
  std::printf("%016llx\n", static_cast<unsigned long long>(seen));
  return 0;
}
