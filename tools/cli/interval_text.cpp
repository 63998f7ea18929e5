// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/interval_text.h"

#include <fmt/format.h>

namespace gpusnap {
namespace {

std::string show_seconds(double seconds) {
  if (seconds >= 120) return show_age(static_cast<int64_t>(seconds));
  return show_nanoseconds(static_cast<uint64_t>(seconds * 1e9));
}

}  // namespace

void add_interval(Json& json, const plan::ChosenInterval& interval) {
  if (!interval.is_chosen()) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("interval_s").precise(interval.interval_s);
  json.key("stall_s").precise(interval.stall_s);
  json.key("latency_s").precise(interval.latency_s);
  json.key("mtbf_s").precise(interval.between_failures_s);
  json.key("measurements").value(interval.measurements);
  json.end_object();
}

std::string show_interval(const plan::ChosenInterval& interval) {
  const std::string from =
      interval.measurements == 0
          ? fmt::format("an assumed stall of {}", show_seconds(interval.stall_s))
          : fmt::format("{} measured: stall {}, then on its way for {}", interval.measurements,
                        show_seconds(interval.stall_s), show_seconds(interval.latency_s));
  return fmt::format("every {} by GPUSNAP_EVERY=auto; a failure every {}; {}",
                     show_seconds(interval.interval_s), show_seconds(interval.between_failures_s),
                     from);
}

}  // namespace gpusnap
