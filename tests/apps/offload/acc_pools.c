/* OpenACC: data that come and go, of other sizes in each step, some of them counted twice; a region
   that the host runs; a part of an array. */
#include <openacc.h>

#include "program.h"

enum { kMost = 3000, kKept = 500 };

int main(int argc, char** argv) {
  static unsigned kept[kKept], host[kKept];
  int steps = steps_of(argc, argv);
#pragma acc enter data copyin(kept)
  for (int step = 0; step < steps; ++step) {
    int count = 1 + step * 379 % kMost;
    unsigned* fresh = (unsigned*)malloc((size_t)count * sizeof *fresh);
    unsigned sum = 0, host_sum = 0;
    for (int i = 0; i < count; ++i) fresh[i] = (unsigned)(i * 40503 + step);
#pragma acc enter data copyin(fresh [0:count])
#pragma acc enter data copyin(fresh [0:count])
#pragma acc parallel loop present(kept, fresh[0 : count]) reduction(+ : sum) num_gangs(4) \
    vector_length(32)
    for (int i = 0; i < count; ++i) {
      sum += fresh[i] ^ kept[i % kKept];
      fresh[i] += 1;
    }
#pragma acc exit data delete (fresh [0:count])
    check(acc_is_present(fresh, (size_t)count * 4), "a mapping", step);
#pragma acc exit data copyout(fresh [0:count])
    check(!acc_is_present(fresh, (size_t)count * 4), "a mapping", step);
    for (int i = 0; i < count; ++i) {
      host_sum += (fresh[i] - 1) ^ host[i % kKept];
      check(fresh[i] == (unsigned)(i * 40503 + step) + 1, "a value", step);
    }
    check(sum == host_sum, "a sum", step);
    /* Every third step the host does it. */
#pragma acc parallel loop if (step % 3 != 0) num_gangs(4) vector_length(32)
    for (int i = 0; i < kKept; ++i) kept[i] = kept[i] * 3 + sum;
    if (step % 3 == 0) {
#pragma acc update device(kept [0:kKept])
    } else {
#pragma acc update self(kept [0:kKept])
    }
    for (int i = 0; i < kKept; ++i) host[i] = host[i] * 3 + host_sum;
    check(memcmp(kept, host, sizeof host) == 0, "what is kept", step);
    free(fresh);
    printf("%d %u\n", step, sum);
  }
#pragma acc exit data copyout(kept)
  printf("%08x\nok\n", digest(kept, sizeof kept));
  return 0;
}
