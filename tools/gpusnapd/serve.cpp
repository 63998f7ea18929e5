#include "tools/gpusnapd/serve.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "interpose/services/backend_link.h"
#include "interpose/services/backend_options.h"
#include "interpose/services/log.h"
#include "tiers/backend/backend.h"
#include "tiers/daemon/start.h"
#include "tiers/levels/service.h"
#include "tiers/staging/memory.h"
#include "tiers/staging/server.h"

namespace gpusnap {

namespace {

// Signals that ask for the end. Made before all threads, which therefore have them blocked.
class EndSignals {
 public:
  EndSignals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC);
  }
  ~EndSignals() { ::close(descriptor_); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// A scheduler that ends a job sends SIGTERM to every process of it; what is left to do is done
// first. Takes the signals on a thread of its own, which ends before the backend does.
class EndWhenAsked {
 public:
  EndWhenAsked(const EndSignals& signals, Backend& backend)
      : over_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this, &signals, &backend] { watch(signals.descriptor(), backend); }) {}
  ~EndWhenAsked() {
    (void)::eventfd_write(over_, 1);
    thread_.join();
    ::close(over_);
  }
  EndWhenAsked(const EndWhenAsked&) = delete;
  EndWhenAsked& operator=(const EndWhenAsked&) = delete;

 private:
  void watch(int signals, Backend& backend) const {
    for (;;) {
      pollfd ready[2] = {{signals, POLLIN, 0}, {over_, POLLIN, 0}};
      if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
      if (ready[1].revents != 0) return;
      signalfd_siginfo taken{};
      if (ready[0].revents == 0 || ::read(signals, &taken, sizeof taken) < 0) continue;
      if (taken.ssi_signo == SIGTERM) backend.drain();
    }
  }

  const int over_;
  std::thread thread_;
};

// Null where there are none. Checkpoints are worth more than their protection: where that cannot be
// had, the user is told and the backend works without.
std::unique_ptr<levels::LevelService> start_levels(const Settings& settings) {
  if (!settings.levels.scheme) return nullptr;
  levels::LevelService::Options options;
  options.settings = settings.levels;
  options.ssd = settings.tiers.ssd.front().path;
  options.warn = [](const std::string& line) { log(LogLevel::kWarn, line); };
  options.tell = [](const std::string& line) { log(LogLevel::kInfo, line); };
  auto service = levels::LevelService::start(posix_file_system(), std::move(options));
  if (service.ok()) return std::move(service.value());
  log(LogLevel::kError,
      "checkpoints of this node are not protected by others: ", service.status().message());
  return nullptr;
}

// Programs of a node fill its staging area together. Half of the processors are left to them.
uint32_t forerunners() {
  constexpr uint32_t kMost = 32;
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMost);
}

}  // namespace

Status serve_node(const Settings& settings) {
  (void)::signal(SIGPIPE, SIG_IGN);
  const EndSignals signals;
  const std::string area = StagingMemory::name_for(node_name(settings.node));
  auto memory = StagingMemory::serve(area, {settings.slot, settings.host_cache});
  if (!memory.ok()) return memory.status();
  Backend::Options options = backend_options(settings);
  options.name = area;
  const std::unique_ptr<levels::LevelService> protection = start_levels(settings);
  options.protection = protection.get();
  // One that has shards of others serves them until it is asked to end.
  options.idle = protection ? std::chrono::nanoseconds(0) : settings.backend_idle;
  options.keeps = settings.backend_idle;
  options.forerunners = forerunners();
  auto backend = Backend::make(posix_file_system(), *memory.value(), std::move(options));
  if (!backend.ok()) return backend.status();
  {
    const EndWhenAsked end_when_asked(signals, *backend.value());
    backend.value()->run();
  }
  // A backend that was asked to end leaves the area as it is. A client that has come meanwhile
  // finds that nobody serves the area, and starts another backend.
  if (memory.value()->header().closed.load() == 0) (void)StagingServer(*memory.value()).close();
  return {};
}

}  // namespace gpusnap
