// Which kernels may have torn a snapshot: written memory that their arguments do not lead to.
//
// Only kernels that are not proven (kernel_writes.h) are speculated upon. When a snapshot comes out
// torn, one of those that were launched while zones were pending has done it. All of them are
// opaque from then on, that is, they wait for every pending zone, and the snapshots that follow
// narrow them down: each lets half of those in doubt go ahead again. If it is complete they are
// cleared, if it is torn the others are.
//
// Pure logic. Not thread-safe; the owner serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace gpusnap {

class Suspects {
 public:
  using Kernel = uint32_t;

  // A snapshot begins: decides which of those in doubt it speculates upon.
  void begin_snapshot();
  // Whether a kernel that is not proven has to wait for every pending zone.
  bool is_opaque(Kernel kernel) const;
  // A kernel that is not proven was launched on speculation while zones were pending.
  void launched(Kernel kernel) { launched_.insert(kernel); }
  // How the snapshot came out. Neither is called for one that was abandoned for other reasons.
  void complete();
  // Returns how many kernels are opaque now.
  size_t torn();

 private:
  std::set<Kernel> launched_;   // in this snapshot, on speculation
  std::set<Kernel> trusted_;    // launched in a complete snapshot
  std::set<Kernel> doubtful_;   // one of them has torn a snapshot
  std::set<Kernel> tried_;      // those of doubtful_ that this snapshot speculates upon
  std::set<Kernel> condemned_;  // each has torn one
  bool cautious_ = false;       // the last snapshot was torn: nobody is tried in the next
};

}  // namespace gpusnap
