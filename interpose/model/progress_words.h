// Words in page-locked memory of ours that streams write, each when its stream gets to a place that
// was marked. They tell how far the device has got by a load, without a call of the driver: a host
// function may make none, and no lock has to be given up for it.
//
// The session's lock guards all of it but write_mark(), which calls the driver.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

// One word. Its owner marks places of one stream, one after the other, by values that count up.
struct ProgressWord {
  std::atomic<uint32_t>* at = nullptr;
  CUdeviceptr device = 0;  // its address for the device
  CUcontext context = nullptr;
  uint32_t issued = 0;  // the value of the last place that was marked

  uint32_t reached() const { return at->load(std::memory_order_acquire); }
  bool has_reached(uint32_t value) const { return static_cast<int32_t>(reached() - value) >= 0; }
};

// A place in a stream.
struct ProgressMark {
  ProgressWord* word = nullptr;
  uint32_t value = 0;
  bool is_reached() const { return word->has_reached(value); }
};

// Marks the end of what has been queued on the stream so far. Calls the driver; not in a capture.
inline CUresult write_mark(const Driver& driver, const ProgressMark& mark, CUstream stream) {
  if (driver.cuStreamWriteValue32_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return driver.cuStreamWriteValue32_v2(stream, mark.word->device, mark.value,
                                        CU_STREAM_WRITE_VALUE_DEFAULT);
}

// Why checkpoints end when a copy cannot be marked.
inline constexpr const char* kNoProgressMark =
    "a copy to the host of which nothing tells the end (cuStreamWriteValue32)";

class ProgressWords {
 public:
  // Words for marks in streams of that context, which see them at `device`. They must be zero, and
  // stay as long as this lives.
  void add(CUcontext context, std::span<std::atomic<uint32_t>> words, CUdeviceptr device);
  // One that nothing uses. Null: there is none left; add more.
  ProgressWord* take(CUcontext context);
  // The stream may not have come to the last place yet.
  void give_back(ProgressWord* word);
  // The stream will never come there: the mark was not queued.
  void give_back_unused(const ProgressMark& mark);
  // The context has ended: words that were taken for it are not to be used any more.
  void forget_context(CUcontext context);

 private:
  struct Words {
    std::vector<ProgressWord*> spare;
    std::vector<ProgressWord*> late;  // given back before their last place was reached
  };
  std::deque<ProgressWord> all_;
  std::map<CUcontext, Words> words_;
};

}  // namespace gpusnap
