// A calibration of any content is refused, or is one that a model can be made of, and is written as
// it was read.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tiers/checksum.h"
#include "tiers/placement/calibration.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void try_calibration(const std::string& text) {
  const auto calibration = gpusnap::decode_calibration(text);
  if (!calibration.ok()) {
    check(!calibration.status().message().empty());
    return;
  }
  const auto model = gpusnap::ThroughputModel::fit(calibration->samples);
  check(model.ok());
  for (const gpusnap::ThroughputSample& sample : calibration->samples) {
    check(model->of_one(sample.writers) > 0);
  }
  check(gpusnap::device_key(calibration->device).size() == 16);
  const auto again = gpusnap::encode(calibration.value());
  check(again.ok() && again.value() == text);
}

}  // namespace

// The input is tried as a file, and as the content of one whose checksum is good.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_calibration(text);
  const std::string content = text.substr(0, text.rfind("checksum "));
  char sum[17];
  std::snprintf(sum, sizeof sum, "%016llx",
                static_cast<unsigned long long>(gpusnap::checksum(content)));
  try_calibration(content + "checksum " + sum + "\n");
  return 0;
}
