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
  json.key("store_every").value(interval.store_every);
  json.key("memory_stall_s").precise(interval.memory_stall_s);
  json.key("memory_latency_s").precise(interval.memory_latency_s);
  json.key("memory_measurements").value(interval.memory_measurements);
  json.key("failures").value(interval.failures);
  json.end_object();
}

std::string show_interval(const plan::ChosenInterval& interval) {
  const std::string from =
      interval.measurements == 0
          ? fmt::format("an assumed stall of {}", show_seconds(interval.stall_s))
          : fmt::format("{} measured: stall {}, then on its way for {}", interval.measurements,
                        show_seconds(interval.stall_s), show_seconds(interval.latency_s));
  const std::string levels = interval.store_every == 1
                                 ? ""
                                 : fmt::format(", each {}th to the store", interval.store_every);
  const std::string seen =
      interval.failures == 0 ? "" : fmt::format(" stated, {} seen", interval.failures);
  return fmt::format("every {}{} by GPUSNAP_EVERY=auto; a failure every {}{}; {}",
                     show_seconds(interval.interval_s), levels,
                     show_seconds(interval.between_failures_s), seen, from);
}

}  // namespace gpusnap
