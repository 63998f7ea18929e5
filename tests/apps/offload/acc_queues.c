/* OpenACC: asynchronous queues that wait for each other and are polled, and an update in a queue.
   Their regions work on declared variables alone. Data that is mapped for an asynchronous region is
   freed when libgomp learns of the region's end, which is another moment in each run. */
#include <openacc.h>

#include "program.h"

enum { kCells = 1024, kSums = 2 };
static unsigned first[kCells], second[kCells], sums[kCells], rounds[kSums];
#pragma acc declare create(first, second, sums, rounds)
static unsigned host_first[kCells], host_second[kCells], host_sums[kCells];

static void expected_step(unsigned step) {
  for (unsigned i = 0; i < kCells; ++i) {
    host_first[i] = host_first[i] * 1664525u + i + step;
    host_second[i] = host_second[i] * 22695477u + i * step;
    host_sums[i] = host_first[i] ^ host_second[i] >> 1;
  }
}

int main(int argc, char** argv) {
  unsigned steps = (unsigned)steps_of(argc, argv);
  acc_update_device(first, sizeof first);
  acc_update_device(second, sizeof second);
  acc_update_device(rounds, sizeof rounds);
  for (unsigned step = 0; step < steps; ++step) {
#pragma acc parallel loop present(first, rounds) async(0) num_gangs(4) vector_length(32)
    for (unsigned i = 0; i < kCells; ++i) first[i] = first[i] * 1664525u + i + rounds[0];
#pragma acc parallel loop present(second, rounds) async(1) num_gangs(4) vector_length(32)
    for (unsigned i = 0; i < kCells; ++i) second[i] = second[i] * 22695477u + i * rounds[1];
#pragma acc parallel loop present(first, second, sums) wait(0, 1) async(2) num_gangs(4) \
    vector_length(32)
    for (unsigned i = 0; i < kCells; ++i) sums[i] = first[i] ^ second[i] >> 1;
#pragma acc parallel loop present(rounds) wait(2) async(3) num_gangs(1) vector_length(32)
    for (int i = 0; i < kSums; ++i) ++rounds[i];
#pragma acc update self(sums [0:kCells]) async(2)
    expected_step(step);
    /* How often is for the device to say: it is not printed. */
    while (step % 5 == 0 && !acc_async_test(2)) continue;
#pragma acc wait(2)
    check(memcmp(sums, host_sums, sizeof sums) == 0, "what the queues have made", (int)step);
    printf("%u %08x\n", step, digest(sums, sizeof sums));
    /* The device may have been faster than the host at each wait so far; here the host waits. */
#pragma acc wait(3)
    acc_update_self(rounds, sizeof rounds);
    check(rounds[0] == rounds[1], "a round", (int)step);
  }
#pragma acc wait
  acc_update_self(first, sizeof first);
  acc_update_self(second, sizeof second);
  check(memcmp(first, host_first, sizeof first) == 0, "a part", (int)steps);
  check(memcmp(second, host_second, sizeof second) == 0, "a part", (int)steps);
  printf("%08x\nok\n", digest(first, sizeof first));
  return 0;
}
