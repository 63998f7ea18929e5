/* OpenACC: variables that live on the device as long as the program (declare), and routines of each
   level of parallelism. */
#include <openacc.h>

#include "program.h"

enum { kRows = 16, kColumns = 64 };
static unsigned table[kColumns];
#pragma acc declare create(table)
static unsigned steps_done = 7;
#pragma acc declare copyin(steps_done)
unsigned scratch[kRows];
#pragma acc declare device_resident(scratch)

#pragma acc routine seq
static unsigned mix(unsigned value, unsigned with) {
  return (value ^ with) * 2654435761u + (value >> 7);
}

#pragma acc routine vector
static void fill_row(unsigned* row, unsigned seed) {
#pragma acc loop vector
  for (int x = 0; x < kColumns; ++x) row[x] = mix(row[x] + table[x], seed);
}

#pragma acc routine worker
static unsigned sum_row(const unsigned* row) {
  unsigned sum = 0;
#pragma acc loop worker vector reduction(+ : sum)
  for (int x = 0; x < kColumns; ++x) sum += row[x];
  return sum;
}

int main(int argc, char** argv) {
  static unsigned rows[kRows][kColumns], host[kRows][kColumns], sums[kRows];
  unsigned host_steps = steps_done;
  unsigned host_table[kColumns];
  int steps = steps_of(argc, argv);
  for (unsigned i = 0; i < kColumns; ++i) host_table[i] = table[i] = i * i;
  acc_update_device(table, sizeof table);
#pragma acc data copy(rows) create(sums)
  for (int step = 0; step < steps; ++step) {
#pragma acc parallel num_gangs(1) present(steps_done)
    steps_done = mix(steps_done, 3);
#pragma acc parallel loop gang num_gangs(8) vector_length(32) present(rows, steps_done)
    for (int y = 0; y < kRows; ++y) fill_row(rows[y], (unsigned)y + steps_done);
#pragma acc parallel loop gang num_gangs(8) num_workers(2) vector_length(32) \
    present(rows, sums, steps_done)
    for (int y = 0; y < kRows; ++y) {
      unsigned sum = sum_row(rows[y]);
      scratch[y] = sum;
      sums[y] = scratch[y] + steps_done;
    }
#pragma acc parallel loop num_gangs(2) vector_length(32) present(sums)
    for (int x = 0; x < kColumns; ++x) table[x] += sums[x % kRows];
#pragma acc update self(sums)
    host_steps = mix(host_steps, 3);
    for (int y = 0; y < kRows; ++y) {
      unsigned sum = host_steps;
      for (int x = 0; x < kColumns; ++x) {
        host[y][x] = mix(host[y][x] + host_table[x], (unsigned)y + host_steps);
        sum += host[y][x];
      }
      check(sums[y] == sum, "a row's sum", step);
    }
    for (int x = 0; x < kColumns; ++x) host_table[x] += sums[x % kRows];
    printf("%d %08x\n", step, digest(sums, sizeof sums));
  }
  check(memcmp(rows, host, sizeof rows) == 0, "a row", steps);
  acc_update_self(table, sizeof table);
  acc_update_self(&steps_done, sizeof steps_done);
  check(memcmp(table, host_table, sizeof table) == 0, "the table", steps);
  check(steps_done == host_steps, "a variable", steps);
  printf("%08x\nok\n", digest(rows, sizeof rows));
  return 0;
}
