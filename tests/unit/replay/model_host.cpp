// SPDX-License-Identifier: Apache-2.0
//
// The model's driver and the host code of its programs.
#include "model.h"

namespace gpusnap::replay_model {

namespace {
constexpr uint64_t kFirstAddress = 0x1000;
}  // namespace

uint64_t Driver::get(uint64_t bytes) {
  uint64_t at = kFirstAddress;
  for (const auto& [address, size] : blocks_) {
    if (address >= at + bytes) break;
    at = address + size;
  }
  blocks_[at] = bytes;
  return at;
}

// ---- the host

Host::Host(const Program& program) : program_(program) {
  for (const auto& [path, code] : program.threads) {
    threads_.push_back({.path = path, .code = &code});
  }
}

const Op* Host::current(const Thread& thread) const {
  if (thread.task >= 0)
    return &program_.tasks[static_cast<size_t>(thread.task)][thread.next_in_task];
  return thread.next < thread.code->size() ? &(*thread.code)[thread.next] : nullptr;
}

void Host::advance(Thread& thread) {
  if (thread.task < 0) {
    ++thread.next;
    return;
  }
  if (++thread.next_in_task < program_.tasks[static_cast<size_t>(thread.task)].size()) return;
  thread.task = -1;  // and it takes the next one
}

bool Host::can_move(size_t number) const {
  const Thread& thread = threads_[number];
  const Op* const op = current(thread);
  if (op == nullptr || thread.at_call) return false;
  if (op->kind == Op::kLock) return !locks_.contains(op->which);
  if (op->kind == Op::kAwait) return flags_.contains(op->which);
  const auto made = once_.find(op->which);
  return op->kind != Op::kOnce || made == once_.end() || made->second == 2;
}

bool Host::come_to_call(size_t number) {
  Thread& thread = threads_[number];
  const Op& op = *current(thread);
  switch (op.kind) {
    case Op::kCall:
      thread.at_call = true;
      return true;
    case Op::kLock:
      locks_[op.which] = number;
      break;
    case Op::kUnlock:
      locks_.erase(op.which);
      break;
    case Op::kSet:
      flags_.insert(op.which);
      break;
    case Op::kAwait:
      break;
    case Op::kOnce:
      if (once_[op.which] == 2) break;
      once_[op.which] = 1;
      thread.at_call = true;
      return true;
    case Op::kTasks:
      if (tasks_taken_ == program_.tasks.size() || (op.which == 1 && thread.took)) break;
      thread.took = true;
      thread.task = static_cast<int>(tasks_taken_++);
      thread.next_in_task = 0;
      return false;
  }
  advance(thread);
  return false;
}

bool Host::has_ended(size_t number) const {
  return current(threads_[number]) == nullptr;
}

bool Host::all_ended() const {
  for (size_t i = 0; i < count(); ++i) {
    if (!has_ended(i)) return false;
  }
  return true;
}

const Op& Host::op(size_t number) const {
  return *current(threads_[number]);
}

std::string Host::name_of_op(size_t number) const {
  const Thread& thread = threads_[number];
  if (op(number).kind == Op::kOnce) return "once " + std::to_string(op(number).which);
  if (thread.task >= 0) {
    return "task " + std::to_string(thread.task) + ':' + std::to_string(thread.next_in_task);
  }
  return thread.path + ':' + std::to_string(thread.next);
}

CallKey Host::key_of(size_t number) const {
  const Op& op = this->op(number);
  CallKey key;
  if (op.hook == HookId::cuMemFree_v2) {
    key.add(threads_[number].memory);
  } else if (op.word != 0) {
    key.add(op.word);
  }
  key.data = op.data + (op.at_memory ? threads_[number].memory << 32 : 0);
  return key;
}

void Host::made(size_t number, uint64_t address) {
  Thread& thread = threads_[number];
  const Op& op = *current(thread);
  thread.at_call = false;
  if (op.hook == HookId::cuMemAlloc_v2) thread.memory = address;
  if (op.kind == Op::kOnce) once_[op.which] = 2;
  advance(thread);
}

uint64_t Host::digest() const {
  uint64_t number = tasks_taken_;
  const auto mix = [&number](uint64_t more) { number = (number ^ more) * 0x9e3779b97f4a7c15; };
  for (const Thread& thread : threads_) {
    mix(thread.next);
    mix(static_cast<uint64_t>(thread.task + 1));
    mix(thread.next_in_task * 2 + (thread.at_call ? 1 : 0));
    mix(thread.memory);
  }
  for (const auto& [which, holder] : locks_) mix(which * 100 + holder);
  for (const unsigned flag : flags_) mix(flag + 1000);
  for (const auto& [which, state] : once_) mix(which * 3 + static_cast<unsigned>(state) + 2000);
  return number;
}

}  // namespace gpusnap::replay_model
