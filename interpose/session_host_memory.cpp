// SPDX-License-Identifier: Apache-2.0
//
// The session and memory that host and device both see.

#include "interpose/session.h"
#include "interpose/snapshot/snapshots.h"
#include "interpose/thread_path.h"

namespace gpusnap {

void Session::refuse_guess(const WriteSet& set) {
  if (!set.unknown()) return;
  // Another thread may have made a change there, and makes it again at a time of its own.
  if (!calls_in_driver_.several_threads() || mode_ != Mode::kRecord) return;
  std::string which = "a kernel whose code is not known";
  if (!set.proven()) {
    const KernelWrites& kernel = model_.modules.kernels().of_guess(set.guesses().back());
    which = "the kernel " + kernel.name + " (" + kernel.reason + ")";
  }
  refuse("pinned or managed memory beside " + which +
         ", which may write to any of it, in several threads");
}

bool Session::begin_watch() {
  if (!model_.host_memory.is_guessed() || mode_ != Mode::kRecord) return false;
  // Other threads of the program may write to that memory at any time, and so may other ranks.
  const ThreadPath& path = own_thread_path();
  if (calls_in_driver_.several_threads() || path.depth != 0 || path.children != 0 ||
      run_.ranks.ranks != 1) {
    return false;
  }
  deliveries_.begin_watch();
  return true;
}

void Session::end_watch() {
  if (deliveries_.end_watch() || calls_in_driver_.several_threads()) return;
  foreign_.store(
      "pinned memory that a kernel has written although no argument of a kernel points there "
      "(gpusnap explain names kernels of which there is only machine code),",
      std::memory_order_relaxed);
}

HostWrite* Session::begin_host_write(CUstream stream) {
  if (model_.host_memory.empty() || !recording()) return nullptr;
  const CUcontext context = model_.contexts.current();
  if (own_state.number == 0) own_state.number = ++thread_count_;
  const uint64_t thread = stream == CU_STREAM_PER_THREAD ? own_state.number : 0;
  const CUstream known = stream == nullptr ? CU_STREAM_LEGACY : stream;
  HostWrite* const write = deliveries_.begin_write(context, known, thread);
  if (write != nullptr || !model_.contexts.is_known(context)) return write;
  add_progress_words(context);
  return deliveries_.begin_write(context, known, thread);
}

ProgramCopies::Ticket Session::own_copy() {
  const bool wanted = snapshot_pending() || (pinning_ != nullptr && pinning_->under_way());
  return wanted ? snapshots_->program_copies().enter() : nullptr;
}

void Session::defer(const HostBlock& block, const ProgressMark& mark, bool in_graph,
                    ProgramCopies::Ticket ticket) {
  deliveries_.add_copy(block, mark, in_graph, std::move(ticket));
}

void Session::note_answered(const HostBlock& block) {
  if (model_.host_memory.empty()) return;
  block.for_each_row([&](auto row) {
    model_.host_memory.note_copied(reinterpret_cast<uint64_t>(row.data()), row.size());
  });
}

const std::vector<Delivery>& Session::collect(bool all_done, uint8_t* flags) {
  using enum Deliveries::Moment;
  const auto taken = deliveries_.collect(all_done ? kIdle : kCall, !host_function_runs());
  *flags |= taken.flags;
  if (taken.doubt != nullptr) foreign_.store(taken.doubt, std::memory_order_relaxed);
  return deliveries_.deliveries();
}

}  // namespace gpusnap
