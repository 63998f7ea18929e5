/* OpenMP: variables that live on the device (declare target), functions, updates of parts. */
#include "program.h"

enum { kWords = 512, kParts = 4 };
#pragma omp declare target
static unsigned state[kWords];
static unsigned round_number = 1;
static unsigned turn(unsigned value, unsigned by) {
  return value << by | value >> (32 - by);
}
static void stir(unsigned* words, int count) {
  for (int i = 0; i < count; ++i)
    words[i] = turn(words[i] + round_number, 7) ^ words[(i + 1) % count];
  round_number = round_number * 69069u + 1;
}
#pragma omp end declare target

int main(int argc, char** argv) {
  static unsigned host[kWords];
  unsigned host_round = 1;
  int steps = steps_of(argc, argv);
  for (unsigned i = 0; i < kWords; ++i) host[i] = state[i] = i * i * 2654435761u;
#pragma omp target update to(state)
  for (int step = 0; step < steps; ++step) {
    unsigned seen = 0;
#pragma omp target map(from : seen)
    {
      stir(state, kWords);
      seen = round_number;
    }
    const int count = kWords / kParts, first = step % kParts * count;
#pragma omp target teams distribute parallel for num_teams(2) thread_limit(4) \
    firstprivate(first, count)
    for (int i = 0; i < count; ++i) state[first + i] += turn((unsigned)(i + step), 5);
#pragma omp target update from(state [first:count])
    for (int i = 0; i < kWords; ++i)
      host[i] = turn(host[i] + host_round, 7) ^ host[(i + 1) % kWords];
    host_round = host_round * 69069u + 1;
    for (int i = 0; i < count; ++i) host[first + i] += turn((unsigned)(i + step), 5);
    check(seen == host_round, "a variable", step);
    check(memcmp(state + first, host + first, (size_t)count * 4) == 0, "a part", step);
    printf("%d %08x\n", step, digest(state + first, (size_t)count * 4));
  }
#pragma omp target update from(state, round_number)
  check(memcmp(state, host, sizeof host) == 0 && round_number == host_round, "the state", steps);
  printf("%08x\nok\n", digest(state, sizeof state));
  return 0;
}
