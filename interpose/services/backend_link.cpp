#include "interpose/services/backend_link.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "interpose/services/backend_options.h"
#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"
#include "tiers/daemon/start.h"
#include "tiers/file_system.h"

namespace gpusnap {

namespace {

// How long the node's backend may take to start.
constexpr auto kLongestStart = std::chrono::seconds(10);
// Areas that have just been closed when we come, one after the other.
constexpr int kMostClosed = 10;

// The area lies apart from all that the program maps.
class PrivateAddresses final : public AddressSpace {
 public:
  std::byte* take(size_t bytes) override { return allocate_block(bytes); }
  void give_back(std::byte* start, size_t bytes) override { release_block(start, bytes); }
};

GrowthWay growth_way(Pinning pin) {
  switch (pin) {
    case Pinning::kAtOnce:
      return GrowthWay::kAtOnce;
    case Pinning::kConcurrent:
      return GrowthWay::kConcurrent;
    default:
      return GrowthWay::kAhead;
  }
}

}  // namespace

AddressSpace* area_addresses() {
#ifdef GPUSNAP_SANITIZED
  return nullptr;  // memory of the sanitizer's, which is not to be mapped over
#else
  static constinit PrivateAddresses addresses;
  return &addresses;
#endif
}

Backend::Options backend_options(const Settings& settings) {
  Backend::Options options;
  options.chunk_bytes = settings.tiers.chunk;
  options.ssd = settings.tiers.ssd;
  options.policy = settings.tiers.policy;
  options.flushes = settings.tiers.flushes;
  options.workers = settings.compress_workers;
  options.writes = settings.writes;
  options.growth = growth_way(settings.pin);
  options.warn = [](const std::string& line) { log(LogLevel::kWarn, line); };
  options.note = [](const std::string& line) { log(LogLevel::kInfo, line); };
  return options;
}

BackendLink::~BackendLink() = default;

Result<std::unique_ptr<BackendLink>> BackendLink::open(const Settings& settings,
                                                       const Spawn& spawn) {
  std::unique_ptr<BackendLink> link(new BackendLink);
  if (settings.backend_process) {
    Status reached = link->reach(settings);
    if (reached.ok()) return link;
    log(LogLevel::kWarn,
        "what is saved does not outlive the program's death before it is durable: ",
        reached.message());
    link.reset(new BackendLink);
  }
  if (Status serves = link->serve(settings, spawn); !serves.ok()) return serves;
  return link;
}

Status BackendLink::reach(const Settings& settings) {
  const std::string area = StagingMemory::name_for(node_name(settings.node));
  const BackendProgram program{find_backend(), backend_environment(environ)};
  Status joined;
  for (int i = 0; i < kMostClosed; ++i) {
    auto memory = reach_backend(area, program, kLongestStart, area_addresses());
    if (!memory.ok()) return memory.status();
    memory_ = std::move(memory.value());
    joined = join([program] { return start_backend(program); });
    if (joined.code() != Code::kNotFound) break;
  }
  return joined;
}

Status BackendLink::serve(const Settings& settings, const Spawn& spawn) {
  auto memory = StagingMemory::make_private({settings.slot, settings.host_cache}, area_addresses());
  if (!memory.ok()) return memory.status();
  memory_ = std::move(memory.value());
  Backend::Options options = backend_options(settings);
  options.spawn = spawn;
  auto backend = Backend::make(posix_file_system(), *memory_, std::move(options));
  if (!backend.ok()) return backend.status();
  backend_ = std::move(backend.value());
  if (const auto thread = start_thread(spawn, "backend", [this] { backend_->run(); });
      !thread.ok()) {
    return thread.status();
  }
  return join({});
}

Status BackendLink::join(ServerWatch::Revive revive) {
  auto client = StagingClient::join(*memory_);
  if (!client.ok()) return client.status();
  client_ = std::move(client.value());
  watch_ = std::make_unique<ServerWatch>(*memory_, std::move(revive));
  pool_ = std::make_unique<StagingPool>(*memory_, *client_, *watch_);
  return {};
}

}  // namespace gpusnap
