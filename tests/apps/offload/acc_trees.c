/* OpenACC: structures whose pointers lead to other memory of the device (attach and detach). */
#include "program.h"

enum { kBranches = 4, kLeaves = 200 };
struct Branch {
  int size;
  unsigned* leaves;
};

int main(int argc, char** argv) {
  static unsigned host[kBranches][kLeaves];
  struct Branch branches[kBranches];
  int steps = steps_of(argc, argv);
  for (int i = 0; i < kBranches; ++i) {
    branches[i].size = kLeaves - i;
    branches[i].leaves = (unsigned*)calloc(kLeaves, sizeof(unsigned));
  }
#pragma acc enter data copyin(branches)
  for (int i = 0; i < kBranches; ++i) {
#pragma acc enter data copyin(branches[i].leaves [0:kLeaves])
  }
  for (int step = 0; step < steps; ++step) {
#pragma acc parallel loop gang num_gangs(kBranches) vector_length(32) present(branches)
    for (int i = 0; i < kBranches; ++i) {
#pragma acc loop vector
      for (int j = 0; j < branches[i].size; ++j)
        branches[i].leaves[j] = branches[i].leaves[j] * 5 + (unsigned)(i + j + step);
    }
    int chosen = step % kBranches;
#pragma acc update self(branches[chosen].leaves [0:kLeaves])
    for (int i = 0; i < kBranches; ++i)
      for (int j = 0; j < kLeaves - i; ++j) host[i][j] = host[i][j] * 5 + (unsigned)(i + j + step);
    check(memcmp(branches[chosen].leaves, host[chosen], sizeof host[0]) == 0, "a branch", step);
    printf("%d %08x\n", step, digest(branches[chosen].leaves, sizeof host[0]));
    if (step % 10 != 9) continue;
      /* A branch that is taken off and put on again lies elsewhere. */
#pragma acc exit data copyout(branches[chosen].leaves [0:kLeaves])
    branches[chosen].leaves[0] = host[chosen][0] = (unsigned)step;
#pragma acc enter data copyin(branches[chosen].leaves [0:kLeaves])
  }
  for (int i = 0; i < kBranches; ++i) {
#pragma acc exit data copyout(branches[i].leaves [0:kLeaves])
    check(memcmp(branches[i].leaves, host[i], sizeof host[i]) == 0, "a branch", steps);
    printf("%08x\n", digest(branches[i].leaves, sizeof host[i]));
    free(branches[i].leaves);
  }
#pragma acc exit data delete (branches)
  printf("ok\n");
  return 0;
}
