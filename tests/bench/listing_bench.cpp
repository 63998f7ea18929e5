// SPDX-License-Identifier: Apache-2.0
//
// Lists and prunes a store of many checkpoints, on a file system in memory: what is measured is
// what we do and not what a device does.
//
//   listing_bench [CHECKPOINTS [FOLDER]]     10,000 in /dev/shm
//
// Exits with 1 where a bar is missed. The bars are on medians of processor time, which others on
// the machine take little from: a list costs at most 100 us for each checkpoint (a second for
// 10,000), and pruning ten times as many at most 15 times as much, where 100 would be quadratic.
// Unit tests count the operations.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

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

constexpr size_t kRounds = 5;
constexpr double kListSeconds = 100e-6;  // for each checkpoint
constexpr double kPruneGrowth = 15;      // from a tenth of the checkpoints on

// By a processor.
double seconds(const std::function<Status()>& work) {
  const double before = processor_seconds();
  const Status done = work();
  if (!done.ok()) {
    std::fprintf(stderr, "listing_bench: %s\n", done.message().c_str());
    std::exit(1);
  }
  return processor_seconds() - before;
}

struct Times {
  std::vector<double> seconds;
  void add(double one) {
    seconds.push_back(one);
    std::ranges::sort(seconds);
  }
  double median() const { return seconds[seconds.size() / 2]; }
  double spread() const { return (seconds.back() - seconds.front()) / 2; }
};

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

enum What : size_t { kList, kWouldPrune, kPrune };
using Row = std::array<Times, 3>;

// Adds one round with so many checkpoints. False where there can be none.
bool measure(uint64_t checkpoints, const std::string& where, Row& row) {
  FileSystem& files = posix_file_system();
  const Folder folder{where + "/gpusnap-listing-" + std::to_string(::getpid())};
  (void)seconds([&] { return test::make_checkpoints(files, folder.path, checkpoints); });
  const auto store = Store::open(files, folder.path, false);
  if (!store.ok()) return false;
  Store& opened = *store.value();
  row[kList].add(seconds([&] { return opened.list("demo").status(); }));
  row[kWouldPrune].add(seconds([&] { return prune(opened, true); }));
  row[kPrune].add(seconds([&] { return prune(opened, false); }));
  return true;
}

// Says what is missed, and by how much.
bool meets_bars(uint64_t most, const std::map<uint64_t, Row>& rows) {
  bool good = true;
  const auto judge = [&](const char* what, double is, double may) {
    std::printf("%s: %.3f s, at most %.3f s%s\n", what, is, may, is <= may ? "" : ": MISSED");
    good = good && is <= may;
  };
  judge("list", rows.at(most)[kList].median(), kListSeconds * static_cast<double>(most));
  judge("prune", rows.at(most)[kPrune].median(),
        kPruneGrowth * rows.at(most / 10)[kPrune].median());
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t most = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000;
  const std::string where = count > 2 ? arguments[2] : "/dev/shm";
  if (most < 10 || most > 1'000'000) {
    std::fprintf(stderr, "usage: listing_bench [CHECKPOINTS [FOLDER]]\n");
    return 2;
  }
  std::map<uint64_t, Row> rows;
  for (size_t round = 0; round < kRounds; ++round) {
    for (const uint64_t checkpoints : {most / 10, most / 2, most}) {
      if (!measure(checkpoints, where, rows[checkpoints])) return 1;
    }
  }
  std::printf("processor time, medians of %zu rounds and half their spread\n", kRounds);
  std::printf("%12s%24s%24s%24s\n", "checkpoints", "list", "would prune", "prune");
  for (const auto& [checkpoints, row] : rows) {
    std::printf("%12llu", static_cast<unsigned long long>(checkpoints));
    for (const Times& each : row) std::printf("%13.3f s +-%.3f s", each.median(), each.spread());
    std::printf("\n");
  }
  return meets_bars(most, rows) ? 0 : 1;
}
