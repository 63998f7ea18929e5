// SPDX-License-Identifier: Apache-2.0
//
// Simulates the start of a node on a virtual clock: processes with a GPU each that write
// checkpoints into a device cache, from which they go to a host cache that is not ready yet, and
// read them back (the deep-tiers showcase, slides 23 to 28, 62 to 64). The decisions of "ours" are
// TouchPlan's. Nothing moves but numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tiers/staging/touch_plan.h"

namespace gpusnap::startup {

// Bytes a second.
struct Machine {
  double copy = 1e12;     // within a device
  double link = 25e9;     // between pinned memory and devices; of two devices
  double unpinned = 5e9;  // between other memory and one device
  double touch = 1e9;     // by one thread
  double registering = 4e9;
  double fresh_registering = 4e9;  // of memory that nobody has touched
  bool shares_registering = true;  // that is of the whole node, not of each process
  double competing = 0.5;          // of its speed, what is left to a transfer beside touching, and
                                   // to touching beside a transfer
};

enum class Way {
  kDirect,      // all is allocated and pinned before the program goes on
  kConcurrent,  // a thread of each process touches, whatever goes on; then all is pinned
  kOurs,
};

struct Configuration {
  Machine machine;
  Way way = Way::kOurs;
  bool pauses = true;  // ours
  unsigned processes = 1;
  double interval =
      30e-3;  // seconds of computation before each checkpoint, and before each restore
  unsigned checkpoints = 180;
  double size = 200e6;  // bytes of each
  double device_cache = 4.0 * (1 << 30);
  double host_cache = 32.0 * (1 << 30);  // for each process
  unsigned threads = 32;                 // ours: of the node
};

// Seconds of one process, on average, in which its program was held.
struct Outcome {
  double checkpoints = 0;  // and before the first one
  double restores = 0;
  double touched = 0;  // bytes of the node, at the end of the last checkpoint
};

class Node {
 public:
  explicit Node(const Configuration& configuration);
  Outcome run();

 private:
  struct Process {
    // The program: seconds of computation left; then bytes to be moved before it goes on.
    double computes = 0;
    double moves = 0;
    unsigned done = 0;  // checkpoints, or restores
    double waited = 0;
    // Bytes.
    double on_device = 0;  // in the device cache, not on the host yet; then: there to be read back
    double on_host = 0;    // in the host cache
    double fetched = 0;    // read back so far, ahead of need
    bool copies = false;   // between device and host, in this step
    // Its host cache; where it is shared, see Node.
    double touched = 0;
    double pinned = 0;       // of the area's beginning
    double put_off = 0;      // seconds for which copies have put off pinning
    double registering = 0;  // bytes of the registration under way
  };
  struct Thread {
    std::optional<TouchPlan::Part> part;
    double left = 0;  // bytes of its first slot
  };

  void start_all();
  bool all_are_through() const;
  void checkpoint_step(Process& process);
  void restore_step(Process& process);
  void drain(Process& process);
  void fetch(Process& process);
  double copy_rate(const Process& process, double position) const;
  void touch_own(Process& process);
  void touch_shared();
  void advance(Thread& thread);
  void pin_own(Process& process);
  void pin_in_turn();
  // The rate of one process, if it reaches `alone` by itself.
  double registering_rate(double alone) const;
  double backed(const Process& process) const;
  bool is_ours() const { return configuration_.way == Way::kOurs; }

  const Configuration configuration_;
  std::vector<Process> processes_;
  // Ours: one area for all.
  TouchPlan plan_;
  double used_ = 0;  // bytes of it
  std::vector<Thread> threads_;
  size_t turn_ = 0;
  bool touching_ = false;  // in the step before
  bool copying_ = false;
};

}  // namespace gpusnap::startup
