// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints through VeloC's interface, as a program would write it.
#define VELOC_NO_MPI
#include "tests/apps/app.h"
#include "tests/bench/history/keeper.h"
#include "tools/veloc/veloc.h"

namespace app {
namespace {

constexpr const char* kName = "shot";

void must(int result, const char* call) {
  if (result != VELOC_SUCCESS) fail(call, "failed");
}

class History : public Keeper {
 public:
  explicit History(const Shot& shot) {
    must(VELOC_Init_single(0, shot.config.c_str()), "VELOC_Init_single");
    must(VELOC_Mem_protect(1, reinterpret_cast<void*>(shot.buffer), shot.bytes, 1),
         "VELOC_Mem_protect");
    if (!shot.hints) return;
    for (const int version : shot.order) {
      must(VELOC_Prefetch_enqueue(kName, version), "VELOC_Prefetch_enqueue");
    }
  }
  ~History() override { must(VELOC_Finalize(0), "VELOC_Finalize"); }

  void write(int version) override { must(VELOC_Checkpoint(kName, version), "VELOC_Checkpoint"); }
  void restore(int version) override { must(VELOC_Restart(kName, version), "VELOC_Restart"); }
  void start_prefetching() override { must(VELOC_Prefetch_start(), "VELOC_Prefetch_start"); }
  void wait_until_flushed() override { must(VELOC_Checkpoint_wait(), "VELOC_Checkpoint_wait"); }
};

}  // namespace

std::unique_ptr<Keeper> make_history(const Shot& shot) {
  return std::make_unique<History>(shot);
}

}  // namespace app
