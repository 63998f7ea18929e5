// The four policies side by side over a table of scenarios, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/comparison/scenario.h"

namespace gpusnap::comparison {
namespace {

constexpr double kMb = 1e6;

double memory(double writers) {
  return std::min(20'000 * kMb, 2'500 * kMb * writers);
}

// The paper's SSD: slow with few writers, best at 16, then falling.
double ssd(double writers) {
  if (writers < 16) return 700 * kMb * std::pow(std::min(1.0, writers / 8), 0.7);
  return 700 * kMb / (1 + 0.012 * (writers - 16));
}

// One that suffers more from many writers.
double poor_ssd(double writers) {
  return 500 * kMb * writers / (writers + 1) / (1 + 0.02 * writers);
}

double even_ssd(double) {
  return 500 * kMb;
}

// From its time on, in bytes per second of all flushes together.
struct StoreSpeed {
  double from_s = 0;
  double bytes_per_second = 0;
};

std::vector<StoreSpeed> store(double speed) {
  return {{0, speed}};
}

// One file is as fast as many.
Store store_of(std::vector<StoreSpeed> speeds) {
  const double first = speeds[0].bytes_per_second;
  Store store{.of_node = first, .best_files = 1, .least_left = 1, .interval_s = 1};
  store.total = std::numeric_limits<double>::max();
  if (speeds.size() == 1) return store;
  store.part_at = [speeds = std::move(speeds), first](double now_s) {
    double speed = 0;
    for (const StoreSpeed& each : speeds) {
      if (each.from_s <= now_s) speed = each.bytes_per_second;
    }
    return speed / first;
  };
  return store;
}

struct Case {
  std::string name;
  Scenario scenario;
};

// With a store that is known from checkpoints before: the average does not begin with nothing.
Case make_case(std::string name, Curve ssd_total, uint32_t producers, uint64_t chunks_each,
               uint64_t cache, std::vector<StoreSpeed> speeds) {
  Scenario scenario;
  scenario.machine = {memory, std::move(ssd_total), 0, store_of(std::move(speeds))};
  scenario.flushing.threads = 16;
  scenario.writers = producers;
  scenario.chunks = chunks_each;
  scenario.cache_chunks = cache;
  scenario.ssd_chunks = 1 << 20;
  scenario.first_flush_bandwidth =
      scenario.machine.store.of_node / static_cast<double>(std::max<uint64_t>(cache, 1));
  return {std::move(name), std::move(scenario)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::pair<const char*, double (*)(double)> ssds[] = {
      {"ssd", ssd}, {"poor ssd", poor_ssd}, {"even ssd", even_ssd}};
  const auto add = [&all](std::string name, auto ssd_total, uint32_t producers,
                          uint64_t chunks_each, uint64_t cache, std::vector<StoreSpeed> speeds) {
    name += ", " + std::to_string(producers) + " x " + std::to_string(chunks_each) + ", cache " +
            std::to_string(cache) + ", store " +
            std::to_string(int(speeds[0].bytes_per_second / kMb)) +
            (speeds.size() > 1 ? "..." : "");
    all.push_back(make_case(name, ssd_total, producers, chunks_each, cache, std::move(speeds)));
  };
  for (const auto& [name, total] : ssds) {
    for (const double speed : {300 * kMb, 600 * kMb, 1500 * kMb}) {
      for (const uint32_t producers : {64, 128, 256}) {
        add(std::string("weak, ") + name, total, producers, 4, 32, store(speed));
      }
      for (const uint32_t producers : {4, 16, 64, 256}) {
        add(std::string("strong, ") + name, total, producers, 512 / producers, 32, store(speed));
      }
      for (const uint64_t cache : {32, 64, 128}) {
        add(std::string("cache sizes, ") + name, total, 64, 8, cache, store(speed));
      }
    }
    const auto changing = [&, ssd_total = total, ssd_name = name](const char* how, auto speeds) {
      add(std::string(how) + ", " + ssd_name, ssd_total, 64, 8, 32, speeds);
    };
    changing("slows down", std::vector<StoreSpeed>{{0, 1500 * kMb}, {8, 200 * kMb}});
    changing("speeds up", std::vector<StoreSpeed>{{0, 200 * kMb}, {8, 1500 * kMb}});
    std::vector<StoreSpeed> waves;
    for (int i = 0; i < 40; ++i) waves.push_back({5.0 * i, (i % 2 == 0 ? 300 : 1200) * kMb});
    changing("waves", waves);
  }
  return all;
}

constexpr PlacementPolicy kPolicies[] = {PlacementPolicy::kCacheOnly, PlacementPolicy::kSsdOnly,
                                         PlacementPolicy::kHybridNaive,
                                         PlacementPolicy::kHybridOpt};

// The times of hybrid-opt, divided by the least of the others.
struct Ratios {
  double local = 0;
  double complete = 0;
};

class Comparison {
 public:
  explicit Comparison(const Case& compared) : table_(compared.name) {
    Scenario scenario = compared.scenario;
    for (const PlacementPolicy policy : kPolicies) {
      scenario.policy = policy;
      outcomes_.push_back(simulate(scenario));
      const Outcome& outcome = outcomes_.back();
      EXPECT_EQ(outcome.wrong, "") << compared.name;
      table_ += " | local " + std::to_string(outcome.local_s) + " complete " +
                std::to_string(outcome.complete_s) + " ssd " + std::to_string(outcome.placed[1]);
    }
  }

  // Against all from the policy at `first` of kPolicies on.
  Ratios opt_against(size_t first) const {
    double local = outcomes_[first].local_s;
    double complete = outcomes_[first].complete_s;
    for (size_t i = first; i + 1 < outcomes_.size(); ++i) {
      local = std::min(local, outcomes_[i].local_s);
      complete = std::min(complete, outcomes_[i].complete_s);
    }
    return {outcomes_.back().local_s / local, outcomes_.back().complete_s / complete};
  }
  const std::string& table() const { return table_; }

 private:
  std::vector<Outcome> outcomes_;
  std::string table_;
};

constexpr size_t kAll = 0;
constexpr size_t kWithTheSsd = 1;  // the cache alone is no way where it is too small

TEST(PoliciesTest, HybridOptIsNotBehindTheOthers) {
  for (const Case& compared : cases()) {
    const Comparison comparison(compared);
    const Ratios ratios = comparison.opt_against(kAll);
    // Where the store becomes seven times as fast, those that had begun to write to the SSD are not
    // done before the cache alone would have been; nobody knew.
    const bool speeds_up = compared.name.starts_with("speeds up");
    EXPECT_LE(ratios.local, speeds_up ? 1.12 : 1.05) << comparison.table();
    EXPECT_LE(ratios.complete, speeds_up ? 1.12 : 1.02) << comparison.table();
  }
}

struct Circumstance {
  const char* name;
  std::function<void(Scenario&)> apply;
  double most_local;
};

// With few flushes at a time each is fast, but a chunk waits for its own: only if that counts, the
// rule compares a write with what whoever waits for a flush sees. Chunks on the SSD that cost it
// reads are a price that the rule does not see.
TEST(PoliciesTest, HybridOptIsNotBehindTheOthersElsewhere) {
  const Circumstance circumstances[] = {
      {"one flush at a time", [](Scenario& s) { s.flushing.threads = 1; }, 1.05},
      {"four flushes at a time", [](Scenario& s) { s.flushing.threads = 4; }, 1.05},
      {"flushes load the SSD", [](Scenario& s) { s.machine.read_weight = 1; }, 1.1},
      {"a store not yet known",
       [](Scenario& s) { s.first_flush_bandwidth = memory(s.writers) / s.writers / 2; }, 1.1},
  };
  for (const Circumstance& circumstance : circumstances) {
    for (Case compared : cases()) {
      circumstance.apply(compared.scenario);
      const Comparison comparison(compared);
      const Ratios ratios = comparison.opt_against(kWithTheSsd);
      EXPECT_LE(ratios.local, circumstance.most_local) << circumstance.name << comparison.table();
      EXPECT_LE(ratios.complete, 1.02) << circumstance.name << ", " << comparison.table();
    }
  }
}

}  // namespace
}  // namespace gpusnap::comparison
