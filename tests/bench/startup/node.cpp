// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/startup/node.h"

#include <algorithm>
#include <numeric>

namespace gpusnap::startup {

namespace {

constexpr double kStep = 100e-6;  // seconds
constexpr double kSlot = 4 << 20;
constexpr double kPinStep = 16 << 20;   // of ours, in one registration
constexpr double kPinPatience = 50e-3;  // ours: for which copies put off the next one
constexpr uint32_t kPartSlots = 8, kPartsAhead = 4, kPartsFew = 2;

TouchPlan::Options plan_options(const Configuration& configuration) {
  TouchPlan::Options options;
  options.slots = static_cast<uint32_t>(configuration.processes * configuration.host_cache / kSlot);
  options.part_slots = kPartSlots;
  options.threads = configuration.threads;
  options.ahead_slots = kPartsAhead * kPartSlots;
  options.few_slots = kPartsFew * kPartSlots;
  options.pauses = configuration.pauses;
  return options;
}

}  // namespace

Node::Node(const Configuration& configuration)
    : configuration_(configuration),
      processes_(configuration.processes),
      plan_(plan_options(configuration), 0),
      threads_(configuration.threads) {}

Outcome Node::run() {
  start_all();
  const auto pass = [this](auto&& step) {
    for (Process& process : processes_) {
      process.computes = configuration_.interval;
      process.done = 0;
    }
    const auto waited = [this] {
      return std::accumulate(
          processes_.begin(), processes_.end(), 0.0,
          [](double sum, const Process& process) { return sum + process.waited; });
    };
    const double before = waited();
    while (!all_are_through()) {
      for (Process& process : processes_) process.copies = false;
      for (Process& process : processes_) step(process);
      copying_ = std::ranges::any_of(processes_, &Process::copies);
      touching_ = false;
      if (is_ours()) {
        touch_shared();
        pin_in_turn();
      } else {
        for (Process& process : processes_) {
          touch_own(process);
          pin_own(process);
        }
      }
    }
    return (waited() - before) / static_cast<double>(processes_.size());
  };
  Outcome outcome;
  const double started = processes_.front().waited;
  outcome.checkpoints = started + pass([this](Process& process) { checkpoint_step(process); });
  outcome.touched = is_ours() ? plan_.backed() * kSlot
                              : static_cast<double>(processes_.size()) * configuration_.host_cache;
  outcome.restores = pass([this](Process& process) { restore_step(process); });
  return outcome;
}

// The published rate at which pinned memory is allocated includes that it is touched.
void Node::start_all() {
  if (configuration_.way != Way::kDirect) return;
  for (Process& process : processes_) {
    process.waited =
        configuration_.host_cache / registering_rate(configuration_.machine.fresh_registering);
    process.touched = process.pinned = configuration_.host_cache;
  }
}

double Node::registering_rate(double alone) const {
  return alone / (configuration_.machine.shares_registering ? configuration_.processes : 1);
}

bool Node::all_are_through() const {
  return std::ranges::all_of(processes_, [this](const Process& process) {
    return process.done == configuration_.checkpoints;
  });
}

void Node::checkpoint_step(Process& process) {
  drain(process);
  if (process.done == configuration_.checkpoints) return;
  if (process.computes > 0) {
    process.computes -= kStep;
    if (process.computes <= 0) process.moves = configuration_.size;
    return;
  }
  // Into the device cache, as far as it has room.
  process.waited += kStep;
  const double room = configuration_.device_cache - process.on_device;
  const double moved = std::min({configuration_.machine.copy * kStep, room, process.moves});
  process.on_device += moved;
  process.moves -= moved;
  if (process.moves > 0) return;
  ++process.done;
  process.computes = configuration_.interval;
}

// From the device to the host, oldest first.
void Node::drain(Process& process) {
  const double position = is_ours() ? used_ : process.on_host;
  // Nobody takes more than its share: what is through leaves the rest on the device.
  const double room =
      std::min(backed(process) - position, configuration_.host_cache - process.on_host);
  process.copies = process.on_device > 0;
  if (!process.copies || room <= 0) return;
  const double rate = copy_rate(process, position);
  const double moved = std::min({rate * kStep, process.on_device, room});
  process.on_device -= moved;
  process.on_host += moved;
  used_ += moved;
}

// `position`: where in the host cache; its first part is pinned.
double Node::copy_rate(const Process& process, double position) const {
  const Machine& machine = configuration_.machine;
  // Two devices share a link; those of the first half of the node come first.
  const auto index = static_cast<size_t>(&process - processes_.data());
  constexpr size_t kLinks = 4;
  const size_t other = index < kLinks ? index + kLinks : index - kLinks;
  const double link = machine.link / (other < processes_.size() ? 2 : 1);
  const double rate = position < process.pinned ? link : std::min(link, machine.unpinned);
  return touching_ ? rate * machine.competing : rate;
}

// Backwards. The last ones are still in the device cache; what is read from there makes room for
// those before them, which are fetched ahead.
void Node::restore_step(Process& process) {
  if (process.done == configuration_.checkpoints) return;
  fetch(process);
  if (process.computes > 0) {
    process.computes -= kStep;
    if (process.computes <= 0) process.moves = configuration_.size;
    return;
  }
  process.waited += kStep;
  const double all = configuration_.size * configuration_.checkpoints;
  const double kept = std::min(configuration_.device_cache, all);
  const double consumed = configuration_.size * (process.done + 1) - process.moves;
  const double there = kept + process.fetched - consumed;
  const double moved = std::min({configuration_.machine.copy * kStep, there, process.moves});
  process.moves -= std::max(moved, 0.0);
  if (process.moves > 0) return;
  ++process.done;
  process.computes = configuration_.interval;
}

void Node::fetch(Process& process) {
  const double all = configuration_.size * configuration_.checkpoints;
  const double kept = std::min(configuration_.device_cache, all);
  const double consumed = configuration_.size * process.done;
  const double room = std::min(consumed, all - kept) - process.fetched;
  process.copies = room > 0;
  if (!process.copies) return;
  // In the shared area those of all processes lie mixed.
  const double lies_at =
      (all - kept - process.fetched) * (is_ours() ? configuration_.processes : 1);
  process.fetched += std::min(copy_rate(process, lies_at) * kStep, room);
}

double Node::backed(const Process& process) const {
  return is_ours() ? plan_.backed() * kSlot : process.touched;
}

// A thread of the process's own.
void Node::touch_own(Process& process) {
  if (process.touched >= configuration_.host_cache) return;
  const Machine& machine = configuration_.machine;
  touching_ = true;
  process.touched += machine.touch * (process.copies ? machine.competing : 1) * kStep;
}

void Node::touch_shared() {
  const auto used_slots = static_cast<uint32_t>(used_ / kSlot);
  plan_.observe({used_slots, configuration_.processes, copying_});
  for (Thread& thread : threads_) advance(thread);
}

void Node::advance(Thread& thread) {
  if (!thread.part) {
    thread = {plan_.take(), kSlot};
    if (!thread.part) return;
  }
  const uint32_t slot = thread.part->first;
  if (!plan_.may_touch(slot)) return;
  touching_ = true;
  const Machine& machine = configuration_.machine;
  thread.left -= machine.touch * (copying_ ? machine.competing : 1) * kStep;
  if (thread.left > 0) return;
  plan_.touched(slot);
  thread.left = kSlot;
  ++thread.part->first;
  if (--thread.part->count == 0) thread.part.reset();
}

// All of it, once it has been touched.
void Node::pin_own(Process& process) {
  if (process.touched < configuration_.host_cache || process.pinned > 0) return;
  process.registering += registering_rate(configuration_.machine.registering) * kStep;
  if (process.registering >= configuration_.host_cache) process.pinned = configuration_.host_cache;
}

// One process at a time, some slots each, and as ArenaPinning does: put off by copies for a while.
void Node::pin_in_turn() {
  for (Process& process : processes_) process.put_off += kStep;
  for (size_t tries = 0; tries < processes_.size(); ++tries) {
    Process& process = processes_[turn_];
    const double step = std::min(kPinStep, plan_.backed() * kSlot - process.pinned);
    const bool is_put_off = process.copies && process.put_off < kPinPatience;
    if (process.registering > 0 || (step > 0 && !is_put_off)) {
      process.registering += configuration_.machine.registering * kStep;
      if (process.registering < step) return;
      process.pinned += step;
      process.registering = process.put_off = 0;
      turn_ = (turn_ + 1) % processes_.size();
      return;
    }
    turn_ = (turn_ + 1) % processes_.size();
  }
}

}  // namespace gpusnap::startup
