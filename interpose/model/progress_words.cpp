#include "interpose/model/progress_words.h"

#include <algorithm>

namespace gpusnap {

void ProgressWords::add(CUcontext context, std::span<std::atomic<uint32_t>> words,
                        CUdeviceptr device) {
  Words& mine = words_[context];
  mine.spare.reserve(mine.spare.size() + words.size());
  for (std::atomic<uint32_t>& word : words) {
    mine.spare.push_back(&all_.emplace_back(ProgressWord{&word, device, context}));
    device += sizeof word;
  }
}

ProgressWord* ProgressWords::take(CUcontext context) {
  const auto found = words_.find(context);
  if (found == words_.end()) return nullptr;
  Words& mine = found->second;
  if (mine.spare.empty()) {
    // An old value must not overwrite a newer one: only words whose last place was reached are
    // free.
    const auto free = std::partition(mine.late.begin(), mine.late.end(), [](const auto* word) {
      return !word->has_reached(word->issued);
    });
    mine.spare.assign(free, mine.late.end());
    mine.late.erase(free, mine.late.end());
  }
  if (mine.spare.empty()) return nullptr;
  ProgressWord* const word = mine.spare.back();
  mine.spare.pop_back();
  return word;
}

void ProgressWords::give_back(ProgressWord* word) {
  const auto found = words_.find(word->context);
  if (found == words_.end()) return;
  Words& mine = found->second;
  (word->has_reached(word->issued) ? mine.spare : mine.late).push_back(word);
}

void ProgressWords::give_back_unused(const ProgressMark& mark) {
  if (mark.word == nullptr) return;
  mark.word->issued = mark.value - 1;
  give_back(mark.word);
}

void ProgressWords::forget_context(CUcontext context) {
  words_.erase(context);
}

}  // namespace gpusnap
