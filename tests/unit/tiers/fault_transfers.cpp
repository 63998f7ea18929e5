#include "fault_transfers.h"

#include <algorithm>
#include <utility>

namespace gpusnap::test {

FaultTransfers::~FaultTransfers() {
  stop_thread();
}

void FaultTransfers::stop_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FaultTransfers::set_ending(Ending ending, uint64_t seed) {
  stop_thread();
  const std::lock_guard lock(mutex_);
  ending_ = ending;
  random_.seed(seed);
  stopping_ = false;
  if (ending == Ending::kByThread) thread_ = std::thread([this] { run(); });
}

void FaultTransfers::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!end_one(lock, nullptr)) changed_.wait(lock);
  }
}

void FaultTransfers::begin(std::unique_lock<std::mutex>& lock, Transfer transfer) {
  transfer.ticket = next_ticket_++;
  const bool at_once = ending_ == Ending::kAtOnce && !transfer.stalled;
  const void* const file = transfer.file;
  held_.push_back(std::move(transfer));
  changed_.notify_all();
  if (at_once) end_one(lock, file);
}

bool FaultTransfers::end_one(std::unique_lock<std::mutex>& lock, const void* file) {
  std::vector<size_t> ready;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i].stalled && (file == nullptr || held_[i].file == file)) ready.push_back(i);
  }
  if (ready.empty()) return false;
  const auto chosen = held_.begin() + static_cast<ptrdiff_t>(ready[random_() % ready.size()]);
  Transfer transfer = std::move(*chosen);
  held_.erase(chosen);
  const uint64_t ticket = transfer.ticket;
  ending_now_.push_back({transfer.file, ticket});
  const Status status = transfer.effect();
  lock.unlock();
  transfer.done(status);
  transfer = {};  // what it holds goes before anybody learns of its end
  lock.lock();
  std::erase_if(ending_now_, [&](const Now& now) { return now.ticket == ticket; });
  changed_.notify_all();
  return true;
}

size_t FaultTransfers::end_some(std::unique_lock<std::mutex>& lock, size_t count) {
  size_t ended = 0;
  while (ended < count && end_one(lock, nullptr)) ++ended;
  return ended;
}

bool FaultTransfers::any_before(const void* file, uint64_t ticket) const {
  const auto counts = [&](const auto& transfer) {
    return transfer.file == file && transfer.ticket < ticket;
  };
  return std::any_of(held_.begin(), held_.end(), counts) ||
         std::any_of(ending_now_.begin(), ending_now_.end(), counts);
}

void FaultTransfers::wait(std::unique_lock<std::mutex>& lock, const void* file) {
  const uint64_t next = next_ticket_;
  while (any_before(file, next)) {
    if (ending_ == Ending::kWhenAsked && end_one(lock, file)) continue;
    changed_.wait(lock);
  }
}

void FaultTransfers::release(std::unique_lock<std::mutex>& lock) {
  size_t released = 0;
  for (Transfer& transfer : held_) released += std::exchange(transfer.stalled, false) ? 1 : 0;
  changed_.notify_all();
  if (ending_ == Ending::kAtOnce) end_some(lock, released);
}

}  // namespace gpusnap::test
