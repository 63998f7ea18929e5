#include "tracker/suspects.h"

#include <iterator>

namespace gpusnap {

void Suspects::begin_snapshot() {
  launched_.clear();
  tried_.clear();
  if (cautious_ || doubtful_.size() < 2) return;
  const auto half = std::next(doubtful_.begin(), static_cast<ptrdiff_t>(doubtful_.size() / 2));
  tried_.insert(doubtful_.begin(), half);
}

bool Suspects::is_opaque(Kernel kernel) const {
  return condemned_.contains(kernel) || (doubtful_.contains(kernel) && !tried_.contains(kernel));
}

void Suspects::complete() {
  cautious_ = false;
  for (Kernel kernel : launched_) {
    trusted_.insert(kernel);
    if (tried_.contains(kernel)) doubtful_.erase(kernel);
  }
  if (doubtful_.size() == 1) condemned_.merge(doubtful_);
}

size_t Suspects::torn() {
  cautious_ = true;
  std::set<Kernel> guilty;
  for (Kernel kernel : launched_) {
    if (tried_.contains(kernel)) guilty.insert(kernel);
  }
  // One of those that were tried: that clears the others.
  if (!guilty.empty()) doubtful_.clear();
  // Without one that was tried it was a kernel never suspected before: first those of which no
  // snapshot has come out well.
  if (guilty.empty()) {
    for (Kernel kernel : launched_) {
      if (!trusted_.contains(kernel)) guilty.insert(kernel);
    }
  }
  if (guilty.empty()) guilty = launched_;
  if (guilty.size() == 1) {
    doubtful_.erase(*guilty.begin());
    condemned_.merge(guilty);
  } else if (!guilty.empty()) {
    doubtful_ = std::move(guilty);
  }
  return doubtful_.size() + condemned_.size();
}

}  // namespace gpusnap
