// SPDX-License-Identifier: Apache-2.0
#include "interpose/record/admission.h"

namespace gpusnap {

void Admission::set_mode(Mode mode) {
  mode_.store(mode, std::memory_order_relaxed);
  rules_.set_recording(mode == Mode::kRecord);
}

void Admission::leave_closed() {
  leave();
  if (is_closed()) changed_.notify_all();
}

void Admission::await_entry() {
  while (rules_.must_wait()) wait();
}

void Admission::await_end_of_cut() {
  while (is_closed() && !own_state.admitted) wait();
}

Admission::Closing Admission::close(CallLock::Clock::time_point deadline) {
  if (!rules_.close()) return Closing::kElsewhere;
  while (rules_.others() > 0) {
    if (lock_.wait_until(changed_, deadline) || rules_.others() <= 0) continue;
    open();
    return Closing::kNotLeft;
  }
  return Closing::kClosed;
}

void Admission::open() {
  rules_.open();
  changed_.notify_all();
}

}  // namespace gpusnap
