// All of a random program: its contexts, its threads, and what each of them does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tests/oracle/program.h"

namespace oracle {

struct Options {
  uint64_t seed = 0, threads = 1, contexts = 1, steps = 120;
  // Stream-ordered memory; memory that the host sees too; kernels whose writes nobody can tell.
  bool no_pools = false, no_shared = false, no_guesses = false;
  bool mapped = false;  // memory of virtual memory management, too
  // The threads stay to the end of the process: ThreadSanitizer does not bear the end of one in
  // which the unwinder has been.
  bool threads_stay = false;
};

// False: the arguments make no sense.
bool read_options(int argc, char** argv, Options& options);

// Makes the actor of that number.
using Make = std::function<std::unique_ptr<Program>(unsigned number, CUcontext context, Exchange&)>;

// Runs them, each in a thread of its own: one number that all of it went into.
uint64_t run_programs(const Options& options, const Make& make);

}  // namespace oracle
