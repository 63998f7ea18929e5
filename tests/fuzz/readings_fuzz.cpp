// The numbers of a clock in a manifest are refused, or can be taken one by one to their end.
#include <cstdlib>
#include <span>

#include "interpose/nondeterminism/value_log.h"

namespace {

using namespace gpusnap::nondeterminism;

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  int64_t last = 0;
  const bool whole = are_numbers(bytes.data(), bytes.size(), last);
  ValueLog series({"main", Source::kTime, false, bytes.data(), bytes.size()});
  int64_t number = 0, taken = 0;
  uint64_t count = 0;
  for (; series.take(number); ++count) taken = number;
  check(count <= size);
  check(!whole || taken == last);
  return 0;
}
