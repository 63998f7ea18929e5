/* OpenACC: heat spreads in a plate; a data region, collapsed loops and a reduction in each step. */
#include "program.h"

enum { kWidth = 48 };
static long now[kWidth][kWidth], next[kWidth][kWidth];
static long host[kWidth][kWidth], host_next[kWidth][kWidth];

static long expected_step(void) {
  long most = 0;
  for (int y = 1; y < kWidth - 1; ++y)
    for (int x = 1; x < kWidth - 1; ++x) {
      long mean = (host[y - 1][x] + host[y + 1][x] + host[y][x - 1] + host[y][x + 1]) / 4;
      long change = labs(mean - host[y][x]);
      host_next[y][x] = mean;
      most = change > most ? change : most;
    }
  memcpy(host, host_next, sizeof host);
  return most;
}

int main(int argc, char** argv) {
  int steps = steps_of(argc, argv);
  for (int y = 0; y < kWidth; ++y) now[y][0] = next[y][0] = host[y][0] = host_next[y][0] = 1 << 30;
#pragma acc data copy(now) copyin(next)
  for (int step = 0; step < steps; ++step) {
    long most = 0;
#pragma acc parallel loop collapse(2) reduction(max : most) num_gangs(8) vector_length(32)
    for (int y = 1; y < kWidth - 1; ++y)
      for (int x = 1; x < kWidth - 1; ++x) {
        long mean = (now[y - 1][x] + now[y + 1][x] + now[y][x - 1] + now[y][x + 1]) / 4;
        long change = mean > now[y][x] ? mean - now[y][x] : now[y][x] - mean;
        next[y][x] = mean;
        most = change > most ? change : most;
      }
#pragma acc parallel loop collapse(2) num_gangs(8) vector_length(32)
    for (int y = 1; y < kWidth - 1; ++y)
      for (int x = 1; x < kWidth - 1; ++x) now[y][x] = next[y][x];
    check(most == expected_step(), "the largest change", step);
    if (step % 8 == 0) {
#pragma acc update self(now [kWidth / 2:1])
      check(memcmp(now[kWidth / 2], host[kWidth / 2], sizeof now[0]) == 0, "a row", step);
    }
    printf("%d %ld %ld\n", step, most, now[kWidth / 2][1]);
  }
  check(memcmp(now, host, sizeof now) == 0, "the plate", steps);
  printf("%08x\nok\n", digest(now, sizeof now));
  return 0;
}
