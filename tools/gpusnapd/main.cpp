// gpusnapd: the backend of one user on one node. Takes what the node's programs hand over in
// shared memory and makes it durable, whatever becomes of them.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"
#include "tiers/daemon/runtime_folder.h"
#include "tiers/daemon/start.h"
#include "tiers/staging/memory.h"
#include "tools/cli/exit_codes.h"
#include "tools/gpusnapd/serve.h"

namespace gpusnap {
namespace {

constexpr const char* kHelp =
    "Usage: gpusnapd [--detached]\n"
    "\n"
    "The backend of one user on one node: takes checkpoints from programs through shared memory\n"
    "and writes them to the store, also once a program has been killed. Started on demand by the\n"
    "first program with GPUSNAP_BACKEND=process, and by 'gpusnap wait' and others where something\n"
    "is left to do; ends by itself after GPUSNAP_BACKEND_IDLE without work. Where another one\n"
    "serves this node already, it ends at once.\n"
    "\n"
    "Reads GPUSNAP_HOST_CACHE, GPUSNAP_SLOT, GPUSNAP_WRITES, GPUSNAP_SSD, GPUSNAP_CHUNK, "
    "GPUSNAP_PLACEMENT, GPUSNAP_FLUSHES, GPUSNAP_COMPRESS*,\n"
    "GPUSNAP_BACKEND_IDLE, GPUSNAP_NODE, GPUSNAP_LEVELS, GPUSNAP_PEERS, GPUSNAP_LEVEL_* and\n"
    "GPUSNAP_LOG. With GPUSNAP_LEVELS it stays without work, too: it has shards of other nodes.\n"
    "SIGTERM ends it as soon as nothing is left to do.\n"
    "\n"
    "  --detached  messages go to gpusnapd.log in $XDG_RUNTIME_DIR/gpusnap or /tmp/gpusnap-<uid>\n"
    "  --version   the version\n"
    "  --help      this text\n";

// Earlier messages are kept up to this size.
constexpr off_t kLongestLog = 1 << 20;

Status write_to_log() {
  if (Status made = make_runtime_folder(); !made.ok()) return made;
  const std::string path = backend_log();
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) < 0) {
    return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno)};
  }
  if (about.st_size > kLongestLog) (void)::ftruncate(file, 0);
  (void)::dup2(file, STDERR_FILENO);
  ::close(file);
  return {};
}

// An empty log tells nothing.
void leave_no_empty_log() {
  struct stat about {};
  struct stat named {};
  if (::fstat(STDERR_FILENO, &about) < 0 || about.st_size != 0) return;
  if (::lstat(backend_log().c_str(), &named) < 0 || named.st_ino != about.st_ino) return;
  (void)::unlink(backend_log().c_str());
  (void)::rmdir(runtime_folder().c_str());
}

// Limits of the program that happened to be the first are not the backend's.
void raise_limits() {
  for (const auto resource : {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) < 0) continue;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(resource, &limit);
  }
}

int serve(bool detached) {
  ::umask(077);
  (void)::chdir("/");
  raise_limits();
  if (detached) {
    // Without a log it still works.
    if (Status ready = write_to_log(); !ready.ok()) log(LogLevel::kWarn, ready.message());
  }
  const ParsedSettings parsed = parse_settings(environ);
  set_log_level(parsed.settings.log);
  for (const std::string& line : parsed.errors) log(LogLevel::kError, line);
  if (!parsed.errors.empty()) return kExitSettings;
  const Status served = serve_node(parsed.settings);
  if (detached) leave_no_empty_log();
  if (served.ok() || served.code() == Code::kBusy) return kExitOk;
  log(LogLevel::kError, served.message());
  return kExitInternal;
}

int run(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (argc == 2 && (option == "--help" || option == "-h")) {
    std::fputs(kHelp, stdout);
    return kExitOk;
  }
  if (argc == 2 && option == "--version") {
    std::puts("gpusnapd " GPUSNAP_VERSION);
    return kExitOk;
  }
  if (argc > 2 || (argc == 2 && option != "--detached")) {
    log(LogLevel::kError, "gpusnapd takes no ", argv[argc - 1], "; see 'gpusnapd --help'");
    return kExitUsage;
  }
  return serve(argc == 2);
}

}  // namespace
}  // namespace gpusnap

int main(int argc, char** argv) {
  try {
    return gpusnap::run(argc, argv);
  } catch (const std::exception& error) {
    gpusnap::log(gpusnap::LogLevel::kError, "gpusnapd failed: ", error.what());
    return gpusnap::kExitInternal;
  }
}
