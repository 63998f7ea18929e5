#include "tools/simcuda/driver/engines.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <system_error>
#include <thread>

namespace simcuda {
namespace {

constexpr auto kHoldPoll = std::chrono::milliseconds(1);

__extension__ using Wide = unsigned __int128;

// Nanoseconds, rounded up, that `amount` takes at `rate` a second.
uint64_t time_for(uint64_t amount, uint64_t rate) {
  return static_cast<uint64_t>((static_cast<Wide>(amount) * 1'000'000'000 + rate - 1) / rate);
}

}  // namespace

Engines::Engines(const EngineSettings& settings, int devices, Stats& stats, Faults& faults)
    : settings_(settings), stats_(stats), faults_(faults) {
  if (settings.clock.is_virtual) {
    clock_ = std::make_unique<VirtualClock>(settings.clock, devices, stats);
  }
  if (!clock_ || settings.trace.empty()) return;
  trace_ = std::fopen(settings.trace.c_str(), "ae");
  if (trace_ == nullptr) {
    std::fprintf(stderr, "simcuda: SIMCUDA_TRACE='%s' cannot be written: %s; there is no trace\n",
                 settings.trace.c_str(), std::generic_category().message(errno).c_str());
  } else {
    std::setvbuf(trace_, nullptr, _IOLBF, 0);
  }
}

int64_t Engines::now() const {
  if (clock_) return clock_->now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Engines::Route Engines::route_of(const Context& context, Engine engine, DevicePair pair) const {
  if (pair == DevicePair{} || !settings_.links.is_set()) {
    return {{context.device(), engine}, rate(engine)};
  }
  if (!settings_.links.has(pair)) {
    return {{pair.from, Engine::kToHost}, rate_through_host()};
  }
  return {{pair.from, engine, pair.to}, settings_.links.rate(pair)};
}

bool Engines::begin(Context& context, const Route& route) {
  if (faults_.strike(FaultPoint::kContext)) {
    if (context.fail(CUDA_ERROR_ECC_UNCORRECTABLE, "the context is lost, as SIMCUDA_FAULT says")) {
      ++stats_.faults;
    }
    return false;
  }
  if (clock_) clock_->acquire(route.channel);
  const std::string& file = settings_.held_by[static_cast<size_t>(route.channel.engine)];
  if (!file.empty()) wait_while_held(file);
  return true;
}

void Engines::wait_while_held(const std::string& file) {
  while (access(file.c_str(), F_OK) == 0) {
    if (clock_) clock_->release();
    std::this_thread::sleep_for(kHoldPoll);
    if (clock_) clock_->hold();
  }
}

void Engines::end(const Route& route, const Effort& effort) {
  if (!clock_) return;
  const uint64_t nanoseconds = duration(route, effort);
  if (trace_ != nullptr) note(route.channel, nanoseconds, effort);
  clock_->finish(route.channel, static_cast<int64_t>(nanoseconds));
}

void Engines::note(const Channel& channel, uint64_t nanoseconds, const Effort& effort) const {
  constexpr const char* kNames[kEngines] = {"compute", "to_host", "to_device", "copy"};
  const double begin = static_cast<double>(clock_->now()) / 1e3;
  std::string name = kNames[static_cast<size_t>(channel.engine)];
  if (channel.peer != Channel::kNoPeer) name += "_to_" + std::to_string(channel.peer);
  std::fprintf(trace_, "%.3f %.3f %d %s %" PRIu64 "\n", begin,
               begin + static_cast<double>(nanoseconds) / 1e3, channel.device, name.c_str(),
               effort.bytes + effort.host_bytes);
}

uint64_t Engines::duration(const Route& route, const Effort& effort) const {
  const ClockSettings& clock = settings_.clock;
  uint64_t moving = time_for(effort.bytes, route.rate);
  if (route.channel.engine != Engine::kCompute) {
    return clock.copy_latency + (effort.copies - 1) * clock.batch_latency + moving;
  }
  // Memory of the host is behind the link that copies use.
  moving += time_for(effort.host_bytes, rate_through_host());
  uint64_t computing = time_for(effort.instructions, clock.instructions);
  return std::max(clock.kernel_latency + std::max(moving, computing), effort.at_least);
}

}  // namespace simcuda
