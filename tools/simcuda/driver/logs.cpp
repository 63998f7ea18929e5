#include "tools/simcuda/driver/logs.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

constexpr size_t kMostBytes = 25600;
constexpr const char* kLeftOut = "simcuda: older lines are left out\n";

}  // namespace

Logs& logs() {
  static Logs* const all = new Logs;  // streams say things to the very end
  return *all;
}

void Logs::say(const std::string& line) {
  std::string text = "simcuda: " + line + "\n";
  std::map<CUlogsCallbackHandle, Callback> told;
  {
    std::lock_guard lock(mutex_);
    told = callbacks_;
    lines_.push_back(text);
    bytes_ += text.size();
    while (bytes_ > kMostBytes && lines_.size() > 1) {
      bytes_ -= lines_.front().size();
      lines_.pop_front();
      ++first_;
    }
  }
  if (told.empty()) {
    std::fputs(text.c_str(), stderr);
    return;
  }
  text.pop_back();
  const CallbackScope scope;
  for (const auto& [handle, callback] : told) {
    callback.function(callback.data, CU_LOG_LEVEL_ERROR, text.data(), text.size());
  }
}

CUlogsCallbackHandle Logs::add(CUlogsCallback function, void* data) {
  std::lock_guard lock(mutex_);
  next_handle_ += 16;
  const auto handle = reinterpret_cast<CUlogsCallbackHandle>(next_handle_);
  callbacks_[handle] = {function, data};
  return handle;
}

bool Logs::remove(CUlogsCallbackHandle handle) {
  std::lock_guard lock(mutex_);
  return callbacks_.erase(handle) != 0;
}

CUlogIterator Logs::end() const {
  std::lock_guard lock(mutex_);
  return first_ + static_cast<CUlogIterator>(lines_.size());
}

bool Logs::read(CUlogIterator* from, size_t room, std::string* text) const {
  std::lock_guard lock(mutex_);
  const CUlogIterator past = first_ + static_cast<CUlogIterator>(lines_.size());
  const CUlogIterator oldest = std::clamp(*from, first_, past);
  const auto begins = lines_.begin() + (oldest - first_);
  size_t bytes = 0;
  for (auto line = begins; line != lines_.end(); ++line) bytes += line->size();
  const bool all = bytes <= room && oldest == *from;
  auto at = all ? begins : lines_.end();
  bytes = all ? 0 : std::string_view(kLeftOut).size();
  while (at != begins && !all && bytes + std::prev(at)->size() <= room) {
    bytes += (--at)->size();
  }
  if (at == lines_.end() && oldest != past) return false;
  *text = all ? "" : kLeftOut;
  for (; at != lines_.end(); ++at) *text += *at;
  *from = past;
  return true;
}

}  // namespace simcuda
