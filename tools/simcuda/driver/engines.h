// Where the operations of streams are done: how long they take on the virtual clock, where it is
// used, and what the settings do to them on the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/engine_settings.h"
#include "tools/simcuda/driver/faults.h"
#include "tools/simcuda/driver/stats.h"
#include "tools/simcuda/driver/virtual_clock.h"

namespace simcuda {

// The amount of work that an operation did.
struct Effort {
  uint64_t bytes = 0;         // moved; for a kernel, touched in device memory
  uint64_t host_bytes = 0;    // that a kernel or set touched in memory of the host
  uint64_t instructions = 0;  // of all threads
  uint64_t at_least = 0;      // nanoseconds
  uint64_t copies = 1;        // of a batch
};

// Thread-safe.
class Engines {
 public:
  Engines(const EngineSettings& settings, int devices, Stats& stats, Faults& faults);

  // Null: event times are the host's.
  VirtualClock* clock() const { return clock_.get(); }
  // Nanoseconds of the clock in use.
  int64_t now() const;

  // Does an operation of a stream of `context`, in a task of that stream: `work()` does it and
  // returns its Effort. Returns when it is over.
  template <class Work>
  void run(Context& context, Engine engine, Work&& work) {
    run(context, engine, DevicePair{}, std::forward<Work>(work));
  }
  // Likewise; `pair`: the devices of a copy that may have a link of its own. None: it has not.
  template <class Work>
  void run(Context& context, Engine engine, DevicePair pair, Work&& work) {
    const Route route = route_of(context, engine, pair);
    if (!begin(context, route)) return;
    end(route, work());
  }

 private:
  // Where an operation is done, and how many bytes a second.
  struct Route {
    Channel channel;
    uint64_t rate = 0;
  };

  Route route_of(const Context& context, Engine engine, DevicePair pair) const;
  bool begin(Context& context, const Route& route);
  void end(const Route& route, const Effort& effort);
  void wait_while_held(const std::string& file);
  void note(const Channel& channel, uint64_t nanoseconds, const Effort& effort) const;
  uint64_t duration(const Route& route, const Effort& effort) const;
  uint64_t rate(Engine engine) const {
    return settings_.clock.bandwidth[static_cast<size_t>(engine)];
  }
  uint64_t rate_through_host() const {
    return std::min(rate(Engine::kToHost), rate(Engine::kToDevice));
  }

  const EngineSettings settings_;
  Stats& stats_;
  Faults& faults_;
  std::unique_ptr<VirtualClock> clock_;
  std::FILE* trace_ = nullptr;  // never closed: operations go on to the very end
};

}  // namespace simcuda
