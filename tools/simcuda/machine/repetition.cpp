#include "tools/simcuda/machine/repetition.h"

#include <cstring>

namespace simcuda {
namespace {

// Keeping and comparing so many bytes takes about 1% of the time of an operation.
constexpr uint64_t kBytesPerOperation = 2;

// Visits what distinguishes the moments of a call, and of all its callers: a function may do the
// same for each of many calls. Ends when `visit` returns false.
template <class Visit>
bool visit_state(const Frame& frame, const Visit& visit) {
  for (const Frame* f = &frame; f != nullptr; f = f->caller) {
    const void* code = f->code;
    if (!visit(&code, sizeof code) || !visit(&f->return_to, sizeof f->return_to) ||
        !visit(f->registers, f->code->register_bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Repetition::keep(const Frame& frame) {
  kept_.clear();
  visit_state(frame, [this](const void* from, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    kept_.insert(kept_.end(), begin, begin + bytes);
    return true;
  });
}

bool Repetition::unchanged(const Frame& frame) const {
  size_t at = 0;
  return visit_state(frame, [&](const void* from, size_t bytes) {
    if (kept_.size() - at < bytes || std::memcmp(kept_.data() + at, from, bytes) != 0) return false;
    at += bytes;
    return true;
  });
}

bool Repetition::seen(const Frame& frame, uint32_t place, uint32_t mask, uint64_t elapsed) {
  if (frame_ == &frame && place_ == place && mask_ == mask) {
    if (unchanged(frame)) return true;
    frame_ = nullptr;
  }
  if (elapsed < next_) return false;
  keep(frame);
  frame_ = &frame;
  place_ = place;
  mask_ = mask;
  next_ = elapsed + kept_.size() / kBytesPerOperation;
  return false;
}

}  // namespace simcuda
