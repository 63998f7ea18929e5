// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <iterator>

namespace gpusnap {

// While it lives, a signal that asks the process to end only notes that; its destructor then ends
// the process by that signal. Create it before whatever has to be cleaned up. One at a time.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  bool came() const;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)]{};
};

}  // namespace gpusnap
