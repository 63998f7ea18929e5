// Handles that programs hold. A handle is a number, never a pointer into the library: one that is
// stale or made up is found out, and handles are the same in every run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace simcuda {

// Thread-safe. Handles are never used twice.
template <class Handle, class Object>
class HandleTable {
 public:
  // Tables of different kinds have different bases, far apart.
  explicit HandleTable(uint64_t base) : next_(base) {}

  // A handle that no object has yet.
  Handle reserve() {
    std::lock_guard lock(mutex_);
    next_ += 16;
    return reinterpret_cast<Handle>(next_);
  }
  void insert(Handle handle, std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
  }
  // Null: no such handle.
  std::shared_ptr<Object> find(Handle handle) const {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> remove(Handle handle) {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  // Removes what `which(object)` says, in order of handles.
  template <class Which>
  std::vector<std::shared_ptr<Object>> remove_if(Which which) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Object>> removed;
    for (auto at = objects_.begin(); at != objects_.end();) {
      if (!which(*at->second)) {
        ++at;
        continue;
      }
      removed.push_back(std::move(at->second));
      at = objects_.erase(at);
    }
    return removed;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Object>> objects;
    for (const auto& [handle, object] : objects_) objects.push_back(object);
    return objects;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t next_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace simcuda
