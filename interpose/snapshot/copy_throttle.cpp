#include "interpose/snapshot/copy_throttle.h"

#include <algorithm>

namespace gpusnap {

namespace {
// Enough for full bandwidth.
constexpr uint64_t kMostBytes = 1 << 20;
// Where the link has 25 GB/s, it takes little longer than the 10 us that a copy takes anyway.
constexpr uint64_t kFewestBytes = 128 << 10;  // the first one; then two times as much
// So many copies of 1 MiB each keep the engine busy from one look of the offloader's to the next.
// Each may keep one copy of the program's waiting: not before so many copies saw none.
constexpr size_t kMostFlights = 8;
constexpr size_t kQuietCopies = 8;
// The engine is idle for so long at most, for the program's sake; then it gets kMostBytes, which
// take half as long: the background has a third of the link, whatever the program does.
constexpr float kPatience = 0.1f;  // milliseconds
}  // namespace

void Stopwatch::start(CUstream stream) {
  for (CUevent* event : {&from_, &now_}) {
    if (*event == nullptr) (void)driver_.cuEventCreate(event, CU_EVENT_DEFAULT);
  }
  asked_ = false;
  if (from_ != nullptr) (void)driver_.cuEventRecord(from_, stream);
}

bool Stopwatch::passed(CUstream stream, float milliseconds) {
  if (from_ == nullptr || now_ == nullptr) return true;
  float time = 0;
  if (asked_) {
    CUresult result = driver_.cuEventQuery(now_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    if (result == CUDA_SUCCESS) result = driver_.cuEventElapsedTime(&time, from_, now_);
    if (result != CUDA_SUCCESS || time > milliseconds) return true;
  }
  asked_ = driver_.cuEventRecord(now_, stream) == CUDA_SUCCESS;
  return !asked_;
}

CopyThrottle::CopyThrottle(const ProgramCopies& copies, Stopwatch& watch)
    : copies_(copies), watch_(watch), bytes_(kFewestBytes), passed_(copies.passed()) {}

bool CopyThrottle::stands_back(CUstream stream) {
  const uint64_t passed = copies_.passed();
  if (impatient_ && passed == passed_when_impatient_) return false;
  impatient_ = false;
  if (!copies_.any()) {
    waiting_ = false;
    if (passed != passed_) be_careful();
    passed_ = passed;
    return false;
  }
  be_careful();
  if (!waiting_) {
    waiting_ = true;
    watch_.start(stream);
    return true;
  }
  if (!watch_.passed(stream, kPatience)) return true;
  waiting_ = false;
  impatient_ = true;
  passed_when_impatient_ = passed;
  bytes_ = kMostBytes;
  return false;
}

void CopyThrottle::be_careful() {
  bytes_ = kFewestBytes;
  quiet_ = 0;
}

size_t CopyThrottle::flights() const {
  return quiet_ < kQuietCopies ? 1 : kMostFlights;
}

void CopyThrottle::started() {
  if (!impatient_) ++quiet_;
  bytes_ = quiet_ < kQuietCopies ? kFewestBytes * 2 : kMostBytes;
}

}  // namespace gpusnap
