/* OpenACC: memory from the library's own calls, mapped by hand; atomics; the kernels construct. */
#include <openacc.h>

#include "program.h"

enum { kValues = 2048, kBins = 32 };

int main(int argc, char** argv) {
  static unsigned values[kValues], host_bins[kBins], bins[kBins];
  int steps = steps_of(argc, argv);
  unsigned* on_device = (unsigned*)acc_malloc(sizeof values);
  unsigned* mapped = (unsigned*)acc_malloc(sizeof bins);
  acc_map_data(bins, mapped, sizeof bins);
  check(acc_deviceptr(bins) == mapped && acc_is_present(bins, sizeof bins), "a mapping", 0);
  for (int step = 0; step < steps; ++step) {
    /* Comes and goes: the next step has other memory or the same. */
    unsigned* extra = (unsigned*)acc_malloc((size_t)(step % 3 + 1) * 4096);
    for (unsigned i = 0; i < kValues; ++i)
      values[i] = (i * 2654435761u + (unsigned)step * 40503u) >> 3;
    acc_memcpy_to_device(on_device, values, sizeof values);
    memset(bins, 0, sizeof bins);
#pragma acc update device(bins)
    unsigned taken = 0;
#pragma acc parallel loop deviceptr(on_device, extra) present(bins) copy(taken) num_gangs(4) \
    vector_length(32)
    for (int i = 0; i < kValues; ++i) {
      unsigned at = on_device[i] % kBins;
      extra[i % 1024] = at;
#pragma acc atomic update
      bins[at] += 1;
      if (on_device[i] % 5 == 0) {
#pragma acc atomic update
        taken += on_device[i];
      }
    }
#pragma acc kernels deviceptr(on_device) present(bins)
    {
      for (int i = 0; i < kBins; ++i) bins[i] = bins[i] * 3 + 1;
      for (int i = 0; i < kValues; ++i) on_device[i] ^= 1;
    }
    acc_update_self(bins, sizeof bins);
    unsigned host_taken = 0;
    memset(host_bins, 0, sizeof host_bins);
    for (int i = 0; i < kValues; ++i) {
      ++host_bins[values[i] % kBins];
      if (values[i] % 5 == 0) host_taken += values[i];
      values[i] ^= 1;
    }
    for (int i = 0; i < kBins; ++i) host_bins[i] = host_bins[i] * 3 + 1;
    check(taken == host_taken, "a sum", step);
    check(memcmp(bins, host_bins, sizeof bins) == 0, "a count", step);
    static unsigned back[kValues];
    acc_memcpy_from_device(back, on_device, sizeof back);
    check(memcmp(back, values, sizeof back) == 0, "a value", step);
    acc_free(extra);
    printf("%d %u %08x\n", step, taken, digest(bins, sizeof bins));
  }
  acc_unmap_data(bins);
  acc_free(mapped);
  acc_free(on_device);
  printf("ok\n");
  return 0;
}
