// SPDX-License-Identifier: Apache-2.0
//
// Lists and prunes a store of many checkpoints, on a file system in memory: what is measured is
// what we do and not what a device does.
//
//   listing_bench [CHECKPOINTS [FOLDER]]     10,000 in /dev/shm
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/support/many_checkpoints.h"
#include "tiers/store.h"

namespace {

using namespace gpusnap;

double processor_seconds() {
  rusage used{};
  (void)::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

// How long it took, and how much of that a processor worked for it: the rest is what others on the
// machine took.
struct Took {
  double all = 0;
  double processor = 0;
};

Took seconds(const std::function<Status()>& work) {
  const double before = processor_seconds();
  const auto begun = std::chrono::steady_clock::now();
  const Status done = work();
  if (!done.ok()) {
    std::fprintf(stderr, "listing_bench: %s\n", done.message().c_str());
    std::exit(1);
  }
  const double all =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return {all, processor_seconds() - before};
}

Status prune(Store& store, bool dry_run) {
  IdlePrune options;
  options.left_since_unix_ns = INT64_MAX;
  options.dry_run = dry_run;
  return store.prune_idle("demo", options).status();
}

// Removes it at the end.
struct Folder {
  std::string path;
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

int main(int count, char** arguments) {
  const uint64_t most = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000;
  const std::string where = count > 2 ? arguments[2] : "/dev/shm";
  if (most < 10 || most > 1'000'000) {
    std::fprintf(stderr, "usage: listing_bench [CHECKPOINTS [FOLDER]]\n");
    return 2;
  }
  std::printf("%12s%24s%24s%24s\n", "checkpoints", "list", "would prune", "prune");
  FileSystem& files = posix_file_system();
  for (const uint64_t checkpoints : {most / 10, most / 2, most}) {
    const Folder folder{where + "/gpusnap-listing-" + std::to_string(::getpid())};
    (void)seconds([&] { return test::make_checkpoints(files, folder.path, checkpoints); });
    const auto store = Store::open(files, folder.path, false);
    if (!store.ok()) return 1;
    Store& opened = *store.value();
    const Took took[] = {seconds([&] { return opened.list("demo").status(); }),
                         seconds([&] { return prune(opened, true); }),
                         seconds([&] { return prune(opened, false); })};
    std::printf("%12llu", static_cast<unsigned long long>(checkpoints));
    for (const Took& each : took) std::printf("%9.3f s (%6.3f CPU)", each.all, each.processor);
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
