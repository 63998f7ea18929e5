// Answers of the driver that are not of the seed: how long something took, whether it has ended,
// how much memory is free. The host writes each down, and into device memory. A restored run has
// the device's notes from the recorded run, and its own from what it was told up to the cut: were
// it told anything else, the two would differ.
#include <sched.h>

#include <cstring>

#include "tests/random/caller.h"

namespace calls {

namespace {
constexpr uint64_t kAnswers = 8192;  // bytes
}  // namespace

void Caller::note(const void* answer, size_t size) {
  if (answers_memory_ == nullptr) answers_memory_ = &own_memory(kAnswers);
  if (answers_.size() + size > kAnswers) {
    check_answers();
    answers_.clear();
  }
  const CUstream stream = pick_stream();
  touch(*answers_memory_, stream);
  auto& bytes = host_bytes(size);
  std::memcpy(bytes.data(), answer, size);
  IN_STREAM(cuMemcpyHtoDAsync_v2, stream, answers_memory_->address + answers_.size(), bytes.data(),
            size);
  answers_.insert(answers_.end(), bytes.begin(), bytes.end());
}

void Caller::check_answers() {
  if (answers_.empty()) return;
  std::vector<unsigned char> found(answers_.size());
  const CUstream stream = pick_default();
  touch(*answers_memory_, stream);
  AT_ONCE(cuMemcpyDtoH_v2, stream, found.data(), answers_memory_->address, found.size());
  if (found != answers_) {
    std::fprintf(stderr, "random_calls: actor %u, step %u: the driver had told something else\n",
                 number_, step_);
    std::_Exit(1);
  }
}

// Whether something has ended, and after how many questions it has.
void Caller::busy_step() {
  const CUstream stream = pick_stream();
  Memory& memory = pick_memory();
  touch(memory, stream);
  const auto words = static_cast<unsigned>(memory.words());
  launch("ponder", stream, std::min(words, 512u), memory.address, words,
         static_cast<unsigned>(draw_.between(100, 2000)), draw_.word());
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(event, stream));
  const auto [use_ptsz, given] = given_as(stream);
  const bool ask_event = draw_.chance(50);
  unsigned questions = 0;
  for (unsigned left = draw_.between(1, 20) > 15 ? 10'000'000 : 2; left > 0; --left) {
    const CUresult busy = ask_event  ? cuEventQuery(event)
                          : use_ptsz ? cuStreamQuery_ptsz(given)
                                     : cuStreamQuery(given);
    if (busy == CUDA_SUCCESS) break;
    if (busy != CUDA_ERROR_NOT_READY) CHECK(busy);
    ++questions;
    sched_yield();
  }
  CHECK(cuEventDestroy_v2(event));
  note(&questions, sizeof questions);
  if (draw_.chance(30)) check_answers();
}

void Caller::timing_step() {
  const CUstream stream = pick_stream();
  CUevent begin = nullptr, end = nullptr;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
  CHECK(cuEventRecord(begin, stream));
  for (uint64_t left = draw_.between(0, 2); left > 0; --left) launch_on_one(draw_.below(7));
  CHECK(cuEventRecord(end, stream));
  float took = 0;
  const CUresult early = cuEventElapsedTime(&took, begin, end);
  if (early != CUDA_ERROR_NOT_READY) CHECK(early);
  note(&early, sizeof early);
  draw_.chance(50) ? CHECK(cuEventSynchronize(end)) : wait_for(stream);
  CHECK(draw_.chance(50) ? cuEventElapsedTime(&took, begin, end)
                         : cuEventElapsedTime_v2(&took, begin, end));
  if (took < 0) oracle::fail("cuEventElapsedTime: less than no time", CUDA_ERROR_UNKNOWN);
  note(&took, sizeof took);
  CHECK(cuEventDestroy_v2(begin));
  CHECK(cuEventDestroy_v2(end));
}

void Caller::free_memory_step() {
  size_t free = 0, total = 0;
  CHECK(cuMemGetInfo_v2(&free, &total));
  note(&free, sizeof free);
  see(&total, sizeof total);
  check_answers();
}

}  // namespace calls
